/**
 * Where the data come from: the file itself (a report), or the server.
 *
 *   code in the address ──▶ token ──▶ stream ──ended──▶ tries again each second
 *                             └─not valid─▶ the page says how to get in, and ends
 *
 * The code leaves the address at once. All tabs of this page have the token; it is worth nothing after the server ends.
 */
import type { PlanReport } from '../../scripts/reports/schemas.ts';
import type { PageData, PageFrame, PageMessage, PageRule } from '../data.ts';

const KEY = 'keyferry-token';
const RETRY_MS = 1000;
const NO_ACCESS =
  'This page has no access: its address was used already, or is too old. Press Enter in the terminal where keyferry ui runs, and open the address that it prints.';

/** The data in this file; `undefined`: the page comes from a server. */
export async function dataInFile(): Promise<PageData | undefined> {
  const packed = document.querySelector('#data')?.textContent;
  if (packed === undefined || packed === null) return undefined;
  const bytes = Uint8Array.from(atob(packed), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return JSON.parse(await new Response(stream).text()) as PageData;
}

/** What the page shows. */
export interface Known extends Pick<PageMessage, 'trouble'> {
  /** `undefined`: the server has not sent them yet. */
  readonly data: PageData | undefined;
  /** Nothing but the time and the trouble have changed. */
  readonly isSame: boolean;
}

/** What the server tells, until it refuses the token. */
export async function* follow(): AsyncGenerator<Known> {
  let frame = {} as PageFrame;
  let data: PageData | undefined;
  let trouble: PageMessage['trouble'] = null;
  await redeem();
  for (;;) {
    // An unchanged rule stays the same object, so that its row need not be made again.
    const known = new Map<string, PageRule>();
    const response = await ask('/data').catch(() => undefined);
    try {
      for await (const message of linesOf(response)) {
        const { at, rules, gone } = message;
        for (const id of gone) known.delete(id);
        for (const rule of rules) known.set(rule.id, rule);
        ({ trouble } = message);
        frame = message.frame ?? frame;
        data = { ...frame, at, rules: [...known.values()] };
        yield { data, trouble, isSame: message.frame === undefined && rules.length + gone.length === 0 };
      }
    } catch {
      // The server has ended. The page says so, and tries again.
    }
    const isRefused = response?.status === 401;
    const message = isRefused ? NO_ACCESS : 'keyferry ui does not answer. Has it ended?';
    trouble = { since: trouble?.since ?? new Date().toISOString(), message };
    yield { data, trouble, isSame: true };
    if (isRefused) return;
    await new Promise((resolve) => void setTimeout(resolve, RETRY_MS));
  }
}

/** A request with the token. @param body as JSON */
async function ask(path: string, body?: object): Promise<Response> {
  const authorization = `Bearer ${localStorage.getItem(KEY)}`;
  if (body === undefined) return await fetch(path, { headers: { authorization } });
  const headers = { authorization, 'content-type': 'application/json' };
  return await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) });
}

/** Exchanges the code in the address for a token. */
async function redeem(): Promise<void> {
  const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1];
  if (code === undefined) return;
  history.replaceState(null, '', '/');
  const response = await ask('/session', { code });
  if (response.ok) localStorage.setItem(KEY, ((await response.json()) as { token: string }).token);
}

async function* linesOf(response: Response | undefined): AsyncGenerator<PageMessage> {
  const reader = response?.body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const part = await reader?.read();
    if (part?.value === undefined) return;
    const lines = (rest + part.value).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) yield JSON.parse(line) as PageMessage;
  }
}

/** @throws Error with the answer of the server */
export async function plan(manifests: string): Promise<PlanReport> {
  const response = await ask('/plan', { manifests });
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as PlanReport;
}
