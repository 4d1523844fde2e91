import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import type { ObjectMeta } from '../../../kube/api.ts';
import { KeyLists } from '../../../copy/model/key-lists.ts';
import { SYNC_SECRET_FINALIZER } from '../api.ts';
import { ORIGIN_ANNOTATION, PROPAGATED_ANNOTATION } from './marks.ts';
import { ccmDuty, managerDuty, servedNamespaces, zoneOf } from './one-cluster.ts';
import { ruleOf, type SyncSecretRule } from './rule.ts';
import { ManagerRules } from './sync-secret-rule-set.ts';
import { Deletions } from '../../common/rules/finalizer.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import { ruleScope } from '../../../../test/support/rule-scope.ts';

const UID = '3d8f4a52-9b1f-4a35-9f0e-0a3a6d1c7f11';
const RULE: RuleKey = asKey('syncsecret-manager:app/new');
const NOBODYS = (): boolean => false;

function rule(namespace: string, more: Partial<ObjectMeta> = {}): SyncSecretRule {
  const metadata = { namespace, name: UID, uid: UID, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };
  return ruleOf({ metadata: { ...metadata, ...more } }, new KeyLists());
}

const deleted = { deletionTimestamp: '2026-01-01T00:00:00Z' };
const propagated = { finalizers: [SYNC_SECRET_FINALIZER], annotations: { [PROPAGATED_ANNOTATION]: 'tenant-a' } };
const copied = { labels: { 'kubelb.k8c.io/origin-name': 'x', 'kubelb.k8c.io/origin-ns': 'y' } };
const markedCopy = { annotations: { [ORIGIN_ANNOTATION]: 'x/app/one' } };

describe('the zone of a namespace', () => {
  const cases: readonly (readonly [
    namespace: string,
    own: string | undefined,
    management: string | undefined,
    zone: string,
  ])[] = [
    ['app', undefined, undefined, 'ccm'],
    ['app', 'a', 'a', 'ccm'],
    ['app', 'unknown', 'unknown', 'ccm'],
    ['tenant-b', 'a', 'a', 'manager'],
    ['tenant-b', 'a', 'b', 'ccm'],
    ['tenant-b', undefined, undefined, 'unknown'],
    ['tenant-b', 'a', undefined, 'unknown'],
    ['tenant-b', undefined, 'a', 'unknown'],
    ['tenant-b', 'unknown', 'a', 'unknown'],
    ['tenant-b', 'a', 'unknown', 'unknown'],
    // Two clusters whose uids cannot be read do not count as the same cluster.
    ['tenant-b', 'unknown', 'unknown', 'unknown'],
  ];
  for (const [namespace, own, management, zone] of cases) {
    it(`if the uid of the tenant cluster is ${own ?? 'not read yet'} and that of the management cluster ${management ?? 'not read yet'}, namespace ${namespace} is in zone ${zone}`, () => {
      assert.equal(zoneOf(namespace, own, management, NOBODYS), zone);
      assert.equal(
        zoneOf(namespace, own, management, () => true),
        'manager',
        'a manager in the same process serves it',
      );
    });
  }
});

describe('the CCM', () => {
  const cases: readonly (readonly [string, SyncSecretRule, ccm: string, manager: string, unknown: string])[] = [
    ['a new SyncSecret', rule('n'), 'copy', 'none', 'none'],
    ['a propagated SyncSecret', rule('n', propagated), 'copy', 'release', 'keep'],
    ['a deleted propagated SyncSecret', rule('n', { ...propagated, ...deleted }), 'release', 'release', 'release'],
    ['a deleted SyncSecret', rule('n', deleted), 'release', 'none', 'none'],
    ['a copy of KubeLB', rule('n', copied), 'none', 'none', 'none'],
    ['a copy', rule('n', markedCopy), 'none', 'none', 'none'],
    ['a deleted copy', rule('n', { ...copied, ...deleted }), 'none', 'none', 'none'],
    ['a propagated copy', rule('n', { ...copied, ...propagated }), 'release', 'release', 'release'],
  ];
  for (const [title, object, ...duties] of cases) {
    it(`the duties of the CCM for ${title} in the zones ccm, manager and unknown are ${duties.join(', ')}`, () => {
      const zones = ['ccm', 'manager', 'unknown'] as const;
      assert.deepEqual(
        zones.map((zone) => ccmDuty(object, zone)),
        duties,
      );
    });
  }
});

describe('the manager', () => {
  const cases: readonly (readonly [string, SyncSecretRule, served: string, other: string])[] = [
    ['a new SyncSecret', rule('n'), 'serve', 'none'],
    ['a SyncSecret with its finalizer', rule('n', { finalizers: propagated.finalizers }), 'serve', 'none'],
    ['a propagated SyncSecret', rule('n', propagated), 'none', 'none'],
    ['a deleted propagated SyncSecret', rule('n', { ...propagated, ...deleted }), 'free', 'free'],
    [
      'a deleted propagated SyncSecret without the finalizer',
      rule('n', { ...propagated, ...deleted, finalizers: ['x'] }),
      'none',
      'none',
    ],
    ['a deleted SyncSecret', rule('n', { ...deleted, finalizers: propagated.finalizers }), 'serve', 'free'],
    ['a copy with the annotation propagated', rule('n', { ...copied, ...propagated }), 'serve', 'none'],
  ];
  for (const [title, object, served, other] of cases) {
    it(`managerDuty() for ${title} is '${served}' if the manager serves the namespace, otherwise '${other}'`, () => {
      assert.equal(
        managerDuty(object, () => true),
        served,
      );
      assert.equal(managerDuty(object, NOBODYS), other);
    });
  }

  it('by default the manager serves all namespaces, or tenant-* if a CCM is in the process; with patterns, those that match', () => {
    const names = ['app', 'tenant-a', 'my-tenant-a'];
    const served = (patterns: readonly string[], hasCcm = false): string[] =>
      names.filter(servedNamespaces(patterns, hasCcm));
    assert.deepEqual(served([]), names);
    assert.deepEqual(served([], true), ['tenant-a']);
    assert.deepEqual(served(['tenant-.*']), ['tenant-a']);
    assert.deepEqual(served(['app', 'my-.*'], true), ['app', 'my-tenant-a']);
  });

  it('after the manager has seen the deletion of a propagated SyncSecret, it leaves the deletion to the CCM for a limited time', () => {
    let now = 5;
    let present: SyncSecretRule | undefined;
    const rules = new ManagerRules(ruleScope(), {
      store: { get: () => present, key: () => RULE },
      isServed: () => true,
      leftDeletions: new Deletions({ monotonic: () => now }, 1000),
    });
    const remainingMs = (one: SyncSecretRule | undefined): number => {
      present = one;
      return rules.leftMs(RULE);
    };
    const object = rule('app', { ...propagated, ...deleted });
    assert.equal(remainingMs(rule('app')), 0, 'the manager serves it');
    assert.equal(remainingMs(object), 1000);
    now += 400;
    assert.equal(remainingMs(object), 600);
    now += 700;
    assert.equal(remainingMs(object), 0);
    now += 1;
    assert.equal(remainingMs(object), 0, 'the time does not begin again');
    assert.equal(remainingMs(undefined), 0);
    assert.equal(remainingMs(object), 1000, 'another object with the same name');
  });
});
