import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Claim, Owner, SourceView } from '../model/claim.ts';
import type { Fingerprint } from '../model/content.ts';
import type { Observed } from '../model/observed.ts';
import { ClaimBook } from '../book/claim-book.ts';
import { decide, type FactSource, type TargetReader } from './decide.ts';
import type { OrphanAction } from '../model/rule-set.ts';
import { asKey } from '../../../test/support/keys.ts';
import type { ResourceKey, RuleKey } from '../model/keys.ts';
import { ApiError } from '../../kube/errors.ts';
import { NO_CYCLES } from '../../../test/support/no-cycles.ts';

const TARGET: ResourceKey = asKey('c:Secret/team/db');
const SOURCE: ResourceKey = asKey('c:Secret/home/db');
const OLD: Fingerprint = { digest: 'old', keys: 'k', type: 'Opaque' };
const NEW: Fingerprint = { ...OLD, digest: 'new' };
const PRESENT: SourceView = { state: 'present', version: '7', labels: {}, annotations: {} };
const { signal } = new AbortController();

const target = (resourceVersion: string, owner: string): Observed => ({
  uid: 'u',
  resourceVersion,
  created: '',
  deleting: false,
  labels: {},
  annotations: { owner },
  ownKeys: undefined,
  ownLabels: [],
  ownAnnotations: [],
});

interface Given {
  readonly observed?: Observed;
  readonly isClaimed?: boolean;
  readonly view?: SourceView;
  readonly fate?: (owner: string) => OrphanAction | 'later';
  readonly hasNamespace?: boolean;
  readonly mayBeWanted?: () => boolean;
  readonly graceMs?: number;
  /** Called while the source is read. */
  readonly onLoad?: (book: ClaimBook) => void;
}

/** A cluster with one target. `reads` records what the decisions have read, `wanted` which targets they need. */
function cluster({
  observed,
  isClaimed = true,
  view = PRESENT,
  fate = () => 'delete',
  hasNamespace = true,
  mayBeWanted = () => false,
  graceMs,
  onLoad,
}: Given) {
  const reads: string[] = [];
  const wanted: ResourceKey[] = [];
  const book = new ClaimBook();
  const shape: Claim['shape'] = {
    id: '',
    desiredState: () => ({ kind: 'be', labels: {}, annotations: {}, bookkeeping: {}, data: 'source' }),
    heldVersion: () => undefined,
  };
  const owner: Owner = { key: asKey('c:rule'), title: 'c:rule', rank: '' };
  const claim: Claim = { owner, mode: 'own', source: SOURCE, shape };
  const claimIt = (): unknown => book.replace(asKey('c:rule'), [{ target: TARGET, claim }], [SOURCE]);
  if (isClaimed) claimIt();
  const now: {
    target: Observed | undefined;
    isUnseen?: boolean;
    view: SourceView;
    source?: Fingerprint;
    held?: Fingerprint;
  } = { target: observed, view };
  const reader: TargetReader = {
    state: () => ({
      presence: now.target !== undefined ? 'present' : now.isUnseen === true ? 'unknown' : 'absent',
      observed: now.target,
      goingAway: false,
      held: now.held && { version: now.target?.resourceVersion ?? '', fingerprint: now.held },
      type: now.held?.type,
      cannotUpdate: false,
    }),
    read: async () => {
      reads.push('target');
      now.held = OLD;
      return await Promise.resolve(true);
    },
  };
  const source: FactSource = {
    claims: {
      book,
      ownersOf: ({ annotations: { ['owner']: owner } }) =>
        (owner ?? '').split(' ').flatMap((one) => (one === '' ? [] : asKey<RuleKey>(one))),
      graceLeft: () => graceMs,
      wanted: (key) => void wanted.push(key),
    },
    sources: {
      view: () => now.view,
      fingerprint: () => now.source,
      load: async () => {
        reads.push('source');
        onLoad?.(book);
        return await Promise.resolve((now.source = NEW));
      },
    },
    cycles: NO_CYCLES,
    hasNamespace: () => hasNamespace,
    orphanActionOf: async (rule) => {
      reads.push(`owner ${rule}`);
      return await Promise.resolve(fate(rule));
    },
    mayBeWanted: async () => {
      reads.push('others');
      return await Promise.resolve(mayBeWanted());
    },
    now: () => 0,
  };
  return { reads, wanted, now, claimIt, decided: async () => await decide(TARGET, source, reader, signal) };
}

test('a decision reads only the facts that the plan needs, in the order in which the plan needs them', async () => {
  const missing = cluster({});
  assert.equal((await missing.decided()).plan.do, 'create');
  assert.deepEqual(missing.reads, ['source']);
  const stale = cluster({ observed: target('1', 'c:rule') });
  assert.equal((await stale.decided()).plan.do, 'update');
  assert.deepEqual(stale.reads, ['source', 'target']);
  const foreign = cluster({ observed: target('1', 'c:rule'), isClaimed: false, fate: () => 'keep' });
  assert.equal((await foreign.decided()).plan.do, 'nothing');
  assert.deepEqual(foreign.reads, ['owner c:rule']);
});

test('a target counts as wanted if a rule needs it, but not while it is an orphan, so that a refused deletion waits for no second grace', async () => {
  const copy = cluster({ observed: target('1', 'c:rule') });
  await copy.decided();
  assert.deepEqual(copy.wanted, [TARGET]);
  const orphan = cluster({ observed: target('1', 'gone'), isClaimed: false });
  assert.equal((await orphan.decided()).plan.do, 'delete');
  assert.deepEqual(orphan.wanted, []);
});

