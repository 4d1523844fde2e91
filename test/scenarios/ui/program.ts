/** Runs `keyferry ui` as a user does, and opens its page. */
import type { Browser, Tab } from '../../support/browser.ts';
import { ensureBundle } from '../../support/bundle.ts';
import { RunningProgram } from '../cli/program.ts';

export interface RunningPage extends AsyncDisposable {
  /** `http://127.0.0.1:PORT` */
  readonly origin: string;
  /** With the code that was printed. */
  readonly url: string;
  readonly program: RunningProgram;
}

export async function startPage(kubeconfig: string, ...args: readonly string[]): Promise<RunningPage> {
  await ensureBundle();
  const program = new RunningProgram(['ui', '--open=false', '--kubeconfig', kubeconfig, ...args]);
  try {
    await program.seen('stdout', /#code=\S+\n/);
  } catch (error) {
    await program[Symbol.asyncDispose]();
    throw error;
  }
  const url = /http:\S+/.exec(program.stdout)?.[0] ?? '';
  return {
    origin: new URL(url).origin,
    url,
    program,
    [Symbol.asyncDispose]: async () => await program[Symbol.asyncDispose](),
  };
}

/** A tab in which the page has its data. */
export async function openPage(
  browser: Browser,
  { url }: RunningPage,
  size?: { width: number; height: number },
  scheme?: 'light' | 'dark',
): Promise<Tab> {
  const tab = await browser.open(url, size, scheme);
  await tab.sees(/● live/);
  return tab;
}
