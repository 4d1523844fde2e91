/**
 * Two rules want to write the same object: no controller fills a copy of another controller, and a rule that is refused
 * does not stop the other rule.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { rowsOf } from '../../support/long.ts';
import { waitFor } from '../../support/wait-for.ts';
import { annotation, KINDS, type KindScene, ReplicatorScene } from './support.ts';

const ALLOWED = { 'replication-allowed': 'true' };

describe('SecretMirrors and replicate-from on one object', () => {
  let scene: ReplicatorScene;
  let users: KindScene;
  const mirror = async (name: string, namespace: string): Promise<void> => {
    await scene.api.create({
      apiVersion: 'mirrors.kts.studio/v1alpha2',
      kind: 'SecretMirror',
      metadata: { namespace: 'home', name },
      spec: { source: { name }, destination: { namespaces: [namespace] } },
    });
  };
  before(async () => {
    scene = await ReplicatorScene.open({ controllerManager: false, crds: true });
    await scene.namespaces('home', 'source', 'team-a', 'team-b');
    users = scene.of(KINDS[0]!);
  });
  after(() => scene.close());

  it('replicate-from on a copy of a SecretMirror does not fill the copy, and an event names the mirror', async () => {
    const operator = await scene.operator(['--controllers', 'mirrors,replicator'], { command: 'run' });
    await users.create('home/mirrored', { a: 'of the mirror' });
    await users.create('source/other', { b: 'of the source' }, ALLOWED);
    await mirror('mirrored', 'team-a');
    await users.holds('team-a/mirrored', { a: 'of the mirror' });
    await users.annotate('team-a/mirrored', { 'replicate-from': 'source/other' });
    const { message } = await users.warning('team-a/mirrored', 'Conflict');
    assert.match(message, /home\/mirrored/);
    await users.change('source/other', { b: 'changed' });
    await users.stayUnchanged(['team-a/mirrored'], 'the object of two controllers');
    await users.change('home/mirrored', { a: 'changed' });
    await users.holds('team-a/mirrored', { a: 'changed' });
    await operator.stop();
  });

  it('if another process made a copy for a SecretMirror, replicate-from on it does not fill it, because the copy names its owner', async () => {
    const operator = await scene.operator();
    await users.create('team-b/marked', { own: 'x' }, ALLOWED);
    await scene.api.patch(users.path('team-b/marked'), {
      metadata: { annotations: { 'mirrors.kts.studio/owned-by': 'home/another' } },
    });
    await users.annotate('team-b/marked', { 'replicate-from': 'source/other' });
    const { message } = await users.warning('team-b/marked', 'Conflict');
    assert.match(message, /replicate-from.*SecretMirror home\/another/);
    await users.holds('team-b/marked', { own: 'x' });
    await users.stayUnchanged(['team-b/marked'], 'the object of two controllers');
    await operator.stop();
  });

  it("if a push takes over a mirror's copy, and the mirror takes it back, the copy keeps no mark of its former owner", async () => {
    const operator = await scene.operator(['--controllers', 'mirrors,replicator'], { command: 'run' });
    const ofMirror = ({ metadata: { labels, annotations } }: Json): string[] =>
      [...Object.values<string>(labels ?? {}), ...Object.keys(annotations)].filter((text) =>
        /^mirrors(\.|$)/.test(text),
      );
    const ofPush = ({ metadata }: Json): string[] =>
      Object.keys(metadata.annotations).filter((key) => key.startsWith('k8s-replicator/'));
    const place = 'keyferry.dev/target';
    await users.create('home/swap', { a: 'of the mirror' });
    await mirror('swap', 'team-a');
    const first = await users.holds('team-a/swap', { a: 'of the mirror' });
    assert.notEqual(ofMirror(first).length, 0);
    await users.create('source/swap', { a: 'of the source' }, { 'replicate-to-namespaces': 'team-a' });
    const { message } = await users.warning('source/swap', 'Conflict');
    assert.match(message, /SecretMirror home\/swap/);
    const path = '/apis/mirrors.kts.studio/v1alpha2/namespaces/home/secretmirrors/swap';
    await scene.api.delete(path);
    await waitFor(async () => (await scene.api.find(path)) === undefined, { message: 'the mirror to be gone' });
    const second = await users.holds('team-a/swap', { a: 'of the source' });
    assert.deepEqual(ofMirror(second), []);
    assert.equal(second.metadata.annotations[place], 'team-a/swap');
    assert.equal(annotation(second, 'replicated-by'), 'source/swap');
    await mirror('swap', 'team-a');
    await users.annotate('source/swap', { 'replicate-to-namespaces': null });
    const third = await users.holds('team-a/swap', { a: 'of the mirror' });
    assert.deepEqual(ofPush(third), []);
    assert.equal(third.metadata.labels['keyferry.dev/copy'], 'mirrors');
    assert.equal(third.metadata.annotations[place], 'team-a/swap');
    await operator.stop();
  });

  it("a user's object with replicate-from is filled and cleared, although a mirror would make a copy with the same name", async () => {
    const operator = await scene.operator(['--controllers', 'mirrors,replicator'], { command: 'run' });
    await users.create('home/wanted', { a: 'of the mirror' });
    await users.create('source/pulled', { a: '1' }, ALLOWED);
    await users.create('team-a/wanted', {}, { 'replicate-from': 'source/pulled' });
    await mirror('wanted', 'team-a');
    await users.holds('team-a/wanted', { a: '1' });
    await users.change('source/pulled', { a: '2' });
    await users.holds('team-a/wanted', { a: '2' });
    await users.annotate('source/pulled', { 'replication-allowed': 'false' });
    await users.holds('team-a/wanted', {});
    await users.delete('team-a/wanted');
    await users.holds('team-a/wanted', { a: 'of the mirror' });
    await operator.stop();
  });
});

for (const kind of rowsOf(KINDS)) {
  describe(`a ${kind.kind} that cannot be pushed`, () => {
    let scene: ReplicatorScene;
    let users: KindScene;
    before(async () => {
      scene = await ReplicatorScene.open({ controllerManager: false });
      await scene.namespaces('source', 'team-a', 'team-b');
      await scene.operator();
      users = scene.of(kind);
    });
    after(() => scene.close());

    it(`if a push of a ${kind.kind} is refused because a user's object has the target's name, that object still pulls from its own source`, async () => {
      await users.create('source/pushes', { x: 'pushed' }, { 'replicate-to': 'team-a/mine' });
      await users.holds('team-a/mine', { x: 'pushed' });
      await users.annotate('source/pushes', { 'replicate-to': 'team-a/mine,team-b/mine' });
      await users.create('source/pulled', { a: '1' }, ALLOWED);
      await users.annotate('source/pushes', { 'replicate-to': '' });
      await users.gone('team-a/mine');
      await users.create('team-a/mine', {}, { 'replicate-from': 'source/pulled' });
      await users.annotate('source/pushes', { 'replicate-to': 'team-a/mine' });
      await users.warning('source/pushes', 'Conflict');
      await users.change('source/pulled', { a: '2' });
      await users.holds('team-a/mine', { a: '2' });
      await users.delete('source/pulled');
      const cleared = await users.holds('team-a/mine', {});
      assert.equal(annotation(cleared, 'replicated-by'), undefined);
    });

    it(`if a ${kind.kind} gets an invalid annotation, its copies stay, and still pull from the source that they name`, async () => {
      await users.create('source/base', { a: '1' }, ALLOWED);
      await users.create('team-a/creator', {}, { 'replicate-from': 'source/base', 'replicate-to': 'made' });
      await users.holds('team-a/made', { a: '1' });
      await users.annotate('team-a/creator', { 'replicate-too': 'x' });
      await users.warning('team-a/creator', 'UnknownAnnotation');
      await users.change('source/base', { a: '2' });
      await users.holds('team-a/made', { a: '2' });
      await users.annotate('source/base', { 'replication-allowed': 'false' });
      await users.holds('team-a/made', {});
      await users.annotate('team-a/creator', { 'replicate-too': null, 'replicate-from': null });
      await users.annotate('source/base', { 'replication-allowed': 'true' });
      await users.holds('team-a/made', {});
    });
  });
}
