/** What `keyferry ui` does with the data of the cluster: serves the page until Ctrl-C, or writes it into a file. */
import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';

import { rfc3339 } from '../../src/runtime/text/texts.ts';
import type { PageOptions, PageSource, PageTerminal } from '../data.ts';
import { Feed } from './feed.ts';
import { pageFile } from './page-file.ts';
import { redacted } from './redact.ts';
import { servePage } from './server.ts';
import { Sessions } from './session.ts';

export async function showPage(source: PageSource, options: PageOptions, terminal: PageTerminal): Promise<void> {
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
  { stdout, stderr, now, signal }: PageTerminal,
): Promise<void> {
  const sessions = new Sessions(now);
  const feed = new Feed();
  const first = Promise.withResolvers<void>();
  const following = follow(
    (data) => {
      feed.put(data);
      first.resolve();
    },
    (message) => feed.setTrouble(message, rfc3339(now())),
    signal,
  );
  // A cluster that cannot be read is an error of the command, not of the page.
  await Promise.race([first.promise, following]);
  if (signal.aborted) return;
  await using server = await servePage({ sessions, feed, plan }, port);
  const address = (): string => `http://127.0.0.1:${server.port}/#code=${sessions.newCode()}`;
  const url = address();
  stdout(`The page of ${cluster}: ${url}\n`);
  stdout('The address works once, for 10 minutes. Enter prints a new one, Ctrl-C ends.\n');
  if (open) openBrowser(url, stderr);
  const onEnter = (): void => stdout(`${address()}\n`);
  process.stdin.on('data', onEnter);
  try {
    await following;
  } finally {
    process.stdin.off('data', onEnter);
    process.stdin.destroy();
  }
}

/** Opens the browser, if this machine has a screen. */
function openBrowser(url: string, stderr: (text: string) => void): void {
  const { platform, env } = process;
  const hasScreen = platform !== 'linux' || (env['DISPLAY'] ?? env['WAYLAND_DISPLAY'] ?? '') !== '';
  if (!hasScreen) return;
  const [command, ...args] =
    platform === 'darwin'
      ? ['open', url]
      : platform === 'win32'
        ? ['rundll32', 'url.dll,FileProtocolHandler', url]
        : ['xdg-open', url];
  const child = spawn(command ?? '', args, { detached: true, stdio: 'ignore' });
  child.once('error', () => stderr('keyferry ui: no browser was found; open the address yourself\n'));
  child.unref();
}
