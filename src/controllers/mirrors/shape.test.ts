/** Checks the ids of shapes, the bound of their patterns, and copies that are retained. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { COPY_LABEL, observe } from '../../copy/model/observed.ts';
import { MIRROR_ANNOTATIONS } from './api.ts';
import { NOTHING_CHOSEN } from './rules/choices.ts';
import { MirrorShape, RETAIN_ANNOTATION, RetainShape } from './shape.ts';

test('if mirrors differ in deletePolicy, Vault path or choices, the ids of their shapes differ, even if a path has spaces', () => {
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

test('each label key of a source is matched one time for all copies; too many keys for large patterns are refused', () => {
  let matched = 0;
  const travels = (): boolean => (matched += 1) > 0;
  const choices = { ...NOTHING_CHOSEN, copiesLabel: travels, copiesAnnotation: travels, patternSize: 100 };
  const shape = new MirrorShape({ owner: 'default/m', retain: false, choices });
  const desired = (version: string, count: number) => {
    const labels = Object.fromEntries(Array.from({ length: count }, (_, index) => [`label-${1000 + index}`, '']));
    return shape.desiredState({ state: 'present', version, labels, annotations: {} }, undefined, 0);
  };
  for (let copy = 0; copy < 3; copy += 1) {
    const state = desired('1', 200);
    assert.equal(state.kind === 'be' && Object.keys(state.labels).length, 201, 'with the label of all copies');
  }
  assert.equal(matched, 200);
  const refused = desired('2', 201);
  assert.deepEqual([refused.kind, refused.kind === 'fail' && refused.reason, matched], ['fail', 'TooLarge', 200]);
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

  it('if a deleted mirror retains its copies, they get the annotation keyferry.dev/retain', () => {
    assert.deepEqual(desired({}), ['true', 'default/m', { [COPY_LABEL]: 'mirrors', team: 'a' }]);
  });

  it('a deleted mirror retains neither the copy of another mirror nor an object of a user', () => {
    for (const annotations of [{ [MIRROR_ANNOTATIONS.ownedBy]: 'default/other' }, {}]) {
      const meta = { uid: 'u', name: 'n', resourceVersion: '1', creationTimestamp: '', annotations };
      assert.equal(new RetainShape('default/m').desiredState({ state: 'unknown' }, observe(meta)).kind, 'wait');
    }
  });

  it('a retained copy loses the mark of its owner only if it has no room for the annotation keyferry.dev/retain', () => {
    assert.deepEqual(desired({ note }), ['true', null, { [COPY_LABEL]: 'mirrors', team: 'a' }]);
    assert.deepEqual(desired({ note, [RETAIN_ANNOTATION]: 'true' })[1], 'default/m');
  });
});
