/**
 * A copy that is no longer wanted and that cannot be deleted is reported, until it is gone: an admission policy or a
 * missing permission forbids the deletion. A copy that loses Keyferry's label is not forgotten.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../../support/api.ts';
import type { Keyferry } from '../../../support/keyferry.ts';
import { KEYFERRY_ACCOUNT } from '../../../support/service-account.ts';
import { staysTrue, waitFor } from '../../../support/wait-for.ts';
import { type ProgramResult, runProgram } from '../../cli/program.ts';
import {
  COPY_LABEL,
  HOME,
  labels,
  mirrorPath,
  MirrorScene,
  OWNED_BY,
  PLACE,
  secretPath,
} from '../../mirrors/support.ts';
import { annotate } from '../../replicator/support.ts';
import { refuse } from '../admission.ts';

const USER = KEYFERRY_ACCOUNT.name;
const RBAC = '/apis/rbac.authorization.k8s.io/v1';
/** Longer than the pause before a refused deletion is tried again, ms. */
const RETRY_MS = 90_000;

let scene: MirrorScene;
let operator: Keyferry;
let kubeconfig: string;

before(async () => {
  scene = await MirrorScene.open({ users: [KEYFERRY_ACCOUNT] });
  kubeconfig = await scene.plane.writeKubeconfig({ token: scene.plane.tokenFor(USER) });
  // Keyferry may delete Secrets in the namespaces that have this Role, in no others.
  await scene.api.apply([
    ...role('ClusterRole', 'look', undefined, [
      { apiGroups: ['', 'mirrors.kts.studio'], resources: ['*'], verbs: ['get', 'list', 'watch', 'create', 'patch'] },
    ]),
  ]);
  operator = await start();
});
after(() => scene.close());

const start = async (...args: readonly string[]): Promise<Keyferry> =>
  await scene.operator({ kubeconfig, args: ['--controllers=mirrors,replicator', ...args] });

function role(kind: 'ClusterRole' | 'Role', name: string, namespace: string | undefined, rules: Json[]): Json[] {
  const apiVersion = 'rbac.authorization.k8s.io/v1';
  const metadata = { name, namespace };
  const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind, name };
  const subjects = [{ apiGroup: roleRef.apiGroup, kind: 'User', name: USER }];
  return [
    { apiVersion, kind, metadata, rules },
    { apiVersion, kind: `${kind}Binding`, metadata, roleRef, subjects },
  ];
}

/** Permits deletions in new namespaces. */
async function namespaces(...names: readonly string[]): Promise<void> {
  await scene.namespaces(...names);
  for (const name of names) await permit(name);
}
async function permit(namespace: string): Promise<void> {
  await scene.api.apply(
    role('Role', 'delete', namespace, [{ apiGroups: [''], resources: ['secrets'], verbs: ['delete'] }]),
  );
  await mayDelete(namespace, true);
}
async function forbid(namespace: string): Promise<void> {
  await scene.api.delete(`${RBAC}/namespaces/${namespace}/rolebindings/delete`);
  await mayDelete(namespace, false);
}
async function mayDelete(namespace: string, wanted: boolean): Promise<void> {
  const resourceAttributes = { resource: 'secrets', verb: 'delete', namespace };
  const spec = { user: USER, resourceAttributes };
  const review = { apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec };
  await waitFor(async () => (await scene.api.create(review)).status.allowed === wanted, { message: 'the permission' });
}

const ran = async (...args: readonly string[]): Promise<ProgramResult> =>
  await runProgram([...args, '--kubeconfig', scene.plane.kubeconfigPath]);
const keyferry = async (...args: readonly string[]): Promise<string> => (await ran(...args)).stdout;
const undeleted = async (system: string): Promise<number> =>
  (await operator.metric('keyferry_claims', { system, state: 'undeleted' })) ?? 0;
/** Waits for a warning in a namespace. */
const warned = async (namespace: string, message: RegExp): Promise<Json> => {
  let seen: Json[] = [];
  const look = async (): Promise<Json> => {
    seen = await scene.api.list(`/api/v1/namespaces/${namespace}/events`);
    return seen.find((event) => event.type === 'Warning' && message.test(event.message));
  };
  return await waitFor(look, { message: () => `${message} among ${JSON.stringify(seen.map((one) => one.message))}` });
};
const gone = async (path: string): Promise<void> => {
  await waitFor(async () => (await scene.api.find(path)) === undefined, {
    timeoutMs: RETRY_MS,
    message: `${path} gone`,
  });
};
const destination = async (name: string, list: readonly string[]): Promise<Json> =>
  await scene.api.patch(mirrorPath(name), { spec: { destination: { namespaces: list } } });

