/** Which copies stay when no rule claims them, and how often the annotations of a source are parsed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { asKey } from '../../../../test/support/keys.ts';
import { observedObject } from '../../../../test/support/observed-object.ts';
import { Claims } from '../../../copy/book/claims.ts';
import { ruleKeyOfKind } from '../../../copy/model/keys.ts';
import { KeyLists } from '../../../copy/model/key-lists.ts';
import { Slot } from '../../../copy/model/observed.ts';
import type { RuleState } from '../../../copy/model/rule-set.ts';
import { PushShape } from '../shape/push.ts';
import { ReplicatorRules } from './rule-set.ts';
import { warningsOf } from '../../common/annotated/report.ts';
import { ruleScope } from '../../../../test/support/rule-scope.ts';

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

test('of a pattern that looks like a glob and selects no namespace, one warning is given', async () => {
  const scope = ruleScope();
  scope.namespaces.assume('team-a');
  const source = observedObject({ annotations: { 'k8s-replicator/replicate-to-namespaces': 'team-*' } });
  const ruleSet = new ReplicatorRules(scope, () => source);
  const claims = new Claims();
  const outOfReach = (await ruleSet.evaluate(RULE, claims))?.outOfReach;
  assert.equal(outOfReach?.part, 'none');
  const reasons = warningsOf(ruleSet, RULE, outOfReach).map(({ reason }) => reason);
  assert.deepEqual(reasons, ['MisreadPattern']);
});

test('an orphan with an unknown annotation is kept', () => {
  const copy = observedObject({
    annotations: { 'k8s-replicator/replicated-by': 'home/db', 'k8s-replicator/new': 'x' },
  });
  assert.equal(rules('team/db').orphanPolicy(RULE, copy), 'keep');
});

test('all copies of a source share one shape, also those that were named later: it holds the parsed annotations', async () => {
  const scope = ruleScope();
  let list = '';
  const ruleSet = new ReplicatorRules(scope, () =>
    observedObject({ annotations: { 'k8s-replicator/replicate-to-namespaces': list } }),
  );
  const claims = new Claims();
  claims.add(ruleSet);
  for (const namespace of ['team-a', 'team-b', 'team-c']) {
    scope.namespaces.assume(namespace);
    list += `${namespace},`;
    claims.put(RULE, await ruleSet.evaluate(RULE, claims));
  }
  const shapes = [...claims.book.of(RULE)].map(({ claim }) => claim.shape);
  assert.equal(shapes.length, 3);
  assert.equal(new Set(shapes).size, 1);
});

test('the annotations of a source that is itself a copy are parsed only once for ten targets', (t) => {
  const { settings } = rules('team/db');
  const read = t.mock.method(settings.patterns, 'get');
  const place = { namespace: 'home', name: 'db' };
  const shape = new PushShape(settings, place);
  const slot = (name: string): Slot => {
    const annotations = { 'k8s-replicator/replicate-to-namespaces': 'team-.*', 'keyferry.dev/target': `home/${name}` };
    const meta = { ...place, name, uid: name, resourceVersion: '1', creationTimestamp: '', annotations };
    return new Slot(meta, {}, { name: 'home', lists: new KeyLists() }, name);
  };
  const [source, target] = [slot('db'), slot('other')];
  for (let copy = 0; copy < 10; copy += 1) {
    const { labels, annotations } = source;
    const desired = shape.desiredState({ state: 'present', version: '1', labels, annotations }, undefined, 0);
    assert.equal(desired.kind, 'be');
    assert.notEqual(target.annotations, annotations, 'each decision reads its target, too');
  }
  assert.equal(read.mock.callCount(), 1);
});
