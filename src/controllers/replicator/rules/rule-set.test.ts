/** Copies of a source whose annotations are refused stay; copies of a source that is gone do not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { asKey } from '../../../../test/support/keys.ts';
import { observedObject } from '../../../../test/support/observed-object.ts';
import { Claims } from '../../../copy/book/claims.ts';
import { ruleKeyOfKind } from '../../../copy/model/keys.ts';
import type { RuleState } from '../../../copy/model/rule-set.ts';
import { finish } from '../../../runtime/queue/slices.ts';
import { REPLICATOR_CONTROLLER, ReplicatorRules } from './rule-set.ts';
import { ruleScope } from '../../../../test/support/rule-scope.ts';

const RULE = ruleKeyOfKind(REPLICATOR_CONTROLLER, 'Secret', 'home', 'db');

function rules(replicateTo: string): ReplicatorRules {
  const source = observedObject({ annotations: { 'k8s-replicator/replicate-to': replicateTo } });
  return new ReplicatorRules(ruleScope(), { observed: () => source });
}

test('a copy whose source has a mistake stays, as long as the source is there', async () => {
  const copy = observedObject({ annotations: { 'k8s-replicator/replicated-by': 'home/db' } });
  const fate = async (replicateTo: string, isThere: boolean): Promise<string> => {
    const claims = new Claims({ flowsInto: () => new Map(), onChange: () => undefined });
    const ruleSet = rules(replicateTo);
    claims.add(ruleSet);
    const evaluation = finish(ruleSet.evaluate(RULE, claims));
    claims.put(RULE, evaluation);
    const live: RuleState = isThere ? { state: 'there', version: evaluation?.version ?? '' } : { state: 'gone' };
    const lookup = { isOutdated: () => false, getLive: async () => await Promise.resolve(live) };
    return await claims.orphanActionOf(RULE, asKey('c:Secret/team/db'), copy, lookup);
  };
  assert.equal(await fate('team-[/db', true), 'keep');
  assert.equal(await fate('team-[/db', false), 'delete');
  assert.equal(await fate('team/db', true), 'delete');
});

test('a copy with an annotation that is not known stays in any case', () => {
  const copy = observedObject({
    annotations: { 'k8s-replicator/replicated-by': 'home/db', 'k8s-replicator/new': 'x' },
  });
  assert.equal(rules('team/db').orphanPolicy(RULE, copy), 'keep');
});