describe('a mirror whose earlier copy cannot be deleted', () => {
  it('if a policy forbids to delete a copy that the mirror no longer selects, the mirror is not ready and says where and why', async () => {
    await namespaces('short-a', 'short-b', 'short-c');
    await scene.secret(HOME, 'short', { a: '1' });
    await scene.mirror('short', ['short-a', 'short-b', 'short-c']);
    await scene.ready('short', 'Synced', /3 copies/);
    {
      await using _ = await refuse(scene.api, 'short', {
        when: `request.namespace.startsWith('short-')`,
        operations: ['DELETE'],
      });
      await destination('short', ['short-a']);
      const words = /^cannot delete the copy in namespaces short-b, short-c: .*refused by short; 1 copy is up to date/;
      const status = await scene.ready('short', 'SyncError', words);
      assert.equal(status.mirrorStatus, 'Error');
      await scene.event('short', 'SyncError', /cannot delete the copy in namespaces short-b, short-c/);
      assert.equal(await undeleted('mirrors'), 2);
      const failed = await keyferry('status', '--failed');
      assert.match(failed, /default +short .*SyncError: cannot delete the copy in namespaces short-b, short-c/);
      assert.match(failed, /Secret +short-b +short +default\/short +no longer selected by its SecretMirror/);
      assert.match(await keyferry('explain', 'secret', 'short-b/short'), /SyncError: cannot delete the copy/);
      // A restart forgets nothing: the next process tries again.
      await operator.kill9();
      operator = await start();
      await waitFor(async () => (await undeleted('mirrors')) === 2, { message: 'the report of the next process' });
      await scene.ready('short', 'SyncError', words);
      // The copies of others are written, and a rule that wants the copy again has nothing to report.
      await destination('short', ['short-a', 'short-b']);
      await scene.ready('short', 'SyncError', /namespace short-c: .*; 2 copies are up to date/);
    }
    await gone(secretPath('short-c', 'short'));
    await scene.ready('short', 'Synced', /2 copies/);
    assert.equal(await undeleted('mirrors'), 0);
    assert.match(await keyferry('status', '--failed'), /No problems found/);
  });
});

describe('the copies of a rule that is gone', () => {
  it('if Keyferry has no permission to delete the copies of a deleted source, an event on its namespace and status --failed name them', async () => {
    await namespaces('lost-home', 'lost-a', 'lost-b');
    const annotations = annotate({ 'replicate-to-namespaces': 'lost-.+' });
    await scene.secret('lost-home', 'lost', { a: '1' }, { metadata: { annotations } });
    const copies = ['lost-a', 'lost-b'].map((namespace) => secretPath(namespace, 'lost'));
    for (const copy of copies) await waitFor(async () => await scene.api.find(copy));
    await forbid('lost-a');
    await scene.api.delete(secretPath('lost-home', 'lost'));
    await gone(secretPath('lost-b', 'lost'));
    const event = await warned(
      'lost-home',
      /^lost-a\/lost: cannot delete the copy, whose rule Secret\/lost-home\/lost/,
    );
    assert.match(event.message, /of replicator is gone: secrets "lost" is forbidden: User/);
    assert.deepEqual([event.reason, event.involvedObject.kind], ['Forbidden', 'Namespace']);
    assert.equal(await undeleted('replicator'), 1);
    const failed = await keyferry('status', '--failed');
    assert.match(failed, /Secret +lost-a +lost +lost-home\/lost +its source does not exist.*Keyferry will delete it/);
    assert.equal((await ran('status', '--failed', '--exit-code')).code, 3);
    await permit('lost-a');
    await gone(secretPath('lost-a', 'lost'));
    await waitFor(async () => (await undeleted('replicator')) === 0, { message: 'the end of the report' });
  });

  it('a mirror that is gone after --deletion-timeout leaves an event on its namespace, until its copies can be deleted', async () => {
    await operator.kill9();
    operator = await start('--deletion-timeout=1s');
    await namespaces('timeout-home', 'timeout-a');
    await scene.secret('timeout-home', 'timeout', { a: '1' });
    await scene.mirror('timeout', ['timeout-a'], {}, 'timeout-home');
    await scene.copied('timeout-a', 'timeout', { a: '1' });
    await forbid('timeout-a');
    await scene.api.delete(mirrorPath('timeout', 'timeout-home'));
    await gone(mirrorPath('timeout', 'timeout-home'));
    await warned(
      'timeout-home',
      /^timeout-a\/timeout: cannot delete the copy, whose rule timeout-home\/timeout of mirrors/,
    );
    await permit('timeout-a');
    await gone(secretPath('timeout-a', 'timeout'));
  });
});

