import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';

import { TestApi } from '../support/api.ts';
import { longIt } from '../support/long.ts';
import { waitFor } from '../support/wait-for.ts';
import type { WatchEvent } from '../support/watcher.ts';
import { startControlPlane } from './control-plane.ts';
import type { ControlPlane } from './control-plane.ts';

describe('control plane', () => {
  let plane: ControlPlane;
  before(async () => {
    plane = await startControlPlane({ audit: true, users: [{ name: 'eve', groups: ['outsiders'] }] });
  });
  after(() => plane.stop());

  it('the control plane for tests accepts manifests, including CRDs, and lists the created objects', async () => {
    await plane.api.apply(CRD_AND_OBJECT);
    const boats = '/apis/test.example/v1/namespaces/default/boats';
    assert.deepEqual(
      (await plane.api.list(boats)).map((boat) => boat.spec.name),
      ['Ferry'],
    );
    await plane.api.createMany(
      Array.from({ length: 50 }, (_, n) => secret(`many-${n}`)),
      8,
    );
    assert.equal((await plane.api.list('/api/v1/namespaces/default/secrets')).length, 50);
    await assert.rejects(plane.api.create(secret('many-0')), {
      name: 'TestApiError',
      status: 409,
      reason: 'AlreadyExists',
    });
  });

  it('the control plane for tests knows its users by token and certificate, and RBAC decides on their permissions', async () => {
    using eve = plane.client({ user: 'eve' });
    await assert.rejects(eve.list('/api/v1/secrets'), { status: 403, reason: 'Forbidden' });
    const { certPem, keyPem } = await plane.clientCertificate({
      commonName: 'root',
      organizations: ['system:masters'],
    });
    using root = new TestApi({ url: plane.url, caPem: plane.caPem, clientCertPem: certPem, clientKeyPem: keyPem });
    assert.ok((await root.list('/api/v1/namespaces')).length >= 4);
  });

  it('the controller manager for tests empties deleted namespaces and creates ServiceAccounts', async () => {
    await plane.api.apply('{apiVersion: v1, kind: Namespace, metadata: {name: short-lived}}');
    await waitFor(() => plane.api.find('/api/v1/namespaces/short-lived/serviceaccounts/default'));
    await plane.api.delete('/api/v1/namespaces/short-lived');
    await waitFor(async () => (await plane.api.find('/api/v1/namespaces/short-lived')) === undefined, {});
  });

  it('for each event of a watch, the test client records when the event arrived', async () => {
    const seen: WatchEvent[] = [];
    await using watcher = await plane.api.watch('/api/v1/namespaces/default/secrets', (event) => seen.push(event));
    const from = performance.now();
    await plane.api.create(secret('watched'));
    await waitFor(() => seen.length > 0);
    assert.equal(seen[0]?.object.metadata.name, 'watched');
    assert.ok(seen[0].at >= from && seen[0].at <= performance.now());
    await watcher.stop();
  });

  it('the audit log of a control plane has a line for every request', async () => {
    await plane.api.get('/api/v1/namespaces/default/secrets/watched');
    await waitFor(async () => (await readFile(plane.auditLogPath, 'utf8')).includes('/secrets/watched'));
  });

  longIt('after a restart, etcd and API server have the same ports and data', async () => {
    await plane.servers.restartApiServer();
    await plane.servers.killEtcd();
    await plane.servers.startEtcd();
    await plane.servers.apiServerReady();
    assert.ok(await plane.api.find('/api/v1/namespaces/default/secrets/watched'));
  });

  longIt('a new control plane has the RBAC roles of an earlier one, but its own namespaces', async () => {
    await using other = await startControlPlane({ controllerManager: false, own: true });
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

function secret(name: string): unknown {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: 'default' } };
}

const CRD_AND_OBJECT = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.test.example}
spec:
  group: test.example
  names: {kind: Boat, plural: boats, singular: boat}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties: {spec: {type: object, properties: {name: {type: string}}}}
---
apiVersion: test.example/v1
kind: Boat
metadata: {name: one}
spec: {name: Ferry}
`;
