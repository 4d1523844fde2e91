/** Tests what is told of copies that go because the annotations of their rule are gone. */
import assert from 'node:assert/strict';
import { it } from 'node:test';

import type { ResourceKey } from '../../../copy/model/keys.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import { asKeys } from '../../../../test/support/keys.ts';
import { observedObject } from '../../../../test/support/observed-object.ts';
import { removalWarnings } from './report.ts';

const COPIES = asKeys<ResourceKey>(['c:Secret/a/x', 'c:Secret/b/x', 'c:Secret/c/x']);
const before = observedObject({ annotations: { 'copier/to': 'a,b', 'copier/kind': 'x', 'my.org/note': 'y' } });
/** The annotation `copier/to` makes a rule. */
const rules = { versionOf: ({ annotations }: Observed) => annotations['copier/to'] };

const told = (count: number, claimed: readonly ResourceKey[] = []): string[] =>
  removalWarnings(
    rules,
    { before, copies: COPIES.slice(0, count) },
    { isClaimed: (copy) => claimed.includes(copy) },
  ).map(({ type, reason, message }) => `${type} ${reason}: ${message}`);

it('a rule that is gone from its object is told of with its annotation and the number of copies that no rule wants', () => {
  const begin = 'Warning RuleRemoved: annotation copier/to is gone from the object, so its';
  assert.deepEqual(told(3), [`${begin} 3 copies go`]);
  assert.deepEqual(told(3, COPIES.slice(0, 2)), [`${begin} copy goes`]);
  assert.deepEqual(told(3, COPIES), []);
  assert.deepEqual(told(0), []);
});
