/** The rule of a Secret that lost its label ends, unless KubeLB's finalizer must be removed first. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { KubeObject } from '../../kube/api.ts';
import { RuleStore } from '../common/rules/rule-store.ts';
import { MANAGED_BY_KUBELB, MANAGED_BY_LABEL, ORIGINAL_FINALIZER } from './api.ts';
import { labelledSecretSink } from './synchronizer.ts';
import { secretRule, secretVersion, SYNCHRONIZER_CONTROLLER } from './rules/synchronizer-rule-set.ts';

const labels = { [MANAGED_BY_LABEL]: MANAGED_BY_KUBELB };
const common = { name: 'x', namespace: 'default', uid: 'u', creationTimestamp: '' };

test('the rule of a Secret that lost its label stays only while the Secret has the finalizer of KubeLB', () => {
  for (const [finalizers, expected] of [
    [[ORIGINAL_FINALIZER], false],
    [['example.com/other'], undefined],
    [[], undefined],
  ] as const) {
    const secrets = new RuleStore({
      controller: SYNCHRONIZER_CONTROLLER,
      toRule: secretRule,
      versionOf: secretVersion,
    });
    const sink = labelledSecretSink(secrets);
    const secret = (resourceVersion: string): KubeObject => ({
      metadata: { ...common, resourceVersion, labels, finalizers: [...finalizers] },
    });
    sink.upsert(secret('1'), true);
    const rule = secrets.key('default', 'x');
    assert.equal(secrets.get(rule)?.isOffered, true);
    sink.remove(secret('2'));
    assert.equal(secrets.get(rule)?.isOffered, expected);
  }
});
