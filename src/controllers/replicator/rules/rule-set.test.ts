/** Copies of a source whose annotations are refused stay; copies of a source that is gone do not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Reach } from '../../common/namespaces/reach.ts';
import { observedObject } from '../../../../test/support/observed-object.ts';
import { Namespaces } from '../../../copy/cluster/watch/namespaces.ts';
import { ruleKeyOfKind } from '../../../copy/model/keys.ts';
import { SECRET } from '../../../copy/model/kind.ts';
import { finish } from '../../../runtime/queue/slices.ts';
import { RuleLimits } from '../../common/rules/rule-limits.ts';
import { PatternCache } from '../../../runtime/text/name-patterns.ts';
import { annotationNames } from './annotations.ts';
import { REPLICATOR_CONTROLLER, ReplicatorRules } from './rule-set.ts';

const RULE = ruleKeyOfKind(REPLICATOR_CONTROLLER, 'Secret', 'home', 'db');

function rules(replicateTo: string): ReplicatorRules {
  const source = observedObject({ annotations: { 'k8s-replicator/replicate-to': replicateTo } });
  const made = new ReplicatorRules({
    cluster: 'c',
    settings: {
      names: annotationNames('k8s-replicator'),
      allowAll: false,
      ignoreUnknown: false,
      createWithLabels: {},
      patterns: new PatternCache('full'),
    },
    kinds: [SECRET],
    namespaces: new Namespaces(),
    limits: new RuleLimits({ namespaces: () => 1, onChange: () => undefined }),
    reach: new Reach(),
    push: true,
    observed: () => source,
  });
  finish(made.evaluate(RULE, { ownedBy: () => [] }));
  return made;
}

test('a copy whose source has a mistake stays, as long as the source is there', () => {
  const copy = observedObject({ annotations: { 'k8s-replicator/replicated-by': 'home/db' } });
  const broken = rules('team-[/db');
  assert.ok(broken.problemOf(RULE) !== undefined);
  assert.equal(broken.orphanPolicy(RULE, copy, true), 'keep');
  assert.equal(broken.orphanPolicy(RULE, copy, false), 'delete');
  assert.equal(rules('team/db').orphanPolicy(RULE, copy, true), 'delete');
});

test('a copy with an annotation that is not known stays in any case', () => {
  const copy = observedObject({
    annotations: { 'k8s-replicator/replicated-by': 'home/db', 'k8s-replicator/new': 'x' },
  });
  assert.equal(rules('team/db').orphanPolicy(RULE, copy, false), 'keep');
});
