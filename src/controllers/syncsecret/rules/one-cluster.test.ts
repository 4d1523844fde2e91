import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import type { ObjectMeta } from '../../../kube/api.ts';
import { KeyLists } from '../../../copy/model/key-lists.ts';
import { SYNC_SECRET_FINALIZER } from '../api.ts';
import { ORIGIN_ANNOTATION, PROPAGATED_ANNOTATION } from './marks.ts';
import { ccmDuty, servedNamespaces } from './one-cluster.ts';
import { ruleOf, type SyncSecretRule } from './rule.ts';

const UID = '3d8f4a52-9b1f-4a35-9f0e-0a3a6d1c7f11';

function rule(namespace: string, more: Partial<ObjectMeta> = {}): SyncSecretRule {
  const metadata = { namespace, name: UID, uid: UID, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };
  return ruleOf({ metadata: { ...metadata, ...more } }, new KeyLists());
}

const deleted = { deletionTimestamp: '2026-01-01T00:00:00Z' };
const propagated = { finalizers: [SYNC_SECRET_FINALIZER], annotations: { [PROPAGATED_ANNOTATION]: 'tenant-a' } };
const copied = { labels: { 'kubelb.k8c.io/origin-name': 'x', 'kubelb.k8c.io/origin-ns': 'y' } };
const markedCopy = { annotations: { [ORIGIN_ANNOTATION]: 'x/app/one' } };

describe('the CCM', () => {
  const cases: readonly (readonly [string, SyncSecretRule, ccm: string, managers: string])[] = [
    ['a new SyncSecret', rule('n'), 'copy', 'none'],
    ['a propagated SyncSecret', rule('n', propagated), 'copy', 'release'],
    ['a deleted propagated SyncSecret', rule('n', { ...propagated, ...deleted }), 'release', 'release'],
    ['a deleted SyncSecret', rule('n', deleted), 'release', 'none'],
    ['a copy of KubeLB', rule('n', copied), 'none', 'none'],
    ['a copy', rule('n', markedCopy), 'none', 'none'],
    ['a deleted copy', rule('n', { ...copied, ...deleted }), 'none', 'none'],
    ['a propagated copy', rule('n', { ...copied, ...propagated }), 'release', 'release'],
  ];
  for (const [title, object, ...duties] of cases) {
    it(`the duty of the CCM for ${title} is ${duties[0]}; in a namespace of a manager in its process it is ${duties[1]}`, () => {
      assert.deepEqual(
        [false, true].map((isManagers) => ccmDuty(object, () => isManagers)),
        duties,
      );
    });
  }
});

it('by default the manager serves all namespaces; with patterns, those that match', () => {
  const names = ['app', 'tenant-a', 'my-tenant-a'];
  const served = (patterns: readonly string[]): string[] => names.filter(servedNamespaces(patterns));
  assert.deepEqual(served([]), names);
  assert.deepEqual(served(['tenant-.*']), ['tenant-a']);
  assert.deepEqual(served(['app', 'my-.*']), ['app', 'my-tenant-a']);
});
