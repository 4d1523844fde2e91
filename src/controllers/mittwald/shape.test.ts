/** Tests how long an object of a user that gets keys has consented, and what it is like afterwards. */
import assert from 'node:assert/strict';
import { it } from 'node:test';

import { observedObject } from '../../../test/support/observed-object.ts';
import type { DesiredState, SourceView } from '../../copy/model/claim.ts';
import { MERGED_FROM, PLACE_ANNOTATION } from '../../copy/model/observed.ts';
import { PushShape } from './shape.ts';
import { ACCEPT_PUSH, NAMES, userText } from './words.ts';

const ANNOTATIONS = { [NAMES.to]: 't' };
const SOURCE: SourceView = { state: 'present', version: '7', labels: {}, annotations: ANNOTATIONS };

/** @param own the annotations that Keyferry wrote */
function desired(
  annotations: Readonly<Record<string, string>>,
  own: readonly string[] = [],
  mergesForeign = false,
): DesiredState {
  const shape = new PushShape({
    source: { namespace: 'a', name: 'x' },
    text: userText(ANNOTATIONS),
    stripsLabels: false,
    owners: undefined,
    mergesForeign,
  });
  return shape.desiredState(SOURCE, observedObject({ annotations, ownAnnotations: own }), 0);
}

const MARKS = { [MERGED_FROM]: 'a/x', [PLACE_ANNOTATION]: 't/x', [NAMES.keys]: 'k', [NAMES.version]: '6' };
const OURS = Object.keys(MARKS);

const rows: readonly (readonly [string, DesiredState, string])[] = [
  ['accepts keys', desired({ [ACCEPT_PUSH]: 'a' }), 'merged from a/x'],
  ['still accepts keys', desired({ ...MARKS, [ACCEPT_PUSH]: 'b, a' }, OURS), 'merged from a/x'],
  ['accepts only those of another namespace now', desired({ ...MARKS, [ACCEPT_PUSH]: 'b' }, OURS), 'back'],
  ['accepts none any more', desired(MARKS, OURS), 'back'],
  ['has a mark that somebody wrote by hand', desired(MARKS), 'back'],
  ['need not accept them', desired(MARKS, OURS, true), 'merged from a/x'],
  ['has the list of the original', desired({ [NAMES.keys]: 'k' }), 'merged from a/x, accepts a'],
  [
    'had the list of the original',
    desired({ ...MARKS, [ACCEPT_PUSH]: 'a' }, [...OURS, ACCEPT_PUSH]),
    'merged from a/x, accepts a',
  ],
];
for (const [title, state, expected] of rows)
  it(`an object of a user that ${title} is to be: ${expected}`, () => {
    assert.ok(state.kind === 'be');
    const { annotations, merged, data, remark } = state;
    assert.equal(merged?.isUsers, true);
    const accepts = annotations[ACCEPT_PUSH];
    const text =
      data === 'source' ? `merged from ${annotations[MERGED_FROM]}${accepts ? `, accepts ${accepts}` : ''}` : 'back';
    assert.equal(text, expected);
    if (data === 'source') return;
    assert.equal(remark?.reason, 'Conflict');
    for (const mark of OURS) assert.equal(annotations[mark], null);
    assert.equal(accepts, undefined, 'what the user wrote stays');
  });

it('the list of the original is no consent where the user says who may push', () => {
  assert.equal(desired({ [NAMES.keys]: 'k' }).takes, 'maybe');
  for (const version of [{}, { [NAMES.version]: '7' }])
    assert.equal(desired({ [NAMES.keys]: 'k', ...version, [ACCEPT_PUSH]: 'b' }).takes, undefined);
});
