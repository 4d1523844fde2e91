/** The rule of a Secret that lost its label ends, unless KubeLB's finalizer must be removed first. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { KubeObject } from '../../kube/api.ts';
import { MANAGED_BY_KUBELB, MANAGED_BY_LABEL, ORIGINAL_FINALIZER } from './api.ts';
import { OfferedSecrets } from './synchronizer.ts';

const labels = { [MANAGED_BY_LABEL]: MANAGED_BY_KUBELB };
const common = { name: 'x', namespace: 'default', uid: 'u', creationTimestamp: '' };

test('the rule of a Secret that lost its label stays only while the Secret has the finalizer of KubeLB', () => {
  for (const [finalizers, expected] of [
    [[ORIGINAL_FINALIZER], false],
    [['example.com/other'], undefined],
    [[], undefined],
  ] as const) {
    const secrets = new OfferedSecrets();
    const secret = (resourceVersion: string): KubeObject => ({
      metadata: { ...common, resourceVersion, labels, finalizers: [...finalizers] },
    });
    secrets.labelled.upsert(secret('1'));
    const rule = secrets.key('default', 'x');
    assert.equal(secrets.get(rule)?.isOffered, true);
    secrets.labelled.remove(secret('2'));
    assert.equal(secrets.get(rule)?.isOffered, expected);
  }
});

test('a Secret that was read is a rule only if it lost its label and has the finalizer of KubeLB', () => {
  for (const [metadata, isRule] of [
    [{ finalizers: [ORIGINAL_FINALIZER] }, true],
    [{ finalizers: [ORIGINAL_FINALIZER], labels }, false],
    [{}, false],
  ] as const) {
    const read: string[] = [];
    const secrets = new OfferedSecrets(undefined, (rule) => read.push(rule));
    secrets.versionOf({ metadata: { ...common, resourceVersion: '1', ...metadata } });
    const rule = secrets.key('default', 'x');
    assert.equal(secrets.get(rule) !== undefined, isRule);
    assert.deepEqual(read, [rule]);
  }
});
