/** Policies of a cluster that quote the values of the Secret which they refuse: the user hears of the refusal, and of no value. */
import { after, before, describe, it } from 'node:test';

import { HOME, mirrorPath, MirrorScene, secretPath } from '../mirrors/support.ts';
import { refuse } from './admission.ts';

let scene: MirrorScene;

before(async () => {
  scene = await MirrorScene.open();
  await scene.operator();
});
// Looks for the values in all that the operator has said and written.
after(() => scene.close());

const quoting = (object: 'object' | 'oldObject', name: string): { readonly when: string; readonly words: string } => ({
  when: `request.namespace == '${name}'`,
  words: `'not this: ' + ${object}.data['a'] + ' (' + string(${object}.data.size()) + ')'`,
});

describe('a value in the words of who refuses', () => {
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

async function settled(name: string): Promise<void> {
  await scene.namespaces(name);
  await scene.secret(HOME, name, { a: '1' });
  await scene.mirror(name, [name]);
  await scene.ready(name, 'Synced');
}
