/** `keyferry demo`: runs the demo of the checkout with the same Node. */
import { spawn } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import type { DemoOptions } from '../commands/actions.ts';
import { STOP_SIGNALS } from '../operator/stop-signals.ts';

/**
 * Runs until the demo ends; signals are forwarded.
 * @param script path of the running program
 * @returns the demo's exit code
 * @throws Error outside a checkout
 */
export async function runDemo(options: DemoOptions, script = process.argv[1]): Promise<number> {
  const args: string[] = [demoFile(script ?? '.')];
  if (options.once) args.push('--once');
  if (options.kubeconfig !== undefined) args.push('--kubeconfig', options.kubeconfig);
  if (options.context !== undefined) args.push('--context', options.context);
  if (options.only !== undefined) args.push('--only', options.only);
  const child = spawn(process.execPath, args, { stdio: 'inherit' });
  const forward = (signal: NodeJS.Signals): void => void child.kill(signal);
  for (const signal of STOP_SIGNALS) process.on(signal, forward);
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code, signal) => resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])));
    });
  } finally {
    for (const signal of STOP_SIGNALS) process.off(signal, forward);
  }
}

/** The demo of the checkout that contains the program, which runs as `dist/keyferry.cjs` or `src/cli/main.ts`. */
function demoFile(script: string): string {
  let folder = dirname(realpathSync(script));
  while (!existsSync(join(folder, 'package.json')) && folder !== dirname(folder)) folder = dirname(folder);
  const file = join(folder, 'demo/main.ts');
  if (existsSync(file)) return file;
  throw new Error('demo/main.ts not found: this command works only in a checkout of Keyferry, after npm ci');
}
