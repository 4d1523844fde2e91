import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import type { ObjectMeta } from '../../kube/api.ts';
import { KeyLists } from '../../copy/model/key-lists.ts';
import { ORIGINAL_FINALIZER, SYNC_SECRET_FINALIZER } from './api.ts';
import { ORIGIN_ANNOTATION, PROPAGATED_ANNOTATION } from './marks.ts';
import { CcmWait, ManagementNamespaces } from './one-cluster.ts';
import { ruleOf, type SyncSecretRule } from './rule.ts';

const UID = '3d8f4a52-9b1f-4a35-9f0e-0a3a6d1c7f11';
const RULE = 'syncsecret-manager:app/new';

function rule(namespace: string, name: string, more: Partial<ObjectMeta> = {}): SyncSecretRule {
  const metadata = { namespace, name, uid: UID, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };
  return ruleOf({ metadata: { ...metadata, ...more } }, new KeyLists());
}

const prepared = { finalizers: [SYNC_SECRET_FINALIZER] };
const propagated = { ...prepared, annotations: { [PROPAGATED_ANNOTATION]: 'tenant-a' } };
const copied = { annotations: { [ORIGIN_ANNOTATION]: 'x/app/one' } };
const deleted = { deletionTimestamp: '2026-01-01T00:00:00Z' };

describe('the manager waits for a CCM', () => {
  const cases: readonly (readonly [
    string,
    seen: readonly SyncSecretRule[],
    object: SyncSecretRule,
    seconds: number,
  ])[] = [
    ['a little, while nothing shows whether there is one', [], rule('app', 'new'), 2],
    ['not, where it has served others', [rule('app', 'one', prepared)], rule('app', 'new'), 0],
    ['where one has served others', [rule('app', 'one', propagated)], rule('app', 'new'), 30],
    ['where both have', [rule('app', 'one', prepared), rule('app', 'two', propagated)], rule('app', 'new'), 30],
    ['whatever tenants write', [rule('tenant-a', 'one', propagated), rule('app', UID, copied)], rule('app', 'new'), 2],
    ['with what KubeLB has served', [], rule('app', 'new', { finalizers: [ORIGINAL_FINALIZER] }), 2],
    ['not with a copy', [rule('app', 'one', propagated)], rule('app', UID, copied), 0],
    ['not with what it has prepared', [rule('app', 'one', propagated)], rule('app', 'new', prepared), 0],
    ['not in the namespace of a tenant', [rule('app', 'one', propagated)], rule('tenant-a', 'new'), 0],
    ['for ever with what a CCM has propagated', [], rule('app', 'new', propagated), Infinity],
    ['with its deletion, until there can be no CCM', [], rule('app', 'new', { ...propagated, ...deleted }), 120],
    ['for ever, if it is deleted unserved', [rule('app', 'one', prepared)], rule('app', 'new', deleted), Infinity],
  ];
  for (const [title, seen, object, seconds] of cases) {
    it(title, () => {
      let now = 5;
      const wait = new CcmWait(false, () => now);
      for (const one of seen) wait.learn(one);
      assert.equal(wait.remainingMs(RULE, object), seconds * 1000);
      assert.equal(wait.has(RULE), seconds > 0);
      if (seconds === 0 || seconds === Infinity) return;
      now += 500;
      assert.equal(wait.remainingMs(RULE, object), seconds * 1000 - 500);
      now += seconds * 1000;
      assert.equal(wait.remainingMs(RULE, object), 0);
      assert.equal(wait.has(RULE), false);
    });
  }

  it('for ever, if it runs in the same process', () => {
    const wait = new CcmWait(true, () => 0);
    assert.equal(wait.remainingMs(RULE, rule('app', 'new')), Infinity);
    assert.equal(wait.remainingMs(RULE, undefined), 0, 'the CCM has it');
    assert.equal(wait.has(RULE), false);
  });
});

describe('the CCM leaves the namespaces of tenants alone', () => {
  const object = rule('tenant-b', 'new');
  const cases: readonly (readonly [string, hasManager: boolean, seen: readonly SyncSecretRule[], isLeft: boolean])[] = [
    ['not in a cluster of a tenant', false, [rule('app', 'one', copied), rule('tenant-a', 'clone', copied)], false],
    ['where its own copies are', false, [rule('tenant-a', UID, copied)], true],
    ['where a copy is in the namespace', false, [rule('tenant-b', UID, copied)], true],
    ['not for a copy in the namespace of another tenant', false, [rule('tenant-c', UID, copied)], false],
    ['with a manager in the process', true, [], true],
  ];
  for (const [title, hasManager, seen, isLeft] of cases) {
    it(title, () => {
      const found: string[] = [];
      const onFound = (copy: string): void => void found.push(copy);
      const namespaces = new ManagementNamespaces({ hasManager, namespace: 'tenant-a', onFound });
      for (const one of [...seen, ...seen]) namespaces.learn(one);
      const copies = seen.filter(({ metadata }) => metadata.name === UID && metadata.namespace !== 'app');
      assert.deepEqual(
        found,
        copies.map(({ metadata }) => `${metadata.namespace}/${UID}`),
        'each is found once',
      );
      assert.equal(namespaces.isToBeCopied(object), !isLeft);
      assert.equal(namespaces.concerns(object), !isLeft);
      assert.equal(namespaces.concerns(rule('tenant-b', 'new', propagated)), true, 'it has to be released');
      assert.equal(namespaces.isToBeCopied(rule('app', 'new')), true);
      assert.equal(namespaces.concerns(rule('app', UID, copied)), false);
    });
  }
});
