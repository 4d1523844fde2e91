/** Policies of a cluster that quote the values of the Secret which they refuse: the user hears of the refusal, and of no value. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { HOME, mirrorPath, MirrorScene, secretPath } from '../mirrors/support.ts';
import { type KindScene, KINDS, ReplicatorScene } from '../replicator/support.ts';
import { refuse } from './admission.ts';

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';
/** Where most is said. */
const ARGS = ['--log-level=debug'];

const quoting = (object: 'object' | 'oldObject', name: string): { readonly when: string; readonly words: string } => ({
  when: `request.namespace == '${name}'`,
  words: `'not this: ' + ${object}.data['a'] + ' (' + string(${object}.data.size()) + ')'`,
});

describe('a value in the words of who refuses', () => {
  let scene: MirrorScene;
  before(async () => {
    scene = await MirrorScene.open();
    await scene.operator({ args: ARGS });
  });
  // Looks for the values in all that the operator has said and written.
  after(() => scene.close());

  async function settled(name: string): Promise<void> {
    await scene.namespaces(name);
    // As `kubectl apply` leaves it.
    const applied = { [LAST_APPLIED]: JSON.stringify({ data: scene.data({ a: '1' }) }) };
    await scene.secret(HOME, name, { a: '1' }, { metadata: { annotations: applied } });
    await scene.mirror(name, [name]);
    await scene.ready(name, 'Synced');
  }

  it('a copy that is to be made', async () => {
    await scene.namespaces('made');
    await using _ = await refuse(scene.api, 'made', quoting('object', 'made'));
    await scene.secret(HOME, 'made', { a: '1', b: '2' });
    await scene.mirror('made', ['made']);
    await scene.ready('made', 'SyncError', /not this: \[redacted\] \(2\)/);
    await scene.event('made', 'SyncError', /not this: \[redacted\] \(2\)/);
  });

  it('a copy that is to be made, of so long a value that its quotation is cut short', async () => {
    await scene.namespaces('long');
    await using _ = await refuse(scene.api, 'long', quoting('object', 'long'));
    await scene.secret(HOME, 'long', { a: 'long '.repeat(700) });
    await scene.mirror('long', ['long']);
    await scene.ready('long', 'SyncError', /not this: \[redacted\]/);
  });

  for (const [name, quoted] of [
    ['new', 'object'],
    ['old', 'oldObject'],
  ] as const) {
    it(`a copy that is to be changed: its ${name} one`, async () => {
      await settled(name);
      await using _ = await refuse(scene.api, name, { ...quoting(quoted, name), operations: ['UPDATE'] });
      await scene.change(HOME, name, { a: 'another' });
      await scene.ready(name, 'SyncError', /not this: \[redacted\] \(1\)/);
    });
  }

  it('a copy of which only a label is to be changed', async () => {
    await settled('label');
    await using _ = await refuse(scene.api, 'label', { ...quoting('object', 'label'), operations: ['UPDATE'] });
    await scene.api.patch(secretPath(HOME, 'label'), { metadata: { labels: { team: 'a' } } });
    await scene.ready('label', 'SyncError', /not this: \[redacted\] \(1\)/);
  });

  it('a copy that is to be deleted', async () => {
    await settled('deleted');
    await using _ = await refuse(scene.api, 'deleted', { ...quoting('oldObject', 'deleted'), operations: ['DELETE'] });
    await scene.api.delete(mirrorPath('deleted'));
    await scene.ready('deleted', 'SyncError', /not this: \[redacted\] \(1\)/);
  });
});

for (const kind of KINDS) {
  describe(`a value in the words of who refuses the replicator a ${kind.kind}`, () => {
    let scene: ReplicatorScene;
    let users: KindScene;
    before(async () => {
      scene = await ReplicatorScene.open({ controllerManager: false });
      await scene.namespaces('source', 'pushed', 'pulled');
      users = scene.of(kind);
      await scene.operator([...ARGS, '--controllers=replicator'], { command: 'run' });
    });
    after(() => scene.close());

    const told = async (name: string): Promise<void> => {
      const { message } = await users.warning(name, 'Invalid');
      assert.match(message, /not this: \[redacted\] \(1\)/);
    };

    it('what is pushed: made and changed', async () => {
      const more = { metadata: { annotations: { [LAST_APPLIED]: 'x' } } };
      {
        await using _ = await refuse(scene.api, 'pushed', { ...quoting('object', 'pushed'), resource: kind.plural });
        await users.create('source/made', { a: '1' }, { 'replicate-to': 'pushed/made' }, more);
        await told('source/made');
      }
      await users.create('source/changed', { a: '1' }, { 'replicate-to': 'pushed/changed' });
      await users.holds('pushed/changed', { a: '1' });
      await using _ = await refuse(scene.api, 'old-pushed', {
        ...quoting('oldObject', 'pushed'),
        resource: kind.plural,
        operations: ['UPDATE'],
      });
      await users.change('source/changed', { a: '2' });
      await told('source/changed');
    });

    it('what is pulled: filled and cleared', async () => {
      await users.create('source/allows', { a: '1' }, { 'replication-allowed': 'true' });
      {
        await using _ = await refuse(scene.api, 'pulled', {
          ...quoting('object', 'pulled'),
          operations: ['UPDATE'],
          resource: kind.plural,
        });
        await users.create('pulled/filled', {}, { 'replicate-from': 'source/allows' });
        await told('pulled/filled');
      }
      await users.create('pulled/cleared', {}, { 'replicate-from': 'source/allows' });
      await users.holds('pulled/cleared', { a: '1' });
      await using _ = await refuse(scene.api, 'old-pulled', {
        ...quoting('oldObject', 'pulled'),
        resource: kind.plural,
        operations: ['UPDATE'],
      });
      await users.annotate('source/allows', { 'replication-allowed': 'false' });
      await told('pulled/cleared');
    });
  });
}