describe('an annotated source whose earlier copy cannot be deleted', () => {
  it('if a namespace withdraws its consent and Keyferry may not delete the copy there, the source gets a warning and is not ready', async () => {
    await namespaces('consent-home', 'consent-a', 'consent-b');
    const annotations = annotate({ 'replicate-to-namespaces': 'consent-a,consent-b' });
    await scene.secret('consent-home', 'consent', { a: '1' }, { metadata: { annotations } });
    for (const namespace of ['consent-a', 'consent-b'])
      await waitFor(async () => await scene.find(namespace, 'consent'));
    await forbid('consent-b');
    const accept = async (from: string | null): Promise<Json> =>
      await scene.api.patch('/api/v1/namespaces/consent-b', {
        metadata: { annotations: { 'keyferry.dev/accept-from': from } },
      });
    await accept('');
    const event = await warned(
      'consent-home',
      /^consent-b\/consent: cannot delete the copy: secrets "consent" is forb/,
    );
    assert.deepEqual([event.involvedObject.kind, event.involvedObject.name], ['Secret', 'consent']);
    const labelsOfRule = { system: 'replicator', rule: 'Secret/consent-home/consent' };
    assert.equal(await operator.metric('keyferry_rule_ready', labelsOfRule), 0);
    assert.match(await keyferry('status', '--failed'), /consent-home +consent .* False /);
    await accept(null);
    await waitFor(async () => (await undeleted('replicator')) === 0, { message: 'the end of the report' });
    await permit('consent-b');
  });
});

describe('a forged mark', () => {
  it("an object with the mark of another user's mirror, which Keyferry may not delete, does not make this mirror unready", async () => {
    await namespaces('victim', 'forger');
    await forbid('forger');
    await scene.secret(HOME, 'victim', { a: '1' });
    await scene.mirror('victim', ['victim']);
    await scene.ready('victim', 'Synced');
    const marks = { [OWNED_BY]: `${HOME}/victim`, [PLACE]: 'forger/victim' };
    const metadata = { labels: { [COPY_LABEL]: 'mirrors' }, annotations: marks };
    await scene.secret('forger', 'victim', { a: 'mine' }, { metadata });
    await waitFor(() => /"target":"local:Secret\/forger\/victim"/.test(operator.output), { message: 'a try' });
    const isReady = async (): Promise<boolean> => (await scene.status('victim')).conditions[0].status === 'True';
    await staysTrue(isReady, 2500, 'the mirror is ready');
    assert.equal(await undeleted('mirrors'), 0);
  });
});

describe('a copy that loses the label keyferry.dev/copy', () => {
  const unlabel = async (namespace: string, name: string): Promise<Json> =>
    await scene.api.patch(secretPath(namespace, name), labels({ [COPY_LABEL]: null }));

  it('a copy that lost the label while its mirror had no source is deleted when the mirror lets it go', async () => {
    await namespaces('idle-a', 'idle-b');
    await scene.secret(HOME, 'idle', { a: '1' });
    await scene.mirror('idle', ['idle-a', 'idle-b']);
    await scene.ready('idle', 'Synced');
    await scene.api.delete(secretPath(HOME, 'idle'));
    await scene.ready('idle', 'NoSecret');
    await unlabel('idle-b', 'idle');
    await unlabel('idle-a', 'idle');
    await destination('idle', ['idle-a']);
    await gone(secretPath('idle-b', 'idle'));
    await scene.secret(HOME, 'idle', { a: '2' });
    await scene.copied('idle-a', 'idle', { a: '2' });
    assert.equal((await scene.find('idle-a', 'idle')).metadata.labels[COPY_LABEL], 'mirrors');
  });

  it('an orphan that lost the label while a policy forbade its deletion is deleted once this is permitted', async () => {
    await namespaces('held-a', 'held-b');
    await scene.secret(HOME, 'held', { a: '1' });
    await scene.mirror('held', ['held-a', 'held-b']);
    await scene.ready('held', 'Synced');
    await forbid('held-b');
    await destination('held', ['held-a']);
    await scene.ready('held', 'SyncError', /namespace held-b/);
    await unlabel('held-b', 'held');
    await scene.ready('held', 'SyncError', /namespace held-b/);
    await permit('held-b');
    await gone(secretPath('held-b', 'held'));
    await scene.ready('held', 'Synced');
  });
});
