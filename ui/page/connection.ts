/**
 * Where the data come from: the file itself (a report), or the server.
 *
 *   code in the address ──▶ token ──▶ stream ──ended──▶ tries again each second
 *   none: another tab of this page gives its token, or the page says how to get in
 *
 * The code leaves the address at once. The token is kept for this tab alone.
 */
import type { PlanReport } from '../../scripts/reports/schemas.ts';
import type { PageData, PageMessage, PageRule, Trouble } from '../data.ts';

const KEY = 'keyferry-token';
const RETRY_MS = 1000;
/** How long another tab may take to answer, ms. A tab in the background is slow. */
const TAB_MS = 2000;

export interface Listener {
  readonly onData: (data: PageData) => void;
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
  const channel = new BroadcastChannel(KEY);
  let token = (await exchanged()) ?? sessionStorage.getItem(KEY) ?? (await fromOtherTab(channel));
  channel.addEventListener('message', ({ data }) => {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel has one origin
    if (data === 'who has a token?' && token !== null) channel.postMessage({ token });
  });
  let since: string | undefined;
  for (;;) {
    if (token === null) return onLocked();
    sessionStorage.setItem(KEY, token);
    try {
      const response = await fetch('/data', { headers: { authorization: `Bearer ${token}` } });
      if (response.status === 401) {
        sessionStorage.removeItem(KEY);
        token = await fromOtherTab(channel);
        continue;
      }
      for await (const message of linesOf(response)) {
        since = undefined;
        if ('trouble' in message) onTrouble(message.trouble);
        else onData(merged(rules, message));
      }
    } catch {
      // The server has ended, or does not answer. The page says so, and tries again.
    }
    since ??= new Date().toISOString();
    onTrouble({ since, message: 'keyferry ui does not answer. Has it ended?' });
    await new Promise((resolve) => void setTimeout(resolve, RETRY_MS));
  }
}

/** Exchanges the code in the address for a token; `undefined`: there is no code, or it is not valid. */
async function exchanged(): Promise<string | undefined> {
  const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1];
  if (code === undefined) return undefined;
  history.replaceState(null, '', '/');
  const headers = { 'content-type': 'application/json' };
  const response = await fetch('/session', { method: 'POST', headers, body: JSON.stringify({ code }) });
  return response.ok ? ((await response.json()) as { token: string }).token : undefined;
}

/** A tab that a link opened gets the token of the tab that it came from. Only pages of this server can answer. */
async function fromOtherTab(channel: BroadcastChannel): Promise<string | null> {
  return await new Promise((resolve) => {
    const onMessage = ({ data }: MessageEvent<{ token?: string }>): void => {
      if (typeof data.token === 'string') resolve(data.token);
    };
    channel.addEventListener('message', onMessage);
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel has one origin
    channel.postMessage('who has a token?');
    setTimeout(() => {
      channel.removeEventListener('message', onMessage);
      resolve(null);
    }, TAB_MS);
  });
}

async function* linesOf(response: Response): AsyncGenerator<PageMessage> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
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
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ''}` };
  const response = await fetch('/plan', { method: 'POST', headers, body: JSON.stringify({ manifests }) });
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as PlanReport;
}
