import type { RuleKey } from '../../copy/model/keys.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { observe } from '../../copy/model/observed.ts';
import { PatternCache } from '../../runtime/text/name-patterns.ts';
import { annotationNames, ruleText } from './words.ts';
import { ReplicatorRules } from './rules.ts';
import { annotatedStore } from '../common/annotated/controller.ts';
import { reportOf } from '../common/annotated/report.ts';
import type { Controller } from '../../copy/engine/controller.ts';
import { ruleLife } from '../../../test/support/rule-life.ts';
import { asKey } from '../../../test/support/keys.ts';
import { ruleScope } from '../../../test/support/rule-scope.ts';

const RULE: RuleKey = asKey('replicator:Secret/default/db');
const METADATA = {
  name: 'db',
  namespace: 'default',
  uid: 'u',
  resourceVersion: '1',
  creationTimestamp: '2026-01-01T00:00:00Z',
  annotations: { 'k8s-replicator/replicate-to-namespaces': 'team-.*' },
};
const SETTINGS = {
  names: annotationNames('k8s-replicator'),
  allowAll: false,
  ignoreUnknown: false,
  createWithLabels: {},
  patterns: new PatternCache('full'),
};

const unused = (): never => assert.fail('must not be called');

function controllerOf(rules: ReplicatorRules): Controller {
  return {
    rules,
    store: annotatedStore(rules),
    kindOf: (rule) => rules.objectOf(rule).kind,
    open: unused,
    report: (facts) => (facts.rule === undefined ? undefined : reportOf(rules, facts)),
  };
}

test('while a change of namespaces is not yet applied to a rule, getLive gives the rule another version than its evaluation has', async () => {
  const { signal } = new AbortController();
  let pending: RuleKey | undefined;
  const body = Buffer.from(JSON.stringify({ metadata: METADATA }));
  const answer = { status: 200, headers: {}, body };
  const rules = new ReplicatorRules(ruleScope(), () => observe(METADATA));
  const api = { cluster: 'c', request: async () => await Promise.resolve(answer), stream: unused };
  const isOutdated = async (rule: RuleKey): Promise<boolean> => await Promise.resolve(rule === pending);
  const life = ruleLife(controllerOf(rules), { api, isOutdated });
  const evaluate = async (): Promise<string | undefined> =>
    (await rules.evaluate(RULE, { ownedBy: () => [] }))?.version;
  const isEvaluated = async (version: string | undefined): Promise<boolean> => {
    const state = await life.getLive(RULE, asKey('c:Secret/a/b'), signal);
    return state.state === 'there' && state.version === version;
  };
  const version = await evaluate();
  assert.equal(await isEvaluated(version), true);
  pending = RULE;
  assert.equal(await isEvaluated(version), false);
  assert.equal(await isEvaluated(await evaluate()), false);
  pending = undefined;
  assert.equal(await isEvaluated(version), true);
});

test('the version of a rule changes when its object gets the mark of a copy, and when that mark no longer counts', () => {
  const { names } = SETTINGS;
  const pushed = { ...METADATA.annotations, [names.by]: 'other/db' };
  const versions = [METADATA.annotations, pushed, { ...pushed, 'keyferry.dev/target': 'else/db' }].map((annotations) =>
    ruleText(SETTINGS, annotations),
  );
  assert.equal(new Set(versions).size, 3);
});
