/** Suspends a process (SIGSTOP), and resumes it (SIGCONT). */
import { readFile, readdir } from 'node:fs/promises';

import { waitFor } from '../support/wait-for.ts';

/**
 * Sends SIGSTOP, and resolves when no thread of the process runs any more. `kill` returns before that, while threads
 * can still answer a request. On systems without /proc it resolves at once.
 * @throws Error if the process does not exist
 */
export async function suspendProcess(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP');
  if (process.platform !== 'linux') return;
  // Two checks: a thread that ran during the first one can have started another thread.
  const suspended = async (): Promise<boolean> =>
    (await everyThreadIsStopped(pid)) && (await everyThreadIsStopped(pid));
  await waitFor(suspended, { intervalMs: 1, message: `process ${pid} to be suspended` });
}

/**
 * Sends SIGCONT. The kernel wakes all threads before this returns. When the process answers again depends on the
 * machine.
 */
export function resumeProcess(pid: number): void {
  process.kill(pid, 'SIGCONT');
}

async function everyThreadIsStopped(pid: number): Promise<boolean> {
  const threads = await readdir(`/proc/${pid}/task`);
  const stopped = threads.map(async (thread) =>
    /^State:\s+T/m.test(await readFile(`/proc/${pid}/task/${thread}/status`, 'utf8')),
  );
  return (await Promise.all(stopped)).every(Boolean);
}
