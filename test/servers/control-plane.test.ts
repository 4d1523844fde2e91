import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { describe, it } from 'node:test';

import { longIt } from '../support/long.ts';
import { waitFor } from '../support/wait-for.ts';
import { startControlPlane } from './control-plane.ts';
import type { ControlPlane } from './control-plane.ts';

describe('control plane', () => {
  longIt('a new control plane has the RBAC roles of an earlier one, but its own namespaces', async () => {
    const start = async () => await startControlPlane({ controllerManager: false, own: true });
    await using plane = await start();
    await using other = await start();
    const roles = '/apis/rbac.authorization.k8s.io/v1/clusterroles';
    const uidOf = async ({ api }: ControlPlane, path: string): Promise<string> => (await api.get(path)).metadata.uid;
    assert.equal(await uidOf(other, `${roles}/view`), await uidOf(plane, `${roles}/view`));
    // Keyferry tells clusters apart by the uid of their namespace kube-system.
    const namespace = '/api/v1/namespaces/kube-system';
    await waitFor(() => other.api.find(namespace));
    assert.notEqual(await uidOf(other, namespace), await uidOf(plane, namespace));
  });

  longIt(
    'if a server does not start, the error has the end of its log, and neither processes nor folders are left',
    async () => {
      let folder = '';
      await assert.rejects(
        startControlPlane({ controllerManager: false, apiServerFlags: ['--no-such-flag'] }),
        ({ message }: Error) => {
          folder = /\((\/.*)\/kube-apiserver\.log\)/.exec(message)?.[1] ?? '';
          return /kube-apiserver ended \(1\)[^]*unknown flag: --no-such-flag/.test(message);
        },
      );
      assert.ok(folder !== '' && !existsSync(folder));
    },
  );

  it("if the test's process is killed, the servers of its control plane end", async () => {
    const victim = spawn(process.execPath, ['-e', VICTIM], {
      cwd: import.meta.dirname,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let text = '';
    victim.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
    await waitFor(() => text.endsWith('\n'));
    const { url, folder } = JSON.parse(text) as { url: string; folder: string };
    victim.kill('SIGKILL');
    await waitFor(() => !existsSync(folder), { message: `${folder} to go` });
    // Only a refused connection proves that no server runs. Any other failure was caused by a server.
    const isRefused = async (): Promise<boolean> =>
      await fetch(url).then(
        () => false,
        ({ cause }: Error) => (cause as NodeJS.ErrnoException).code === 'ECONNREFUSED',
      );
    await waitFor(isRefused, { message: 'the API server to end' });
  });
});

const VICTIM = `
const { startControlPlane } = await import('./control-plane.ts');
const { url, folder } = await startControlPlane({ controllerManager: false, own: true });
console.log(JSON.stringify({ url, folder }));
`;
