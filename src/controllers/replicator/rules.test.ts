/** Which copies stay when no rule claims them, and what a rule may select. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { asKey } from '../../../test/support/keys.ts';
import { observedObject } from '../../../test/support/observed-object.ts';
import { Claims } from '../../copy/book/claims.ts';
import { ruleKeyOfKind } from '../../copy/model/keys.ts';
import type { RuleState } from '../../copy/model/rule-set.ts';
import { ReplicatorRules } from './rules.ts';
import { warningsOf } from '../common/annotated/report.ts';
import { ruleScope } from '../../../test/support/rule-scope.ts';

const RULE = ruleKeyOfKind('replicator', 'Secret', 'home', 'db');

function rules(replicateTo: string): ReplicatorRules {
  const source = observedObject({ annotations: { 'k8s-replicator/replicate-to': replicateTo } });
  return new ReplicatorRules(ruleScope(), () => source);
}

test('if no rule claims a copy, it stays while its source has an invalid annotation; it is deleted if the source is gone or valid', async () => {
  const copy = observedObject({ annotations: { 'k8s-replicator/replicated-by': 'home/db' } });
  const fate = async (replicateTo: string, isThere: boolean): Promise<unknown> => {
    const claims = new Claims();
    const ruleSet = rules(replicateTo);
    claims.add(ruleSet);
    const evaluation = await ruleSet.evaluate(RULE, claims);
    claims.put(RULE, evaluation);
    const live: RuleState = isThere ? { state: 'there', version: evaluation?.version ?? '' } : { state: 'gone' };
    const lookup = { isOutdated: () => false, getLive: async () => await Promise.resolve(live) };
    return await claims.orphanActionOf(RULE, asKey('c:Secret/team/db'), copy, lookup);
  };
  assert.equal(await fate('team-[/db', true), 'keep');
  assert.equal(await fate('team-[/db', false), 'delete');
  assert.equal(await fate('team/db', true), 'delete');
});

test('whether a rule may select an object compiles no pattern: it may select all objects with its names', (t) => {
  const ruleSet = rules('team-a.*/db, team-a.*/web');
  const read = t.mock.method(ruleSet.settings.patterns, 'get');
  const selects = ruleSet.selects(RULE, asKey('c:Secret/team-b/web'));
  for (const other of ['Secret/team-b/other', 'ConfigMap/team-b/web', 'Secret/home/db'])
    assert.equal(ruleSet.selects(RULE, asKey(`c:${other}`)), undefined);
  assert.equal(read.mock.callCount(), 0);
  assert.equal(selects?.(), false);
});

test('a pattern that looks like a glob and selects no namespace is one warning', async () => {
  const scope = ruleScope();
  scope.namespaces.assume('team-a');
  const source = observedObject({ annotations: { 'k8s-replicator/replicate-to-namespaces': 'team-*' } });
  const ruleSet = new ReplicatorRules(scope, () => source);
  const claims = new Claims();
  const outOfReach = (await ruleSet.evaluate(RULE, claims))?.outOfReach;
  assert.equal(outOfReach?.part, 'named');
  const reasons = warningsOf(ruleSet, RULE, outOfReach).map(({ reason }) => reason);
  assert.deepEqual(reasons, ['MisreadPattern']);
});

test('an orphan with an unknown annotation is kept', () => {
  const copy = observedObject({
    annotations: { 'k8s-replicator/replicated-by': 'home/db', 'k8s-replicator/new': 'x' },
  });
  assert.equal(rules('team/db').orphanPolicy(RULE, copy), 'keep');
});

test('the copies of a source that has a replicate-from are empty, and have it too', async () => {
  const annotations = { 'k8s-replicator/replicate-to': 'copy', 'k8s-replicator/replicate-from': 'other' };
  const scope = ruleScope();
  scope.namespaces.assume('home');
  const ruleSet = new ReplicatorRules(scope, () => observedObject({ annotations }));
  const [claimed] = (await ruleSet.evaluate(RULE, { ownedBy: () => [] }))?.claims ?? [];
  const view = { state: 'present', version: '1', labels: {}, annotations } as const;
  const desired = claimed?.claim.shape.desiredState(view, undefined, 0);
  assert.ok(desired?.kind === 'be' && desired.data === 'minimal');
  assert.equal(desired.annotations['k8s-replicator/replicate-from'], 'home/other');
});
