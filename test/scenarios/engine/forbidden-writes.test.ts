/** If Keyferry has no permission to write a mirror, it reports this in every way that the server still permits. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, afterEach, before, it } from 'node:test';
import { parseAllDocuments } from 'yaml';

import type { FaultProxy } from '../../servers/fault-proxy.ts';
import { proxied } from '../../servers/proxied.ts';
import { kubernetesFault } from '../../servers/fault-rules.ts';
import type { Json } from '../../support/api.ts';
import { KEYFERRY_ACCOUNT } from '../../support/service-account.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { HOME, mirrorPath, MirrorScene } from '../mirrors/support.ts';

const RBAC = path.join(import.meta.dirname, '../../../deploy/rbac.yaml');
const USER = KEYFERRY_ACCOUNT.name;

let scene: MirrorScene;
let proxy: FaultProxy;
/** The roles in deploy/rbac.yaml. */
let roles: Json[];

before(async () => {
  scene = await MirrorScene.open({ users: [KEYFERRY_ACCOUNT], controllerManager: false });
  roles = parseAllDocuments(await readFile(RBAC, 'utf8')).map((document) => document.toJS());
  await scene.api.apply(roles);
  const through = await proxied(scene.plane, USER);
  ({ proxy } = through);
  await scene.operator({ kubeconfig: through.kubeconfig });
});
afterEach(async () => {
  proxy.clearRules();
  await scene.api.apply(roles);
});
after(async () => {
  await scene.close();
  await proxy.stop();
});

/** Removes a verb on a resource from the operator's roles. */
async function forbid(verb: string, resource: string): Promise<void> {
  const without = structuredClone(roles).map((role) => {
    for (const rule of role.rules ?? []) {
      if (rule.resources.includes(resource)) rule.verbs = rule.verbs.filter((one: string) => one !== verb);
    }
    return role;
  });
  await scene.api.apply(without);
  const [plural, subresource = ''] = resource.split('/');
  const resourceAttributes = { group: 'mirrors.kts.studio', resource: plural, subresource, verb, namespace: HOME };
  const review = {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SubjectAccessReview',
    spec: { user: USER, resourceAttributes },
  };
  await waitFor(async () => !(await scene.api.create(review)).status.allowed, {
    message: `${verb} ${resource} to be refused`,
  });
}

const lookable = async (name: string): Promise<void> => {
  await scene.namespaces(name);
  await scene.secret(HOME, name, { a: '1' });
  await scene.mirror(name, [name]);
};

it("if RBAC forbids writing a mirror, its status and an event have the server's message until the permission is granted", async () => {
  await forbid('patch', 'secretmirrors');
  await lookable('forbidden');
  const status = await scene.ready(
    'forbidden',
    'SyncError',
    /Forbidden: secretmirrors.* "forbidden" is forbidden: User/,
  );
  assert.equal(status.mirrorStatus, 'Error');
  await scene.event('forbidden', 'SyncError', /is forbidden: User/);
  // The copy does not wait for the finalizer, but the mirror is not ready without it.
  await scene.copied('forbidden', 'forbidden', { a: '1' });
  await scene.api.apply(roles);
  await scene.ready('forbidden', 'Synced', /(?:)/, undefined, 70_000);
});

it('if Keyferry may write neither a mirror nor its status, the mirror gets one event, also after many tries', async () => {
  for (const resource of ['secretmirrors', 'secretmirrors/status']) {
    const match = { method: 'PATCH', path: mirrorPath(resource === 'secretmirrors' ? 'silent' : 'silent/status') };
    const body = {
      kind: 'Status',
      status: 'Failure',
      reason: 'Forbidden',
      message: `${resource} is forbidden`,
      code: 403,
    };
    proxy.rule({ match, fault: { kind: 'respond', status: 403, body } });
  }
  await lookable('silent');
  const event = await scene.event('silent', 'SyncError', /secretmirrors is forbidden/);
  const writes = (): number => proxy.requests.filter(({ url }) => url.includes('silent/status')).length;
  await waitFor(() => writes() > 3, { message: 'the status to be tried again' });
  const events = await scene.events('silent');
  assert.deepEqual(
    events.map(({ metadata, count }) => [metadata.uid, count]),
    [[event.metadata.uid, 1]],
  );
});

it('if the server refuses a mirror three times with 503 and then accepts it, the mirror gets no Warning event', async () => {
  proxy.rule({ match: { method: 'PATCH', path: mirrorPath('passes') }, fault: kubernetesFault(503), times: 3 });
  await lookable('passes');
  await scene.copied('passes', 'passes', { a: '1' });
  await scene.ready('passes', 'Synced');
  const quiet = async (): Promise<boolean> => (await scene.events('passes')).every(({ type }) => type === 'Normal');
  await staysTrue(quiet, 500, 'no warning');
});
