/**
 * One build at a time on this machine: a lock file, which is recovered when its holder was killed.
 *
 * States: free (no file) → held (file with the holder's pid and host, its mtime moved every HEARTBEAT_MS) → free.
 * A held lock is stale when its holder's process on this host has exited, or when its mtime is older than STALE_MS (another
 * host or container that shares the cache). The lock only saves work. A binary is renamed into place, so the cache is correct even
 * if a stale lock is taken twice and two builds run.
 */
import { randomUUID } from 'node:crypto';
import { link, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';

const HEARTBEAT_MS = 5_000;
const STALE_MS = 60_000;
const POLL_MS = 250;

/**
 * Runs `work` while holding the lock file.
 * @param onWait gets the holder (a pid, or `?`) at every poll. A result that it returns ends the wait, without `work`
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
    // A failed touch only makes the lock look older than it is.
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

/** Creates the file with its content in one step, so that a reader never sees an empty lock. */
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
    // Another process removed it first.
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
