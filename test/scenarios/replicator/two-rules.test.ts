/**
 * Two rules want to write the same object: no controller fills a copy of another controller, and a rule that is refused
 * does not stop the other rule.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { rowsOf } from '../../support/long.ts';
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
