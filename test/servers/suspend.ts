/** Suspends a process (SIGSTOP) and resumes it (SIGCONT). */
import { readFile, readdir } from 'node:fs/promises';

import { waitFor } from '../support/wait-for.ts';

/**
 * Sends SIGSTOP, and resolves when all threads of the process have stopped. (`kill` returns earlier: a thread could
 * still answer a request.) On systems without /proc, it resolves immediately.
 * @throws Error if the process does not exist
 */
export async function suspendProcess(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP');
  if (process.platform !== 'linux') return;
  // It checks twice: a thread that still ran during the first check can have started another thread.
  const suspended = async (): Promise<boolean> =>
    (await everyThreadIsStopped(pid)) && (await everyThreadIsStopped(pid));
  await waitFor(suspended, { intervalMs: 1, message: `process ${pid} to be suspended` });
}

/**
 * Sends SIGCONT. All threads can run when this returns. A busy machine may delay the first answer of the process.
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
