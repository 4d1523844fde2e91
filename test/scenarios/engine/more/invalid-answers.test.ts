/**
 * If an API server, or a proxy in front of it, sends an invalid response, the operator tries again, and the log
 * describes the response without its text.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, it } from 'node:test';

import type { FaultProxy } from '../../../servers/fault-proxy.ts';
import { proxied } from '../../../servers/proxied.ts';
import { kubernetesFault } from '../../../servers/fault-rules.ts';
import type { Keyferry } from '../../../support/keyferry.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { HOME, mirrorPath, MirrorScene, secretPath } from '../../mirrors/support.ts';

/** The number of discovery requests that the test waits for. */
const LOOKS = 4;

let scene: MirrorScene;
let proxy: FaultProxy;
let kubeconfig: string;

before(async () => {
  scene = await MirrorScene.open({ controllerManager: false });
  ({ proxy, kubeconfig } = await proxied(scene.plane));
});
afterEach(() => proxy.clearRules());
after(async () => {
  await scene.close();
  await proxy.stop();
});

const lines = (operator: Keyferry, text: string): number =>
  operator.output.split('\n').filter((line) => line.includes(text)).length;

it('if API discovery fails, the operator logs it one time and tries again after growing pauses', async () => {
  const path = /^\/apis\/mirrors\.kts\.studio\/v1alpha2$/;
  const trouble = proxy.rule({ match: { path }, fault: kubernetesFault(500) });
  const operator = await scene.operator({ kubeconfig });
  await waitFor(() => trouble.hits >= LOOKS, { message: 'some looks' });
  const looks = proxy.requests.filter(({ url }) => path.test(url)).map(({ at }) => at);
  assert.ok(
    (looks[LOOKS - 1] ?? 0) - (looks[0] ?? 0) > 3300,
    `the looks are not further and further apart: ${looks.join()}`,
  );
  assert.equal(lines(operator, 'API discovery failed'), 1, operator.output);
  trouble.clear();
  await scene.namespaces('looked');
  await scene.secret(HOME, 'looked', { a: '1' });
  await scene.mirror('looked', ['looked']);
  await scene.copied('looked', 'looked', { a: '1' });
  await operator.stop();
});

it('if a response is not JSON, the operator logs it without its text and sends the request again', async () => {
  const operator = await scene.operator({ kubeconfig });
  const page = '<html>Please log in to the portal</html>';
  const fault = { kind: 'respond', status: 200, headers: { 'content-type': 'text/html' }, body: page } as const;
  for (const [method, path] of [
    ['PATCH', /secretmirrors\/portal(?:\?|$)/],
    ['PATCH', /secretmirrors\/portal\/status/],
  ] as const) {
    proxy.rule({ match: { method, path }, fault, times: 1 });
  }
  await scene.namespaces('portal');
  await scene.secret(HOME, 'portal', { a: '1' });
  await scene.mirror('portal', ['portal']);
  await scene.ready('portal', 'Synced');
  await waitFor(() => lines(operator, 'is not JSON') >= 2, { message: () => operator.output });
  assert.ok(!/Unexpected token|log in/.test(operator.output), operator.output);
  await operator.stop();
});

/**
 * The response to an unknown path from a proxy, or from an API server that has just started. It is not a Kubernetes
 * Status.
 */
const NO_SUCH_PAGE = {
  kind: 'respond',
  status: 404,
  headers: { 'content-type': 'text/plain' },
  body: '404 page not found\n',
} as const;

it('a 404 page of a proxy does not mean that the object is deleted, so the operator sends the request again', async () => {
  const operator = await scene.operator({ kubeconfig });
  await scene.namespaces('page');
  await scene.secret(HOME, 'page', { a: '1' });
  await scene.mirror('page', ['page']);
  await scene.ready('page', 'Synced');
  const deletion = proxy.rule({
    match: { method: 'DELETE', path: '/namespaces/page/secrets/page' },
    fault: NO_SUCH_PAGE,
    times: 1,
  });
  const revocation = proxy.rule({
    match: { method: 'PATCH', path: '/secretmirrors/page' },
    fault: NO_SUCH_PAGE,
    times: 1,
  });
  await scene.api.delete(mirrorPath('page'));
  await scene.gone(secretPath('page', 'page'), mirrorPath('page'));
  assert.deepEqual([deletion.hits, revocation.hits], [1, 1]);
  await operator.stop();
});

it('if a watch sends invalid data, the operator opens it again, and copies later changes', async () => {
  const operator = await scene.operator({ kubeconfig, args: ['--controllers=mirrors,replicator'] });
  const metadata = { name: 'x', namespace: 'default', resourceVersion: '1', uid: 'u', creationTimestamp: 'never' };
  const nonsense = [
    { type: 'ADDED', object: {} },
    { type: 'DELETED', object: null },
    { type: 'ADDED', object: { metadata: { ...metadata, annotations: ['a'], labels: 7, managedFields: {} } } },
    {
      type: 'ADDED',
      object: { metadata: { ...metadata, managedFields: [null, { manager: 'keyferry', fieldsV1: 'x' }] } },
    },
    { type: 'ADDED', object: { metadata, spec: { source: 'x', destination: { namespaces: 'all' } } } },
    null,
  ];
  const mirrorOf = async (name: string): Promise<void> => {
    await scene.namespaces(name);
    await scene.secret(HOME, name, { a: '1' });
    await scene.mirror(name, [name]);
    await scene.copied(name, name, { a: '1' });
  };
  await mirrorOf('before-invalid');
  for (const line of nonsense) {
    const rule = proxy.rule({
      match: { isWatch: true },
      fault: {
        kind: 'respond',
        status: 200,
        headers: { 'content-type': 'application/json' },
        body: `${JSON.stringify(line)}\n`,
      },
      times: 5,
    });
    proxy.cutAll({ isWatch: true });
    await waitFor(() => rule.hits === 5, { message: `${JSON.stringify(line)} to be read` });
  }
  assert.ok(operator.running, operator.output.slice(-3000));
  await mirrorOf('after-invalid');
  assert.ok(await scene.find('before-invalid', 'before-invalid'), 'nothing was taken away for it');
  await operator.stop();
});
