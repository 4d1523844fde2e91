/** Pull and push as in k8s-replicator, for Secrets and ConfigMaps: objects are filled, cleared, created and deleted. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { rowsOf } from '../../support/long.ts';
import { annotation, KINDS, ReplicatorScene } from './support.ts';

let scene: ReplicatorScene;
before(async () => {
  scene = await ReplicatorScene.open({ controllerManager: false });
  await scene.namespaces('source', 'team-a', 'team-b', 'jx-one', 'jx-two');
  await scene.operator();
});
after(() => scene.close());

for (const kind of rowsOf(KINDS)) {
  describe(`replicate-from on a ${kind.kind}`, () => {
    it(`a ${kind.kind} with replicate-from is filled when its source permits it, and cleared when the permission or the source is removed`, async () => {
      const users = scene.of(kind);
      await users.create('source/pulled', { a: '1' });
      await users.create('team-a/pull', { own: 'mine' }, { 'replicate-from': 'source/pulled' });
      await users.warning('team-a/pull', 'Denied');
      await users.holds('team-a/pull', { own: 'mine' });
      await users.annotate('source/pulled', { 'replication-allowed': 'true' });
      const filled = await users.holds('team-a/pull', { a: '1' });
      assert.equal(annotation(filled, 'replicated-from-version'), await users.version('source/pulled'));
      assert.equal(annotation(filled, 'replicated-from-origin'), 'source/pulled');
      assert.equal(annotation(filled, 'replicated-from-allowed'), '.*');
      assert.match(annotation(filled, 'replicated-at') ?? '', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
      await users.change('source/pulled', { a: '2', b: '3' });
      await users.holds('team-a/pull', { a: '2', b: '3' });
      await users.annotate('source/pulled', { 'replication-allowed': 'false' });
      const cleared = await users.holds('team-a/pull', {});
      for (const name of ['replicated-from-version', 'replicated-from-origin', 'replicated-from-allowed']) {
        assert.equal(annotation(cleared, name), undefined);
      }
      await users.annotate('source/pulled', { 'replication-allowed': 'true' });
      await users.holds('team-a/pull', { a: '2', b: '3' });
      await users.delete('source/pulled');
      await users.holds('team-a/pull', {});
      await users.create('source/pulled', { a: 'new' }, { 'replication-allowed-namespaces': 'team-.*' });
      await users.holds('team-a/pull', { a: 'new' });
    });

    it(`if a user edits a pulled ${kind.kind} or its recorded version, Keyferry restores it`, async () => {
      const users = scene.of(kind);
      await users.create('source/drift', { a: '1' }, { 'replication-allowed': 'true' });
      await users.create(
        'team-a/drift',
        {},
        { 'replicate-from': 'source/drift' },
        { metadata: { labels: { my: 'label' } } },
      );
      await users.holds('team-a/drift', { a: '1' });
      await users.change('team-a/drift', { a: 'tampered' });
      await users.holds('team-a/drift', { a: '1' });
      await users.annotate('team-a/drift', { 'replicated-from-version': '0' });
      const version = await users.version('source/drift');
      const repaired = await users.becomes(
        'team-a/drift',
        (object) => annotation(object, 'replicated-from-version') === version,
        'at the version of its source',
      );
      assert.equal(repaired.metadata.labels.my, 'label');
    });
  });

  describe(`replicate-to on a ${kind.kind}`, () => {
    it(`a ${kind.kind} with replicate-to-namespaces is copied into matching namespaces that are created later`, async () => {
      const users = scene.of(kind);
      await users.create('source/tls', { crt: '1' }, { 'replicate-to-namespaces': 'jx-.*,team-a,no-such' });
      for (const namespace of ['jx-one', 'jx-two', 'team-a']) await users.holds(`${namespace}/tls`, { crt: '1' });
      const late = `jx-late-${kind.plural}`;
      await scene.namespaces(late, `not-${late}`);
      await users.holds(`${late}/tls`, { crt: '1' });
      assert.equal(await users.find(`not-${late}/tls`), undefined);
      assert.equal(await users.find('team-b/tls'), undefined);
      await users.annotate('source/tls', { 'replicate-to-namespaces': 'jx-(one|late.*)' });
      await users.gone('jx-two/tls');
      await users.gone('team-a/tls');
      assert.ok(await users.find('jx-one/tls'));
    });
  });

  describe(`replicate-from and replicate-to on one ${kind.kind}`, () => {
    it(`a ${kind.kind} with both replicate-from and replicate-to keeps its own data, and its copies pull from the source`, async () => {
      const users = scene.of(kind);
      await users.create('team-a/creator', { own: 'c' }, { 'replicate-from': 'source/base', 'replicate-to': 'made' });
      const made = await users.holds('team-a/made', {});
      assert.equal(annotation(made, 'replicate-from'), 'source/base');
      assert.equal(annotation(made, 'replicated-by'), 'team-a/creator');
      await users.create('source/base', { a: '1' }, { 'replication-allowed': 'true' });
      await users.holds('team-a/made', { a: '1' });
      await users.holds('team-a/creator', { own: 'c' });
      await users.change('team-a/made', { a: 'tampered' });
      await users.holds('team-a/made', { a: '1' });
      await users.delete('source/base');
      await users.holds('team-a/made', {});
      await users.annotate('team-a/creator', { 'replicate-from': null });
      const copy = await users.holds('team-a/made', { own: 'c' });
      assert.equal(annotation(copy, 'replicate-from'), undefined);
      await users.delete('team-a/creator');
      await users.gone('team-a/made');
    });
  });
}
