/** What `keyferry ui` does with the data of the cluster: serves the page until Ctrl-C, or writes it into a file. */
import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';

import type { PageOptions, PageSource } from '../data.ts';
import { Feed } from './feed.ts';
import { Sessions } from './guard.ts';
import { pageFile } from './page-file.ts';
import { redacted } from './redact.ts';
import { servePage } from './server.ts';

interface Terminal {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  readonly signal: AbortSignal;
}

export async function showPage(source: PageSource, options: PageOptions, terminal: Terminal): Promise<void> {
  const { out, redact } = options;
  if (out === undefined) return await serve(source, options, terminal);
  const data = await source.read();
  // Names of Secrets are nobody else's business, so only the owner of the file may read it.
  await writeFile(out, pageFile(redact ? redacted(data) : data), { mode: 0o600 });
  terminal.stdout(`Wrote ${out}${redact ? ', with other names and without messages' : ''}. It has no values.\n`);
}

async function serve(
  { cluster, follow, plan }: PageSource,
  { port, open }: PageOptions,
  { stdout, stderr, signal }: Terminal,
): Promise<void> {
  const sessions = new Sessions(Date.now);
  const feed = new Feed();
  const following = follow(
    (data) => feed.put(data),
    (message) => feed.setTrouble(message),
    signal,
  );
  // A cluster that cannot be read is an error of the command, not of the page.
  await Promise.race([feed.lines().next(), following]);
  if (signal.aborted) return;
  using server = await servePage({ sessions, feed, plan }, port);
  const address = (): string => `http://127.0.0.1:${server.port}/#code=${sessions.newCode()}`;
  const url = address();
  stdout(`The page of ${cluster}: ${url}\n`);
  stdout('The address works once, for 10 minutes. Enter prints a new one, Ctrl-C ends.\n');
  if (open) openBrowser(url, stderr);
  process.stdin.on('data', () => stdout(`${address()}\n`));
  try {
    await following;
  } finally {
    process.stdin.destroy();
  }
}

/** The program that opens an address, with its arguments. */
const OPENERS: Readonly<Partial<Record<NodeJS.Platform, readonly string[]>>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
};

/** Opens the browser, if this machine has a screen. */
function openBrowser(url: string, stderr: (text: string) => void): void {
  const { platform, env } = process;
  if (platform === 'linux' && (env['DISPLAY'] ?? env['WAYLAND_DISPLAY'] ?? '') === '') return;
  const [command = '', ...args] = OPENERS[platform] ?? ['xdg-open'];
  const child = spawn(command, [...args, url], { detached: true, stdio: 'ignore' });
  child.once('error', () => stderr('keyferry ui: no browser was found; open the address yourself\n'));
  child.unref();
}
