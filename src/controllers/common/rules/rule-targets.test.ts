/** Checks which rules a change of a namespace concerns, although they do not select it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { asKey } from '../../../../test/support/keys.ts';
import { ruleScope } from '../../../../test/support/rule-scope.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import { parseSelector } from '../../../runtime/text/label-selector.ts';
import { type NamePattern, PatternCache } from '../../../runtime/text/name-patterns.ts';
import { reachOf } from '../namespaces/reach.ts';
import type { NamespaceSelection } from '../namespaces/selection.ts';
import { RuleTargets } from './rule-targets.ts';

const RULE = asKey<RuleKey>('toy:Secret/home/db');

/** Whether a change of a namespace concerns the rule. Default: a change of labels. */
async function isConcerned(targets: RuleTargets, namespace: string, change?: 'all'): Promise<boolean> {
  const changes = { any: new Set([namespace]), exceptLabels: change === undefined ? [] : [namespace] };
  return [...(await targets.rulesFor(changes))].includes(RULE);
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

test('a changed namespace concerns the rules that select its name; changed labels concern only those that read any label', async () => {
  const patterns = ['t-.*', '.*-x'].map((text) => new PatternCache('full').get(text) as NamePattern);
  const byName: NamespaceSelection = { names: new Set(['a']), patterns };
  const labels = parseSelector('tier=prod');
  const rows: readonly (readonly [string, NamespaceSelection, boolean])[] = [
    ['names and patterns', byName, false],
    ['a selector', { ...byName, labels }, true],
    ['a selector without requirements', { ...byName, labels: parseSelector('') }, false],
    ['an alternative selector', { names: new Set(), patterns: [], orLabels: labels }, true],
    ['a selector in another selection', { ...byName, and: { names: new Set(), patterns: [], orLabels: labels } }, true],
  ];
  for (const [title, selection, readsLabels] of rows) {
    const targets = new RuleTargets(ruleScope(), 'toy');
    await targets.find(RULE, { selection });
    assert.equal(targets.readsLabels(RULE), readsLabels, title);
    for (const name of ['a', 't-1', 'b-x'])
      assert.deepEqual(
        [await isConcerned(targets, name, 'all'), await isConcerned(targets, name)],
        [true, readsLabels],
        `${title}: ${name}`,
      );
    const isAny = selection.orLabels !== undefined;
    assert.deepEqual([await isConcerned(targets, 'b', 'all'), await isConcerned(targets, 'b')], [isAny, isAny], title);
  }
  // With such a limit, labels decide on all rules.
  const limits = { sourceNamespaces: undefined, excludedNamespaces: undefined, requireConsent: false };
  const reach = reachOf({ ...limits, destinationNamespaces: { selector: 'zone' } });
  const targets = new RuleTargets(ruleScope({ reach }), 'toy');
  await targets.find(RULE, { selection: byName });
  assert.deepEqual([await isConcerned(targets, 'a'), await isConcerned(targets, 'b')], [true, false]);
});

test('if a limit of sources goes by labels, a change of labels concerns the rules in the namespace', async () => {
  const limits = { destinationNamespaces: undefined, excludedNamespaces: undefined, requireConsent: false };
  const reach = reachOf({ ...limits, sourceNamespaces: { selector: 'zone=a' } });
  const metadata = { name: 'home', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
  const selection = { names: new Set(['team']), patterns: [] };
  // Whether the rule may copy at first or not, the change of the label concerns it.
  for (const zones of ['ab', 'ba']) {
    const scope = ruleScope({ reach });
    const targets = new RuleTargets(scope, 'toy');
    for (const zone of zones) {
      scope.namespaces.sink.upsert({ metadata: { ...metadata, labels: { zone } } });
      const { outOfReach } = await targets.find(RULE, { selection });
      assert.equal(outOfReach?.part, zone === 'a' ? undefined : 'all');
      const concerned = [await isConcerned(targets, 'home'), await isConcerned(targets, 'other')];
      assert.deepEqual(concerned, [true, false], `${zone} of ${zones}`);
    }
  }
});
