/** What of a source's labels and annotations its copies carry. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { COPY_LABEL, isCopied } from '../../common/excluded-metadata.ts';
import { annotationNames } from '../../replicator/rules/annotations.ts';
import { observe } from '../../../copy/model/observed.ts';
import { MIRROR_ANNOTATIONS } from '../api.ts';
import { NOTHING_CHOSEN } from './choices.ts';
import { MirrorShape, RETAIN_ANNOTATION, RetainShape } from './shape.ts';

describe('a copy of a SecretMirror', () => {
  for (const prefix of ['k8s-replicator', 'my.org', '']) {
    it(`a copy does not carry the replicator's annotations under the prefix ${JSON.stringify(prefix)}`, () => {
      const { prefix: _, ...names } = annotationNames(prefix);
      const annotations = Object.fromEntries(Object.values(names).map((name) => [name, 'true']));
      const shape = new MirrorShape({ owner: 'default/m', retain: false });
      const source = { state: 'present', version: '1', labels: {}, annotations } as const;
      const desired = shape.desiredState(source, undefined, 0);
      assert.equal(desired.kind, 'be');
      const carried = desired.kind === 'be' ? Object.keys(desired.annotations) : [];
      assert.deepEqual(
        carried.filter((name) => name in annotations),
        [],
      );
    });
  }

  it('a copy has other annotations with the prefix of the replicator', () => {
    for (const key of ['my.org/team', 'my.org/replicate', 'team', 'replicate-from.my.org/x']) {
      assert.equal(isCopied(key), true, key);
    }
  });
});

test('shapes of mirrors that differ have different ids, whatever their users have written', () => {
  const path = 'secret/data/a b';
  const options = [
    { retain: true },
    { retain: false },
    { retain: false, vaultPath: '' },
    { retain: false, vaultPath: path },
    { retain: false, vaultPath: 'secret/data/a', choices: { ...NOTHING_CHOSEN, id: 'b' } },
    { retain: false, vaultPath: path, choices: { ...NOTHING_CHOSEN, id: 'b' } },
  ];
  const ids = options.map((one) => new MirrorShape({ owner: 'default/m', ...one }).id);
  assert.equal(new Set(ids).size, options.length, ids.join('\n'));
  assert.equal(new MirrorShape({ owner: 'default/m', retain: false, vaultPath: path }).id, ids[3]);
});

describe('a retained copy', () => {
  const desired = (annotations: Record<string, string>) => {
    const labels = { [COPY_LABEL]: 'mirrors', team: 'a' };
    const marks = { [MIRROR_ANNOTATIONS.ownedBy]: 'default/m', ...annotations };
    const meta = { uid: 'u', name: 'n', resourceVersion: '1', creationTimestamp: '', labels, annotations: marks };
    const desired = new RetainShape('default/m').desiredState({ state: 'unknown' }, observe(meta));
    assert.ok(desired.kind === 'be');
    return [desired.annotations[RETAIN_ANNOTATION], desired.annotations[MIRROR_ANNOTATIONS.ownedBy], desired.labels];
  };
  const note = 'x'.repeat(256 * 1024 - 100);

  it('a retained copy is marked', () => {
    assert.deepEqual(desired({}), ['true', 'default/m', { [COPY_LABEL]: 'mirrors', team: 'a' }]);
  });

  it('a retained copy loses the mark of its owner if there is no room to mark it as retained, and only then', () => {
    assert.deepEqual(desired({ note }), [undefined, null, { [COPY_LABEL]: null, team: 'a' }]);
    assert.deepEqual(desired({ note, [RETAIN_ANNOTATION]: 'true' })[1], 'default/m');
  });
});
