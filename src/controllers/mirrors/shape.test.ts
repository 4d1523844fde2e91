/** What of a source's labels and annotations its copies carry. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { annotationNames } from '../replicator/annotations.ts';
import { isCopied, MirrorShape } from './shape.ts';

describe('a copy of a SecretMirror', () => {
  for (const prefix of ['k8s-replicator', 'my.org', '']) {
    it(`does not carry the replicator's annotations under the prefix ${JSON.stringify(prefix)}`, () => {
      const { prefix: _, ...names } = annotationNames(prefix);
      const annotations = Object.fromEntries(Object.values(names).map((name) => [name, 'true']));
      const shape = new MirrorShape({ owner: 'default/m', retain: false });
      const source = { state: 'present', version: '1', labels: {}, annotations } as const;
      const desire = shape.desire(source, undefined, 0);
      assert.equal(desire.kind, 'be');
      const carried = desire.kind === 'be' ? Object.keys(desire.annotations) : [];
      assert.deepEqual(
        carried.filter((name) => name in annotations),
        [],
      );
    });
  }

  it('carries what else stands under such a prefix', () => {
    for (const key of ['my.org/team', 'my.org/replicate', 'team', 'replicate-from.my.org/x']) {
      assert.equal(isCopied(key), true, key);
    }
  });
});
