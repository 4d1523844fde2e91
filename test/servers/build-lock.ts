/**
 * A lock file. With it, only one build runs on this machine at any time.
 *
 * States: free (no file) → held → free. The file of a held lock has pid and host of the holder, and every HEARTBEAT_MS
 * the holder updates its mtime. Another process takes the lock if the holder ran on this host and has exited, or if the
 * mtime is older than STALE_MS. (Other hosts and containers may share the cache.) The lock only saves work. Two builds
 * at the same time do no harm, because each renames a complete binary to the final name.
 */
import { randomUUID } from 'node:crypto';
import { link, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';

const HEARTBEAT_MS = 5_000;
const STALE_MS = 60_000;
const POLL_MS = 250;

/**
 * Runs `work` while it holds the lock file.
 * @param onWait called at each poll while another process holds the lock, with that process's pid, or `?`. If it
 * returns a result, the wait ends, and `work` does not run
 */
export async function withLock<T>(
  file: string,
  work: () => Promise<T>,
  onWait: (holder: string) => T | undefined,
  signal?: AbortSignal,
): Promise<T> {
  while (!(await take(file))) {
    const holder = await holderOf(file);
    if (holder === 'stale') await discard(file);
    else if (holder !== 'free') {
      const result = onWait(holder);
      if (result !== undefined) return result;
      await delay(POLL_MS, undefined, signal === undefined ? {} : { signal });
    }
  }
  const heartbeat = setInterval(() => {
    // If this fails, the lock only looks older than it is.
    utimes(file, new Date(), new Date()).catch(() => undefined);
  }, HEARTBEAT_MS);
  heartbeat.unref();
  try {
    return await work();
  } finally {
    clearInterval(heartbeat);
    await rm(file, { force: true });
  }
}

/** Creates the file together with its content, so that no other process reads an empty lock file. */
async function take(file: string): Promise<boolean> {
  const draft = `${file}.${randomUUID()}`;
  await writeFile(draft, JSON.stringify({ pid: process.pid, host: hostname() }));
  try {
    await link(draft, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

async function holderOf(file: string): Promise<string> {
  try {
    const { mtimeMs } = await stat(file);
    if (Date.now() - mtimeMs > STALE_MS) return 'stale';
    const { pid, host } = JSON.parse(await readFile(file, 'utf8')) as { pid: number; host: string };
    return host === hostname() && !isAlive(pid) ? 'stale' : String(pid);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 'free';
    if (error instanceof SyntaxError) return '?';
    throw error;
  }
}

async function discard(file: string): Promise<void> {
  const aside = `${file}.${randomUUID()}`;
  try {
    await rename(file, aside);
  } catch (error) {
    // Another process has already removed the file.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  await rm(aside, { force: true });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
