/** Checks which owner a mark names, the claims of SecretMirrors, and their orphan policy. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';

import { observedObject } from '../../../../test/support/observed-object.ts';
import { userCause } from '../../../copy/model/cause.ts';
import { Claims } from '../../../copy/book/claims.ts';
import { resourceKey, type RuleKey } from '../../../copy/model/keys.ts';
import { Namespaces } from '../../../copy/cluster/watch/namespaces.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import type { RuleState } from '../../../copy/model/rule-set.ts';
import { type Reach, reachOf } from '../../common/namespaces/reach.ts';
import type { SecretMirror, SecretMirrorDestination } from '../api.ts';
import { createMirrorStore, MAX_LIST } from './mirror-store.ts';
import { MirrorRules } from './rule-set.ts';
import { RetainShape } from '../shape.ts';
import type { EffectiveSpec } from './spec.ts';
import { asKey } from '../../../../test/support/keys.ts';
import { ruleScope } from '../../../../test/support/rule-scope.ts';

const RULE: RuleKey = asKey('mirrors:default/db');
const OWNED_BY = { 'mirrors.kts.studio/owned-by': 'default/db' };
const PLACE = { 'keyferry.dev/target': 'team/db' };
const LABEL = { 'keyferry.dev/copy': 'mirrors' };
const RETAIN = { 'keyferry.dev/retain': 'true' };

const unused = (): never => assert.fail('not used');

function rules(
  deletePolicy?: 'delete' | 'retain',
  patterns: readonly string[] = ['team'],
  namespaces = new Namespaces(),
  deletionTimestamp?: string,
): MirrorRules {
  const mirrors = createMirrorStore();
  if (deletePolicy !== undefined) {
    const mirror: SecretMirror = {
      metadata: {
        name: 'db',
        namespace: 'default',
        uid: 'u',
        resourceVersion: '1',
        creationTimestamp: '',
        ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
      },
      spec: { source: { name: 'db' }, deletePolicy, destination: { namespaces: patterns } },
    };
    mirrors.put(mirror);
    // The response to a write has only the metadata: the store adds the spec that it has.
    mirrors.storeResponse({ metadata: { ...mirror.metadata, resourceVersion: '2' } });
  }
  return new MirrorRules(ruleScope({ namespaces }), { mirrors, viewOf: unused });
}

const object = (
  annotations: Readonly<Record<string, string>>,
  labels: Readonly<Record<string, string>> = LABEL,
): Observed => observedObject({ annotations, labels });

describe('a mark names its mirror', () => {
  const mirrors = rules();
  const rows: readonly (readonly [string, Readonly<Record<string, string>>, string, string | undefined])[] = [
    ['counts on the Secret in keyferry.dev/target', { ...OWNED_BY, ...PLACE }, 'c:Secret/team/db', RULE],
    ['counts on a Secret without keyferry.dev/target', OWNED_BY, 'c:Secret/team/db', RULE],
    ['does not count on a ConfigMap', { ...OWNED_BY, ...PLACE }, 'c:ConfigMap/team/db', undefined],
    ['does not count in another cluster', { ...OWNED_BY, ...PLACE }, 'd:Secret/team/db', undefined],
    ['does not count in another namespace', { ...OWNED_BY, ...PLACE }, 'c:Secret/other/db', undefined],
    ['does not count on a Secret with another name', { ...OWNED_BY, ...PLACE }, 'c:Secret/team/other', undefined],
    [
      'does not count if it has three parts (a/b/c)',
      { 'mirrors.kts.studio/owned-by': 'a/b/c', ...PLACE },
      'c:Secret/team/db',
      undefined,
    ],
  ];
  for (const [title, annotations, target, expected] of rows) {
    it(`the mark of a SecretMirror ${title}`, () =>
      assert.equal(mirrors.markOn(object(annotations), asKey(target))?.rule, expected));
  }
});

test('an orphan is deleted only if it has its place, with or without a label, and neither its annotation nor its mirror retains it', () => {
  const copy = object({ ...OWNED_BY, ...PLACE });
  const unlabelled = object({ ...OWNED_BY, ...PLACE }, {});
  const retained = object({ ...OWNED_BY, ...PLACE, ...RETAIN });
  for (const there of [undefined, 'delete', 'retain'] as const) {
    const fate = (observed: Observed): string => rules(there).orphanPolicy(RULE, observed, there !== undefined);
    assert.equal(fate(copy), there === 'retain' ? 'keep' : 'delete');
    assert.equal(fate(unlabelled), fate(copy));
    assert.equal(fate(object(OWNED_BY)), 'keep', 'the original made it');
    assert.equal(fate(retained), 'keep');
  }
});

test('the deletion of a mirror keeps the retained copies in namespaces that its selector does not select', async () => {
  const metadata = { name: 'team', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
  const namespaces = new Namespaces();
  namespaces.sink.upsert({ metadata: { ...metadata, labels: { env: 'prod' } } });
  const mirrors = createMirrorStore();
  const matchExpressions = [{ key: 'env', operator: 'NotIn', values: ['prod'] }];
  mirrors.put({
    metadata: { ...metadata, name: 'db', namespace: 'default', deletionTimestamp: '2026-01-01T00:00:00Z' },
    spec: { deletePolicy: 'delete', destination: { namespaceSelector: { matchExpressions } } },
  } as SecretMirror);
  const observed = () => object({ ...OWNED_BY, ...PLACE, ...RETAIN });
  const all = new MirrorRules(ruleScope({ namespaces }), { mirrors, viewOf: unused, observed });
  const copy = resourceKey('c', 'Secret', 'team', 'db');
  const evaluation = await all.evaluate(RULE, { ownedBy: () => [copy] });
  assert.deepEqual(
    evaluation?.claims.map(({ target, claim: { mode, shape } }) => [target, mode, shape instanceof RetainShape]),
    [[copy, 'own', true]],
  );
  assert.equal(all.selects(RULE, copy)?.(), false);
});

test('if the patterns of a mirror are too long, its copies stay until the mirror is deleted', async () => {
  const copy = object({ ...OWNED_BY, ...PLACE });
  const mirrors = rules('delete', ['x'.repeat(MAX_LIST + 1)]);
  const evaluation = await mirrors.evaluate(RULE, { ownedBy: () => [] });
  assert.ok(evaluation !== undefined);
  assert.deepEqual(evaluation.claims, []);
  assert.match(evaluation.refusal?.message ?? '', /characters in total/);
  const fate = async (live: RuleState): Promise<unknown> => {
    const claims = new Claims();
    claims.add(mirrors);
    claims.put(RULE, evaluation);
    const lookup = { isOutdated: () => false, getLive: async () => await Promise.resolve(live) };
    return await claims.orphanActionOf(RULE, asKey('c:Secret/team/db'), copy, lookup);
  };
  assert.equal(await fate({ state: 'there', version: evaluation.version }), 'keep');
  assert.equal(await fate({ state: 'gone' }), 'delete');
});

test('if the spec of a mirror is invalid, all its copies stay, and the reason is reported for each copy that is not written', async () => {
  const mirrors = rules('delete', ['team-a', '(']);
  const made = resourceKey('c', 'Secret', 'left', 'db');
  const evaluation = await mirrors.evaluate(RULE, { ownedBy: () => [made] });
  const claims = evaluation?.claims.map(({ target, claim: { mode, shape } }) => [
    target,
    mode,
    shape.desiredState({ state: 'unknown' }, undefined, 0),
  ]);
  const cause = userCause('InvalidSpec', 'the spec of its SecretMirror is invalid');
  assert.deepEqual(claims, [[made, 'own', { kind: 'fail', ...cause }]]);
  assert.equal(mirrors.orphanPolicy(RULE, object({ ...OWNED_BY, ...PLACE }), true), 'keep');
});

test('when a mirror is deleted, it claims also the targets that have no mark yet, because their copies may be under way', async () => {
  const namespaces = new Namespaces();
  namespaces.sink.upsert({ metadata: { name: 'team', uid: 't', resourceVersion: '1', creationTimestamp: '' } });
  for (const policy of ['delete', 'retain'] as const) {
    const mirrors = rules(policy, ['team'], namespaces, '2026-01-01T00:00:00Z');
    const evaluation = await mirrors.evaluate(RULE, { ownedBy: () => [] });
    const claims = evaluation?.claims.map(({ target, claim: { mode, shape } }) => [
      target,
      mode,
      shape instanceof RetainShape,
    ]);
    const isRetained = policy === 'retain';
    assert.deepEqual(claims, [[resourceKey('c', 'Secret', 'team', 'db'), isRetained ? 'own' : 'release', isRetained]]);
  }
});

test('a mirror is not ready if its patterns select nothing and one looks like a glob, or if an exclusion that matches nothing looks like one', async () => {
  const namespaces = new Namespaces();
  for (const name of ['default', 'team-a', 'closed']) {
    const annotations = name === 'closed' ? { 'keyferry.dev/accept-from': '' } : {};
    namespaces.sink.upsert({ metadata: { name, uid: name, resourceVersion: '1', creationTimestamp: '', annotations } });
  }
  const [all, kube] = [{ namespaceSelector: {} }, { excludedNamespaces: ['kube-*'] }];
  const rows: readonly (readonly [SecretMirrorDestination, string | undefined, number])[] = [
    [{ namespaces: ['team-*'] }, 'MisreadPattern named', 0],
    [{ namespaces: ['team-a,team-b'] }, 'MisreadPattern named', 0],
    [{ namespaces: ['team-*', 'team-a'] }, undefined, 1],
    [{ namespaces: ['team-a*'] }, undefined, 1],
    [{ namespaces: ['team-b', 'web-.*'] }, undefined, 0],
    [{ namespaces: ['clos*ed'] }, 'NotAccepted named', 0],
    [{ ...all, ...kube }, 'MisreadPattern named', 1],
    [{ ...all, excludedNamespaces: ['kube-.*'] }, 'NotAccepted others', 1],
    [{ ...all, excludedNamespaces: ['clos*ed'] }, undefined, 1],
    [{ ...all, excludedNamespaces: ['(?i)CLOSED'] }, undefined, 1],
  ];
  const found = async (destination: SecretMirrorDestination, reach?: Reach): Promise<unknown[]> => {
    const mirrors = createMirrorStore();
    const metadata = { name: 'db', namespace: 'default', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
    const mirror: SecretMirror = { metadata, spec: { source: { name: 'db' }, destination } };
    mirrors.put(mirror);
    const made = new MirrorRules(ruleScope({ namespaces, ...(reach && { reach }) }), { mirrors, viewOf: unused });
    const { claims = [], outOfReach } = (await made.evaluate(RULE, { ownedBy: () => [] })) ?? {};
    return [outOfReach && `${outOfReach.reason} ${outOfReach.part}`, claims.length];
  };
  for (const [destination, ...expected] of rows)
    assert.deepEqual(await found(destination), expected, JSON.stringify(destination));
  // A limit that forbids all copies says more.
  const limits = { destinationNamespaces: undefined, excludedNamespaces: undefined, requireConsent: false };
  const reach = reachOf({ ...limits, sourceNamespaces: { patterns: ['platform'] } });
  assert.deepEqual(await found({ ...all, ...kube }, reach), ['NotPermitted all', 0]);
});

test('whether a mirror may select an object is known without its patterns: it may select all objects with its name', (t) => {
  const mirrors = rules('delete', ['team-a.*']);
  const read = t.mock.method(mirrors, 'specOf');
  const selects = mirrors.selects(RULE, resourceKey('c', 'Secret', 'team-b', 'db'));
  assert.equal(mirrors.selects(RULE, resourceKey('c', 'Secret', 'team-a1', 'other')), undefined);
  assert.equal(mirrors.selects(RULE, resourceKey('c', 'ConfigMap', 'team-a1', 'db')), undefined);
  assert.equal(read.mock.callCount(), 0);
  assert.equal(selects?.(), false);
});

test('the effective spec is computed one time for each spec of a mirror, not again for a new status; mirrors with equal specs share none', () => {
  const mirrors = createMirrorStore();
  const spec = { destination: { namespaces: ['team'] } };
  const put = (name: string, resourceVersion: string, generation: number): EffectiveSpec => {
    const metadata = { name, namespace: 'default', uid: name, resourceVersion, generation, creationTimestamp: '' };
    const read: SecretMirror = { metadata, spec };
    mirrors.put(read);
    const mirror = mirrors.get(mirrors.key('default', name));
    assert.ok(mirror !== undefined);
    return made.specOf(mirror);
  };
  const made = new MirrorRules(ruleScope({ namespaces: new Namespaces() }), { mirrors, viewOf: unused });
  const first = put('db', '1', 1);
  assert.equal(put('db', '2', 1), first);
  assert.notEqual(put('db', '3', 2), first);
  assert.equal(put('other', '4', 1).sourceName, 'other');
});
