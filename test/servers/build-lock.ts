/**
 * A lock file, so that only one build runs on this machine. A lock whose holder was killed is taken over.
 *
 * States: free (no file) → held (a file with pid and host of the holder, whose mtime moves every HEARTBEAT_MS) → free.
 * A held lock is stale if the holder on this host has exited, or if the mtime is older than STALE_MS, because another
 * host or container can share the cache. The lock only saves work: a binary is renamed into place, so the cache stays
 * right even if two builds run.
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
 * @param onWait is called at every poll with the holder: a pid, or `?`. If it returns a result, the wait ends without
 * `work`
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
    // A failure only makes the lock look older than it is.
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

/** Creates the file with its content in one step, so that nobody reads an empty lock file. */
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
    // Another process removed the file first.
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
