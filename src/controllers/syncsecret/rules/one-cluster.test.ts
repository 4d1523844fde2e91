import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import type { ObjectMeta } from '../../../kube/api.ts';
import { KeyLists } from '../../../copy/model/key-lists.ts';
import { SYNC_SECRET_FINALIZER } from '../api.ts';
import { ORIGIN_ANNOTATION } from './marks.ts';
import { isOfCcm, servedNamespaces } from './one-cluster.ts';
import { ruleOf, type SyncSecretRule } from './rule.ts';

const UID = '3d8f4a52-9b1f-4a35-9f0e-0a3a6d1c7f11';

function rule(...parts: readonly Partial<ObjectMeta>[]): SyncSecretRule {
  const metadata = {
    namespace: 'n',
    name: 'x',
    uid: UID,
    resourceVersion: '1',
    creationTimestamp: '2026-01-01T00:00:00Z',
  };
  return ruleOf({ metadata: Object.assign(metadata, ...parts) }, new KeyLists());
}

const deleted = { deletionTimestamp: '2026-01-01T00:00:00Z' };
const held = { finalizers: [SYNC_SECRET_FINALIZER] };
const labelled = { labels: { 'kubelb.k8c.io/origin-name': 'y', 'kubelb.k8c.io/origin-ns': 'n' } };
const ofItself = { 'kubelb.k8c.io/origin-name': 'x', 'kubelb.k8c.io/origin-ns': 'n' };
const marked = { annotations: { [ORIGIN_ANNOTATION]: 'x/app/one' } };
const named = { name: UID };

describe('the CCM', () => {
  const cases: readonly (readonly [string, SyncSecretRule, isServed: boolean])[] = [
    ['a SyncSecret', rule(), true],
    ['a SyncSecret whose labels name itself', rule({ labels: ofItself }), true],
    ['a SyncSecret that is being deleted', rule(held, deleted), true],
    ['a copy of KubeLB', rule(named, held, labelled), false],
    ['a copy', rule(named, held, marked), false],
    ['a copy that is being deleted', rule(named, held, labelled, deleted), false],
    ['a SyncSecret that was copied, and got the labels of a copy', rule(held, labelled), false],
    [
      'a SyncSecret that was copied, got the labels of a copy, and is being deleted',
      rule(held, labelled, deleted),
      true,
    ],
    [
      'a SyncSecret with the labels of a copy that was never copied, and is being deleted',
      rule(labelled, deleted),
      false,
    ],
  ];
  for (const [title, object, isServed] of cases) {
    it(`the CCM ${isServed ? 'serves' : 'does not serve'} ${title}, and nothing in a namespace of a manager in its process`, () => {
      assert.deepEqual(
        [false, true].map((isManagers) => isOfCcm(object, () => isManagers)),
        [isServed, false],
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
