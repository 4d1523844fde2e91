/** Which targets a plan shows: those that objects in the manifests concern, and those that Namespaces concern. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { asKey, asKeys } from '../../../test/support/keys.ts';
import type { Snapshot } from '../snapshot/snapshot.ts';
import { userCause } from '../../copy/model/cause.ts';
import { claimAll, LeaveShape } from '../../copy/model/claim.ts';
import { resourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { ClaimBook } from '../../copy/book/claim-book.ts';
import type { Given } from './given.ts';
import { affectedBy } from './rows.ts';

const secret = (namespace: string, name: string): ResourceKey => resourceKey('c', 'Secret', namespace, name);
const RULE: RuleKey = asKey('mirrors:home/db');
const SOURCE = secret('home', 'db');

/** Has one rule, which copies `home/db` to these namespaces. The rule's copy `left/db` is no longer claimed. */
function snapshotOf(namespaces: readonly string[]): Snapshot {
  const owner = { key: RULE, title: 'SecretMirror home/db', rank: '' };
  const shape = new LeaveShape(userCause('', ''));
  const targets = namespaces.map((namespace) => secret(namespace, 'db'));
  const claims = claimAll(targets, { owner, mode: 'own', source: SOURCE, shape });
  const book = new ClaimBook();
  book.replace(RULE, claims, [SOURCE]);
  const rulesOf = (key: ResourceKey): readonly RuleKey[] => (key === asKey('c:SecretMirror/home/db') ? [RULE] : []);
  return {
    rulesOf,
    rules: new Map([[RULE, { sources: [SOURCE] }]]),
    claims: { book, owners: [RULE], ownedBy: () => [secret('left', 'db')] },
  } as unknown as Snapshot;
}

const given = (kind: string, namespace: string, name: string): Given => ({
  manifest: { apiVersion: 'v1', kind, metadata: { name } } as unknown as Given['manifest'],
  kind,
  key: resourceKey('c', kind, namespace, name),
  namespace,
  index: 0,
});

test('if a Namespace is in the manifests, a plan shows only the targets in that namespace', () => {
  const { targets, objects, used } = affectedBy(snapshotOf(['new', 'old']), [given('Namespace', '', 'new')]);
  assert.deepEqual([...targets], [secret('new', 'db')]);
  assert.deepEqual([objects.size, used.size], [0, 0]);
});

test('if the Namespace of a copy that no rule claims is in the manifests, a plan shows that copy', () => {
  const { targets } = affectedBy(snapshotOf(['one']), [given('Namespace', '', 'left')]);
  assert.deepEqual([...targets], [secret('left', 'db')]);
});

test('if the Namespace of a rule is in the manifests, a plan shows all targets and copies of the rule', () => {
  const { targets } = affectedBy(snapshotOf(['one']), [given('Namespace', '', 'home')]);
  assert.deepEqual([...targets], [secret('one', 'db'), secret('left', 'db')]);
});

test('if a source is in the manifests, a plan shows all targets of that source', () => {
  const { targets, used } = affectedBy(snapshotOf(['one', 'two']), [given('Secret', 'home', 'db')]);
  assert.deepEqual([...targets], [secret('one', 'db'), secret('two', 'db')]);
  assert.deepEqual([...used], [SOURCE]);
});

test('for a rule in the manifests, plan shows all targets of the rule, and also the copies that the rule no longer claims', () => {
  const { targets, rules } = affectedBy(snapshotOf(['one']), [given('SecretMirror', 'home', 'db')]);
  assert.deepEqual([...targets], [secret('one', 'db'), secret('left', 'db')]);
  assert.deepEqual([...rules], asKeys<RuleKey>([RULE]));
});

test('if a target is in the manifests, a plan shows it, and shows nothing for other objects in them', () => {
  const { targets } = affectedBy(snapshotOf(['one', 'two']), [given('Secret', 'two', 'db'), given('Secret', 'x', 'y')]);
  assert.deepEqual([...targets], [secret('two', 'db')]);
});
