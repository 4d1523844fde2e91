/**
 * For each controller of annotations, each change causes one write of each copy that it concerns, at the first try: so a
 * copy comes as fast as the API server answers, and waits for no back-off.
 */
import assert from 'node:assert/strict';
import { it } from 'node:test';

import { readAuditLog } from '../../support/audit-log.ts';
import { waitFor, waitForStable } from '../../support/wait-for.ts';
import { SETTLE_MS, SyncScene } from '../config-syncer/support.ts';

const MITTWALD = 'replicator.v1.mittwald.de';
const REFLECTOR = 'reflector.v1.k8s.emberstack.com';
const SYNC = 'kubed.appscode.com/sync';
/** A source with copies in these namespaces, by the name of the source. */
const PUSHES: Readonly<Record<string, (namespaces: readonly string[]) => Record<string, string>>> = {
  pushed: (namespaces) => ({ 'k8s-replicator/replicate-to-namespaces': namespaces.join(',') }),
  mittwald: (namespaces) => ({ [`${MITTWALD}/replicate-to`]: namespaces.join(',') }),
  reflected: (namespaces) => ({
    [`${REFLECTOR}/reflection-allowed`]: 'true',
    [`${REFLECTOR}/reflection-auto-enabled`]: 'true',
    [`${REFLECTOR}/reflection-auto-namespaces`]: namespaces.join(','),
  }),
  synced: (namespaces) => ({ [SYNC]: `kubernetes.io/metadata.name in (${namespaces.join(',')})` }),
};
const NAMES = Object.keys(PUSHES);
/** An object that pulls, by its name, and the permission on its source. */
const PULLS: Readonly<Record<string, readonly [pull: Record<string, string>, permit: Record<string, string>]>> = {
  'pull-replicator': [
    { 'k8s-replicator/replicate-from': 'source/pull-replicator' },
    { 'k8s-replicator/replication-allowed': 'true' },
  ],
  'pull-mittwald': [
    { [`${MITTWALD}/replicate-from`]: 'source/pull-mittwald' },
    { [`${MITTWALD}/replication-allowed`]: 'true', [`${MITTWALD}/replication-allowed-namespaces`]: 'team-a' },
  ],
};

it('each change causes one write of each copy that it concerns, at the first try: nothing waits for a back-off', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = stack.adopt(await SyncScene.open({ audit: true }), (opened) => opened.close());
  const { api, plane, secrets } = scene;
  await scene.namespaces('source', 'team-a', 'team-b');
  await api.create({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: 'operator' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'keyferry' }],
  });
  const operator = await scene.operator([], {
    command: 'run',
    args: ['--controllers=replicator,reflector,mittwald,config-syncer', '--source-grace=0'],
    kubeconfig: await plane.writeKubeconfig({ token: plane.tokenFor('keyferry') }),
  });
  const writes = (): string[] =>
    readAuditLog(plane, 'keyferry')
      .filter(({ verb, resource }) => !['get', 'list', 'watch'].includes(verb) && resource !== 'events')
      .map(({ verb, namespace, name }) => `${verb} ${namespace}/${name}`);
  let seen = 0;
  /** Waits until the writes since the last call are these: fewer are not yet all, and others are too many. */
  const wrote = async (what: string, expected: readonly string[]): Promise<void> => {
    await waitFor(() => writes().length >= seen + expected.length, { message: `${expected.join(', ')} (${what})` });
    assert.deepEqual(writes().slice(seen).toSorted(), expected.toSorted(), what);
    seen += expected.length;
  };
  const each = (...texts: readonly string[]): string[] =>
    NAMES.flatMap((name) => texts.map((text) => `${text}/${name}`));
  const pulled = Object.keys(PULLS).map((name) => `patch team-a/${name}`);
  const say = async (...namespaces: readonly string[]): Promise<void> => {
    for (const name of NAMES) await scene.say(secrets, `source/${name}`, PUSHES[name]?.(namespaces) ?? {});
  };

  const all = ['team-a', 'team-b', 'later'];
  for (const name of NAMES) await scene.put(secrets, `source/${name}`, { a: '1' }, PUSHES[name]?.(all));
  await wrote('a source', each('create team-a', 'create team-b'));
  for (const name of NAMES) await secrets.change(`source/${name}`, { a: '2' });
  await wrote('new data', each('patch team-a', 'patch team-b'));
  for (const name of NAMES) await secrets.change(`team-a/${name}`, { a: 'edited' });
  await wrote('an edited copy', each('patch team-a'));
  for (const name of NAMES) await secrets.delete(`team-b/${name}`);
  await wrote('a deleted copy', each('create team-b'));
  await scene.namespaces('later');
  await wrote('a new namespace', each('create later'));
  await say('team-a', 'team-b');
  await wrote('a narrower rule', each('delete later'));
  for (const name of NAMES) await scene.say(secrets, `source/${name}`, { 'my.org/note': 'x' });
  // Only config-syncer copies annotations of its users.
  await wrote('metadata of the source', ['patch team-a/synced', 'patch team-b/synced']);
  await say('team-b');
  await wrote('a still narrower rule', each('delete team-a'));
  for (const name of NAMES) await secrets.delete(`source/${name}`);
  await wrote('no source', each('delete team-b'));

  for (const [name, [pull]] of Object.entries(PULLS)) await scene.put(secrets, `team-a/${name}`, { own: 'x' }, pull);
  for (const name of Object.keys(PULLS)) await scene.put(secrets, `source/${name}`, { a: '1' });
  await waitForStable(() => String(writes().length), SETTLE_MS, 'no more writes');
  await wrote('a source that permits nothing', []);
  for (const [name, [, permit]] of Object.entries(PULLS)) await scene.say(secrets, `source/${name}`, permit);
  await wrote('permission granted later', pulled);
  for (const name of Object.keys(PULLS)) await secrets.change(`source/${name}`, { a: '2' });
  await wrote('new data of a source', pulled);
  for (const name of Object.keys(PULLS)) await secrets.change(`team-a/${name}`, { a: 'edited' });
  await wrote('an edited object', pulled);
  for (const name of Object.keys(PULLS)) await secrets.delete(`source/${name}`);
  await wrote('no source to pull from', pulled);
  for (const [name, [, permit]] of Object.entries(PULLS))
    await scene.put(secrets, `source/${name}`, { a: '3' }, permit);
  await wrote('a source that is made again', pulled);
  await waitForStable(() => String(writes().length), SETTLE_MS, 'no more writes');
  await wrote('nothing more', []);
  assert.equal(await operator.metric('keyferry_queue_retries_total'), 0);
});
