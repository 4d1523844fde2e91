/** Checks when an annotated object counts for the limit of its namespace, and when it makes room. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { observedObject } from '../../../test/support/observed-object.ts';
import { ruleScope } from '../../../test/support/rule-scope.ts';
import { type RuleKey, ruleKeyOfKind } from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import { ReplicatorRules } from './rules.ts';

const MANY = Array.from({ length: 100 }, (_, index) => `n-${index}`).join();

test('an object without room gets TooManyTargets; it is evaluated again when another one gets smaller, pulls, or is gone', async () => {
  const objects = new Map<string, Observed>();
  const woken: RuleKey[] = [];
  const scope = ruleScope({ onRoom: (rule) => woken.push(rule) });
  const rules = new ReplicatorRules(scope, (_kind, _namespace, name) => objects.get(name));
  const keyOf = (name: string): RuleKey => ruleKeyOfKind('replicator', 'Secret', 'home', name);
  const evaluate = async (
    name: string,
    annotations: Readonly<Record<string, string>> | undefined,
  ): Promise<string | undefined> => {
    if (annotations === undefined) objects.delete(name);
    else objects.set(name, observedObject({ annotations }));
    return (await rules.evaluate(keyOf(name), { ownedBy: () => [] }))?.refusal?.reason;
  };
  const push = { 'k8s-replicator/replicate-to': MANY, 'k8s-replicator/replicate-to-namespaces': MANY };
  assert.equal(await evaluate('first', push), undefined);
  for (const [how, annotations, reason] of [
    ['smaller', { 'k8s-replicator/replicate-to': 'a' }, undefined],
    ['pulls', { 'k8s-replicator/replicate-from': 'a/b' }, undefined],
    ['no rule', {}, undefined],
    ['gone', undefined, undefined],
  ] as const) {
    assert.equal(await evaluate('second', push), 'TooManyTargets', how);
    assert.deepEqual(woken.splice(0), [], how);
    assert.equal(await evaluate('first', annotations), reason, how);
    assert.deepEqual(woken.splice(0), [keyOf('second')], how);
    const isRoom = how !== 'smaller';
    assert.equal(await evaluate('second', push), isRoom ? undefined : 'TooManyTargets', how);
    await evaluate('second', undefined);
    assert.equal(await evaluate('first', push), undefined, how);
    woken.length = 0;
  }
  // Its copies stay.
  assert.equal(await evaluate('first', { 'k8s-replicator/replicate-to': 'a/b/c' }), 'IllFormed');
  assert.equal(await evaluate('second', push), 'TooManyTargets');
  assert.deepEqual(woken, []);
});
