/**
 * One build at a time on this machine: a lock file that survives its holder's sudden death.
 *
 * States: free (no file) → held (file with the holder's pid and host, its mtime moved every HEARTBEAT_MS) → free.
 * A held lock is stale when its holder runs on this host and is gone, or when its mtime stands still for STALE_MS (another
 * host or container that shares the cache). The lock only saves work: a binary is put in place by rename, so that two
 * builders at once, should a stale lock be taken twice, still leave a whole one.
 */
import { randomUUID } from 'node:crypto';
import { link, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';

const HEARTBEAT_MS = 5_000;
const STALE_MS = 60_000;
const POLL_MS = 250;

/** Runs `work` while holding the lock file; `onWait` gets the holder (a pid, or `?`) at every poll. */
export async function withLock<T>(
  file: string,
  work: () => Promise<T>,
  onWait: (holder: string) => void,
  signal?: AbortSignal,
): Promise<T> {
  while (!(await take(file))) {
    const holder = await holderOf(file);
    if (holder === 'stale') await discard(file);
    else if (holder !== 'free') {
      onWait(holder);
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

/** Creates the file with its content in one step, so that no one ever reads an empty lock. */
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
    // Someone else discarded it first.
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
