/**
 * If an admission policy refuses a Secret and its message quotes values of the Secret, the operator reports the refusal
 * without the values.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { HOME, mirrorPath, MirrorScene, secretPath } from '../../mirrors/support.ts';
import { type KindScene, KINDS, ReplicatorScene } from '../../replicator/support.ts';
import { refuse } from '../admission.ts';

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';
/** The log level that logs the most. */
const ARGS = ['--log-level=debug'];

const quoting = (object: 'object' | 'oldObject', name: string): { readonly when: string; readonly words: string } => ({
  when: `request.namespace == '${name}'`,
  words: `'not this: ' + ${object}.data['a'] + ' (' + string(${object}.data.size()) + ')'`,
});

describe('the report of a refusal that quotes a value', () => {
  let scene: MirrorScene;
  before(async () => {
    scene = await MirrorScene.open();
    await scene.operator({ args: ARGS });
  });
  // `close` searches for the values in the operator's output and in all objects that it wrote.
  after(() => scene.close());

  async function settled(name: string): Promise<void> {
    await scene.namespaces(name);
    // The source also has the annotation of `kubectl apply`, which contains the values.
    const applied = { [LAST_APPLIED]: JSON.stringify({ data: scene.data({ a: '1' }) }) };
    await scene.secret(HOME, name, { a: '1' }, { metadata: { annotations: applied } });
    await scene.mirror(name, [name]);
    await scene.ready(name, 'Synced');
  }

  it('if a policy refuses the creation of a copy and quotes its value, the mirror reports the refusal without the value', async () => {
    await scene.namespaces('made');
    await using _ = await refuse(scene.api, 'made', quoting('object', 'made'));
    await scene.secret(HOME, 'made', { a: '1', b: '2' });
    await scene.mirror('made', ['made']);
    await scene.ready('made', 'SyncError', /not this: \[redacted\] \(2\)/);
    await scene.event('made', 'SyncError', /not this: \[redacted\] \(2\)/);
  });

  it('if the server truncates the message of a policy that quotes a long value, the mirror reports the refusal without the value', async () => {
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
    it(`if a policy refuses the change of a copy and quotes the ${name} object, the mirror reports the refusal without the value`, async () => {
      await settled(name);
      await using _ = await refuse(scene.api, name, { ...quoting(quoted, name), operations: ['UPDATE'] });
      await scene.change(HOME, name, { a: 'another' });
      await scene.ready(name, 'SyncError', /not this: \[redacted\] \(1\)/);
    });
  }

  it("if a policy refuses the change of a copy's label and quotes a value, the mirror reports the refusal without the value", async () => {
    await settled('label');
    await using _ = await refuse(scene.api, 'label', { ...quoting('object', 'label'), operations: ['UPDATE'] });
    await scene.api.patch(secretPath(HOME, 'label'), { metadata: { labels: { team: 'a' } } });
    await scene.ready('label', 'SyncError', /not this: \[redacted\] \(1\)/);
  });

  it('if a policy refuses the deletion of a copy and quotes its value, the mirror reports the refusal without the value', async () => {
    await settled('deleted');
    await using _ = await refuse(scene.api, 'deleted', { ...quoting('oldObject', 'deleted'), operations: ['DELETE'] });
    await scene.api.delete(mirrorPath('deleted'));
    await scene.ready('deleted', 'SyncError', /not this: \[redacted\] \(1\)/);
  });
});

for (const kind of KINDS) {
  describe(`the report of a refused ${kind.kind} of the replicator`, () => {
    let scene: ReplicatorScene;
    let users: KindScene;
    before(async () => {
      scene = await ReplicatorScene.open({ controllerManager: false });
      await scene.namespaces('source', 'pushed', 'pulled');
      users = scene.of(kind);
      await scene.operator([...ARGS, '--controllers=replicator'], { command: 'run' });
    });
    after(() => scene.close());

    const reported = async (name: string): Promise<void> => {
      const { message } = await users.warning(name, 'Refused');
      assert.match(message, /not this: \[redacted\] \(1\)/);
    };

    it(`if a policy refuses to create or change a pushed ${kind.kind} and quotes a value, the event has no value`, async () => {
      const more = { metadata: { annotations: { [LAST_APPLIED]: 'x' } } };
      {
        await using _ = await refuse(scene.api, 'pushed', { ...quoting('object', 'pushed'), resource: kind.plural });
        await users.create('source/made', { a: '1' }, { 'replicate-to': 'pushed/made' }, more);
        await reported('source/made');
      }
      await users.create('source/changed', { a: '1' }, { 'replicate-to': 'pushed/changed' });
      await users.holds('pushed/changed', { a: '1' });
      await using _ = await refuse(scene.api, 'old-pushed', {
        ...quoting('oldObject', 'pushed'),
        resource: kind.plural,
        operations: ['UPDATE'],
      });
      await users.change('source/changed', { a: '2' });
      await reported('source/changed');
    });

    it(`if a policy refuses to fill or clear a pulled ${kind.kind} and quotes a value, the event has no value`, async () => {
      await users.create('source/allows', { a: '1' }, { 'replication-allowed': 'true' });
      {
        await using _ = await refuse(scene.api, 'pulled', {
          ...quoting('object', 'pulled'),
          operations: ['UPDATE'],
          resource: kind.plural,
        });
        await users.create('pulled/filled', {}, { 'replicate-from': 'source/allows' });
        await reported('pulled/filled');
      }
      await users.create('pulled/cleared', {}, { 'replicate-from': 'source/allows' });
      await users.holds('pulled/cleared', { a: '1' });
      await using _ = await refuse(scene.api, 'old-pulled', {
        ...quoting('oldObject', 'pulled'),
        resource: kind.plural,
        operations: ['UPDATE'],
      });
      await users.annotate('source/allows', { 'replication-allowed': 'false' });
      await reported('pulled/cleared');
    });
  });
}
