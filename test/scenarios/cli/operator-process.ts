/** Runs `keyferry run` as a process for a test. */
import path from 'node:path';

import type { ControlPlane } from '../../servers/control-plane.ts';
import { freePort } from '../../servers/ports.ts';
import { ServerProcess } from '../../servers/server-process.ts';

const PROGRAM = path.join(import.meta.dirname, '../../../bin/keyferry.cjs');
const READY_TIMEOUT_MS = 30_000;

/** Starts `keyferry run` and waits until it is ready. The caller must stop the process. */
export async function startOperator(plane: ControlPlane, kubeconfig = plane.kubeconfigPath): Promise<ServerProcess> {
  const port = await freePort();
  const child = new ServerProcess({
    name: 'keyferry',
    command: process.execPath,
    args: [
      PROGRAM,
      'run',
      '--controllers=mirrors',
      '--leader-elect',
      '--leader-elect-namespace=keyferry',
      `--kubeconfig=${kubeconfig}`,
      `--status-address=127.0.0.1:${port}`,
    ],
    logFile: path.join(plane.folder, `keyferry-${port}.log`),
  });
  await child.ready(async () => (await fetch(`http://127.0.0.1:${port}/readyz`)).ok, READY_TIMEOUT_MS);
  return child;
}
