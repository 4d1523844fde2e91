/** Checks which rules a change of a namespace concerns, although they do not select it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { asKey } from '../../../../test/support/keys.ts';
import { ruleScope } from '../../../../test/support/rule-scope.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import { reachOf } from '../namespaces/reach.ts';
import { RuleTargets } from './rule-targets.ts';

const RULE = asKey<RuleKey>('toy:Secret/home/db');

async function isConcerned(targets: RuleTargets, namespace: string): Promise<boolean> {
  const changes = new Map([[namespace, new Set(['zone'])]]);
  return (await targets.rulesFor(changes)).includes(RULE);
}

test('a change of labels concerns the rules that pull from or into the namespace, until they go', async () => {
  const targets = new RuleTargets(ruleScope(), 'toy');
  targets.pullFrom(RULE, 'from');
  assert.equal(await isConcerned(targets, 'from'), false, 'no limit reads labels');
  targets.pullFrom(RULE, 'from', true);
  assert.deepEqual(await Promise.all(['home', 'from', 'other'].map(async (name) => await isConcerned(targets, name))), [
    true,
    true,
    false,
  ]);
  targets.leave(RULE);
  assert.equal(await isConcerned(targets, 'home'), false);
});

test('if a limit of sources goes by labels, a change of labels concerns the rules in the namespace', async () => {
  const limits = { destinationNamespaces: undefined, excludedNamespaces: undefined, requireConsent: false };
  const reach = reachOf({ ...limits, sourceNamespaces: { selector: 'zone=a' } });
  const scope = ruleScope({ reach });
  const targets = new RuleTargets(scope, 'toy');
  const find = async (): Promise<string | undefined> => {
    return (await targets.find(RULE, { selection: { names: new Set(['team']), patterns: [] } })).outOfReach?.part;
  };
  const metadata = { name: 'home', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
  assert.equal(await find(), 'all');
  assert.equal(await isConcerned(targets, 'home'), true);
  scope.namespaces.sink.upsert({ metadata: { ...metadata, labels: { zone: 'a' } } });
  assert.equal(await find(), undefined);
  assert.deepEqual([await isConcerned(targets, 'home'), await isConcerned(targets, 'other')], [true, false]);
});