test('an object that no watch shows does not count as wanted: if it lost its label, its grace goes on', async () => {
  const { wanted, now, decided } = cluster({ isClaimed: false });
  now.isUnseen = true;
  assert.equal((await decided()).plan.do, 'nothing');
  assert.deepEqual(wanted, []);
  now.isUnseen = false;
  await decided();
  assert.deepEqual(wanted, [TARGET], 'it is gone');
});

test('a copy that is kept although its rule does not claim it waits again before it is deleted later', async () => {
  const kept = cluster({ observed: target('1', 'gone'), isClaimed: false, fate: () => 'keep' });
  assert.equal((await kept.decided()).plan.do, 'nothing');
  assert.deepEqual(kept.wanted, [TARGET]);
});

test('if the rule lets the target go while its source is read, the target waits as any orphan', async () => {
  const { reads, decided } = cluster({
    observed: target('1', 'c:rule'),
    graceMs: 300,
    onLoad: (book) => book.replace(asKey('c:rule'), [], []),
  });
  assert.deepEqual((await decided()).plan, { do: 'later', because: 'owner', graceMs: 300 });
  assert.deepEqual(reads, ['source']);
});

test('if an orphan gets the mark of another rule while its owner is asked about it, the new owner is asked', async () => {
  const { reads, now, decided } = cluster({
    observed: target('1', 'gone'),
    isClaimed: false,
    fate: (owner) => {
      if (owner === 'there') return 'keep';
      now.target = target('2', 'there');
      return 'delete';
    },
  });
  assert.equal((await decided()).plan.do, 'nothing');
  assert.deepEqual(reads, ['owner gone', 'owner there']);
});

test('while a rule that is not evaluated yet may want a copy, the copy is not deleted; if the rule then claims it, it takes it over', async () => {
  const observed = target('1', 'gone');
  const orphan = cluster({ observed, isClaimed: false, mayBeWanted: () => true });
  assert.deepEqual((await orphan.decided()).plan, { do: 'later', because: 'owner', graceMs: undefined });
  assert.deepEqual(orphan.reads, ['owner gone', 'others']);
  const renamed = cluster({
    observed,
    isClaimed: false,
    mayBeWanted: () => {
      renamed.claimIt();
      return false;
    },
  });
  assert.equal((await renamed.decided()).plan.do, 'replace');
});

test('a copy that another rule takes over by an update is wanted again, even if its deletion was decided before', async () => {
  const taken = cluster({
    observed: target('1', 'c:gone'),
    isClaimed: false,
    mayBeWanted: () => {
      taken.claimIt();
      return false;
    },
  });
  assert.equal((await taken.decided()).plan.do, 'update');
  assert.deepEqual(taken.wanted, [TARGET]);
});

test('while the facts about the owner or the namespace are not up to date, the decision is put off', async () => {
  const observed = target('1', 'gone');
  const later = cluster({ observed, isClaimed: false, fate: () => 'later' });
  assert.deepEqual((await later.decided()).plan, { do: 'later', because: 'owner', graceMs: undefined });
  const namespace = cluster({ observed, isClaimed: false, hasNamespace: false });
  assert.deepEqual((await namespace.decided()).plan, { do: 'later', because: 'namespace', graceMs: undefined });
  assert.deepEqual(namespace.reads, [], 'the owner of a copy in an unknown namespace is not looked up');
});

test('while a rule that let a copy go cannot be asked, the copy gets the data of the rule that has it, and all marks stay', async () => {
  const marks = { ownKeys: 'k', ownAnnotations: ['mark-of-gone'] };
  const observed = { ...target('1', 'c:rule gone'), ...marks };
  const failed = (): never => {
    throw new ApiError({ method: 'GET', path: '/x' }, 403, { reason: 'Forbidden', message: '', causes: [] });
  };
  const fates: readonly (readonly [NonNullable<Given['fate']>, number])[] = [
    [() => 'later', 1000],
    [failed, 60_000],
  ];
  for (const [fate, againMs] of fates) {
    const held = cluster({ observed, fate });
    const decision = await held.decided();
    assert.ok(decision.plan.do === 'update');
    assert.deepEqual([decision.plan.withData, decision.againMs], [true, againMs]);
    assert.ok(!('mark-of-gone' in decision.plan.desired.annotations));
    const shared = cluster({ observed: { ...observed, ownKeys: undefined }, fate });
    const orphan = cluster({ observed, isClaimed: false, fate });
    for (const { decided } of [shared, orphan]) {
      if (fate === failed) await assert.rejects(decided());
      else assert.equal((await decided()).plan.do, 'later');
    }
  }
  const asked = await cluster({ observed }).decided();
  assert.ok(asked.plan.do === 'update');
  assert.deepEqual([asked.plan.desired.annotations['mark-of-gone'], asked.againMs], [null, undefined]);
});

test('the facts of a decision keep the state of the source that its plan was made from', async () => {
  const { decided, now } = cluster({});
  const { facts, plan } = await decided();
  assert.ok(plan.do === 'create');
  now.view = { ...PRESENT, version: '8' };
  assert.equal(facts.viewOf(plan.claim), PRESENT);
});
