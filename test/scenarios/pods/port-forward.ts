import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

import type { RealCluster } from '../../servers/real-cluster/cluster.ts';
import { Reaper } from '../../servers/reaper.ts';

const TIMEOUT_MS = 60_000;

/** Runs `work` with the URL at which `kubectl port-forward` offers a port of a Pod. */
export async function withPortForward<T>(
  cluster: RealCluster,
  namespace: string,
  target: string,
  port: number,
  work: (url: string) => Promise<T>,
): Promise<T> {
  const { command, env } = await cluster.kubectlCommand();
  const child = spawn(command, ['port-forward', `--namespace=${namespace}`, target, `:${port}`], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (child.pid !== undefined) Reaper.shared().addProcess(child.pid);
  const ended = once(child, 'exit');
  try {
    const lines = createInterface({ input: child.stdout });
    const [line] = (await once(lines, 'line', { signal: AbortSignal.timeout(TIMEOUT_MS) })) as [string];
    const local = /^Forwarding from (127\.0\.0\.1:\d+)/.exec(line)?.[1];
    if (local === undefined) throw new Error(`kubectl port-forward: ${line}`);
    return await work(`http://${local}`);
  } finally {
    child.kill('SIGKILL');
    await ended;
    if (child.pid !== undefined) Reaper.shared().removeProcess(child.pid);
  }
}
