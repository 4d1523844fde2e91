/**
 * Where the data come from: the file itself (a report), or the server.
 *
 *   code in the address ──▶ token ──▶ stream ──ended──▶ tries again each second
 *                             └─not valid─▶ the page says how to get in
 *
 * The code leaves the address at once. All tabs of this page have the token; it is worth nothing after the server ends.
 */
import type { PlanReport } from '../../scripts/reports/schemas.ts';
import type { PageData, PageMessage, PageRule, Trouble } from '../data.ts';

const KEY = 'keyferry-token';
const RETRY_MS = 1000;

export interface Listener {
  /** @param isSame nothing but the time has changed */
  readonly onData: (data: PageData, isSame: boolean) => void;
  readonly onTrouble: (trouble: Trouble | null) => void;
  /** There is no token, or it is no longer valid. */
  readonly onLocked: () => void;
}

/** The data in this file; `undefined`: the page comes from a server. */
export async function dataInFile(): Promise<PageData | undefined> {
  const packed = document.querySelector('#data')?.textContent;
  if (packed === undefined || packed === null) return undefined;
  const bytes = Uint8Array.from(atob(packed), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return JSON.parse(await new Response(stream).text()) as PageData;
}

export async function connect({ onData, onTrouble, onLocked }: Listener): Promise<void> {
  const rules = new Map<string, PageRule>();
  let frameText = '';
  let since: string | undefined;
  await redeem();
  for (;;) {
    const response = await ask('/data').catch(() => undefined);
    if (response?.status === 401) return onLocked();
    try {
      for await (const message of linesOf(response)) {
        since = undefined;
        if ('trouble' in message) onTrouble(message.trouble);
        else {
          const [before, isChanged] = [frameText, message.gone.length + message.rules.length > 0];
          frameText = JSON.stringify({ ...message.frame, at: '' });
          onData(merged(rules, message), !isChanged && before === frameText);
        }
      }
    } catch {
      // The server has ended. The page says so, and tries again.
    }
    since ??= new Date().toISOString();
    onTrouble({ since, message: 'keyferry ui does not answer. Has it ended?' });
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

/** An unchanged rule stays the same object, so that its row need not be made again. */
function merged(
  known: Map<string, PageRule>,
  { frame, rules, gone }: Extract<PageMessage, { frame: unknown }>,
): PageData {
  if (gone === 'others') known.clear();
  else for (const id of gone) known.delete(id);
  for (const rule of rules) known.set(rule.id, rule);
  return { ...frame, rules: [...known.values()] };
}

/** @throws Error with the answer of the server */
export async function plan(manifests: string): Promise<PlanReport> {
  const response = await ask('/plan', { manifests });
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as PlanReport;
}
