import assert from 'node:assert/strict';
import { test } from 'node:test';
import { userCause } from '../../copy/model/cause.ts';
import type { Entry } from '../../copy/book/claim-book.ts';
import { asKey } from '../../../test/support/keys.ts';
import { type Outcome, type Owner, PENDING, type SourceView, SYNCED, type Undeleted } from '../../copy/model/claim.ts';
import type { OutOfReach } from '../../copy/model/rule-set.ts';
import type { SecretMirror, SecretMirrorStatus } from './api.ts';
import { PatternCache } from '../../runtime/text/name-patterns.ts';
import { MirrorShape } from './shape.ts';
import { effectiveSpec } from './rules/spec.ts';
import { nextStatus, type StatusOutput } from './words.ts';

const NOW = Date.parse('2026-11-21T10:00:00Z');
const PRESENT: SourceView = { state: 'present', version: '1', labels: {}, annotations: {} };
const MISSING: SourceView = {
  state: 'missing',
  ...userCause('NoSecret', 'secret default/x not found, waiting to appear'),
};
const DENIED: Outcome = { state: 'error', ...userCause('Forbidden', 'exceeded quota') };
const FOREIGN: Outcome = {
  state: 'conflict',
  ...userCause('Conflict', 'Secret "x" already exists and is not managed by Keyferry; delete it to allow the copy'),
};

const GOING: Outcome = { state: 'waiting', for: 'target', ...userCause('Terminating', 'it is being deleted') };
const OVERWRITTEN: Outcome = { state: 'error', ...userCause('Overwritten', 'the server stored something else') };

function mirror(namespaces: readonly string[] = ['team-.*']): SecretMirror {
  return {
    metadata: {
      name: 'm',
      namespace: 'default',
      uid: 'u',
      resourceVersion: '1',
      generation: 2,
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
    spec: { source: { name: 'x' }, destination: { namespaces } },
  };
}

const LEFT: Undeleted = { target: asKey('local:Secret/old/x'), outcome: DENIED };

interface Given {
  readonly outcomes: readonly Outcome[];
  readonly source?: SourceView;
  readonly namespaces?: readonly string[] | undefined;
  readonly previous?: SecretMirrorStatus | undefined;
  readonly writes?: number;
  readonly outOfReach?: OutOfReach;
  readonly undeleted?: readonly Undeleted[];
}

function fold(given: Given): StatusOutput | undefined {
  const { outcomes, source = PRESENT, namespaces, previous, writes = 0, outOfReach, undeleted = [] } = given;
  const object = mirror(namespaces);
  const spec = effectiveSpec(object, new PatternCache('full'));
  const owner: Owner = { key: asKey('mirrors:default/m'), title: 'SecretMirror default/m', rank: '' };
  const shape = new MirrorShape({ owner: 'default/m', retain: false });
  const entries: Entry[] = outcomes.map((outcome, index) => ({
    target: asKey(`local:Secret/team-${index}/x`),
    claim: { owner, mode: 'own', source: asKey('local:Secret/default/x'), shape },
    outcome,
  }));
  const facts = { claims: entries, source, outOfReach, writes, undeleted };
  return nextStatus({ mirror: object, spec, ...facts, previous, now: NOW });
}

test('each set of outcomes gives its own mirrorStatus, Ready condition and events; if the status stays the same, there is no event', () => {
  const cases: readonly [string, Given, string, string, string, string[]][] = [
    ['all synced', { outcomes: [SYNCED, SYNCED], writes: 2 }, 'Active', 'True', 'Synced', ['Active']],
    ['no namespace matches', { outcomes: [] }, 'Active', 'True', 'Synced', ['Active']],
    ['no source', { outcomes: [], source: MISSING }, 'Pending', 'False', 'NoSecret', ['NoSecret']],
    ['one failed', { outcomes: [SYNCED, DENIED] }, 'Error', 'False', 'SyncError', ['SyncError']],
    ['one with another owner', { outcomes: [SYNCED, FOREIGN] }, 'Active', 'False', 'Conflict', ['Conflict']],
    ['one that does not go', { outcomes: [SYNCED, GOING] }, 'Active', 'False', 'Terminating', ['Terminating']],
    ['foreign, and one that does not go', { outcomes: [FOREIGN, GOING] }, 'Active', 'False', 'Conflict', ['Conflict']],
    ['overwritten', { outcomes: [OVERWRITTEN] }, 'Error', 'False', 'Overwritten', ['Overwritten']],
    ['overwritten and failed', { outcomes: [DENIED, OVERWRITTEN] }, 'Error', 'False', 'SyncError', ['SyncError']],
    ['failed and foreign', { outcomes: [DENIED, FOREIGN] }, 'Error', 'False', 'SyncError', ['SyncError']],
    [
      'an earlier copy that stays',
      { outcomes: [SYNCED], undeleted: [LEFT] },
      'Error',
      'False',
      'SyncError',
      ['SyncError'],
    ],
    [
      'no source, and an earlier copy that stays',
      { outcomes: [], source: MISSING, undeleted: [LEFT] },
      'Pending',
      'False',
      'NoSecret',
      ['NoSecret'],
    ],
    ['bad pattern', { outcomes: [SYNCED], namespaces: ['a', '('] }, 'Error', 'False', 'InvalidSpec', ['InvalidSpec']],
    ['no pattern', { outcomes: [], namespaces: [] }, 'Error', 'False', 'InvalidSpec', ['InvalidSpec']],
  ];
  for (const [name, given, mirrorStatus, ready, reason, events] of cases) {
    const result = fold(given);
    assert.ok(result, name);
    const [condition] = result.status.conditions ?? [];
    assert.deepEqual(
      [result.status.mirrorStatus, condition?.status, condition?.reason, result.events.map((event) => event.reason)],
      [mirrorStatus, ready, reason, events],
      name,
    );
    assert.equal(result.status.observedGeneration, 2, name);
    assert.equal(fold({ ...given, writes: 0, previous: result.status })?.events.length, 0, `${name}: recorded twice`);
  }
});

test('the message of the status names the first five namespaces with an outcome, or the field of a wrong pattern', () => {
  assert.match(
    fold({ outcomes: [SYNCED, DENIED] })?.events[0]?.message ?? '',
    /unable to sync some objects: namespace team-1: .*quota/,
  );
  assert.match(fold({ outcomes: [FOREIGN, SYNCED] })?.status.conditions?.[0]?.message ?? '', /team-0/);
  const none = fold({ outcomes: [] })?.status.conditions?.[0]?.message ?? '';
  assert.match(none, /^0 copies: no other namespace matches spec\.destination\.namespaces$/);
  const many = fold({ outcomes: Array.from({ length: 9 }, () => DENIED) });
  assert.match(many?.status.conditions?.[0]?.message ?? '', /team-0, team-1, team-2, team-3, team-4 and 4 more/);
  assert.match(
    fold({ outcomes: [], namespaces: ['ok', '('] })?.status.conditions?.[0]?.message ?? '',
    /namespaces\[1\]/,
  );
});

test('the condition message lists each reason with its namespaces, and is not longer than a condition may be', () => {
  const quota: Outcome = { state: 'error', ...userCause('Forbidden', 'of its own') };
  const { status, events } = fold({ outcomes: [DENIED, quota, FOREIGN, GOING, DENIED, SYNCED] }) ?? {};
  const all =
    'namespaces team-0, team-4: Forbidden: exceeded quota; namespace team-1: Forbidden: of its own; ' +
    `skipped namespace team-2: ${FOREIGN.message}; waiting in namespace team-3: ${GOING.message}`;
  assert.equal(status?.conditions?.[0]?.message, `cannot sync ${all}`);
  assert.equal(events?.[0]?.message, `unable to sync some objects: ${all}`);
  const many = Array.from({ length: 1000 }, (_, index): Outcome => {
    return {
      state: index % 2 === 0 ? 'error' : 'conflict',
      ...userCause('Forbidden', `${index} ${'x'.repeat(9000)}`),
    };
  });
  const message = fold({ outcomes: many })?.status.conditions?.[0]?.message ?? '';
  assert.match(message, /495 more namespaces for other reasons; skipped namespace .*495 more namespaces/s);
  assert.ok(message.length < 32_768, `${message.length} characters`);
});

test('the event Active is recorded when the condition Ready becomes true, not when mirrorStatus becomes Active', () => {
  const events = (given: Given): (string | undefined)[] => (fold(given)?.events ?? []).map(({ reason }) => reason);
  const conflict = fold({ outcomes: [FOREIGN] })?.status;
  assert.equal(conflict?.mirrorStatus, 'Active');
  assert.deepEqual(events({ outcomes: [SYNCED], previous: conflict }), ['Active']);
  // This is a status that ktsstudio/mirrors wrote: the mirror was already ready.
  assert.deepEqual(events({ outcomes: [SYNCED], previous: { mirrorStatus: 'Active' } }), []);
});

test('if a mirror names a namespace that it may not copy into, it is not ready; if only its patterns select such a namespace, it gets a remark', () => {
  const cause = userCause('NotAccepted', 'namespace closed does not accept copies');
  const first = fold({ outcomes: [SYNCED], outOfReach: { ...cause, part: 'others' } });
  assert.deepEqual(
    first?.events.map(({ type, reason, message }) => [type, reason, message]),
    [['Normal', 'Active', 'SecretMirror is synced']],
  );
  assert.deepEqual(
    first.remarks.map(({ type, reason, message }) => [type, reason, message]),
    [['Normal', 'NotAccepted', cause.message]],
  );
  for (const [part, mirrorStatus] of [
    ['named', 'Active'],
    ['all', 'Error'],
  ] as const) {
    const { status, events } = fold({ outcomes: [SYNCED], outOfReach: { ...cause, part } }) ?? {};
    assert.deepEqual([status?.mirrorStatus, status?.conditions?.[0]?.reason], [mirrorStatus, 'NotAccepted']);
    assert.deepEqual(
      events?.map(({ type, reason }) => [type, reason]),
      [['Warning', 'NotAccepted']],
    );
  }
});

test('while claims of a mirror are under way, only its first status is written', () => {
  const first = fold({ outcomes: [PENDING] });
  assert.equal(first?.status.mirrorStatus, 'Pending');
  assert.equal(first.status.lastSyncTime, '1970-01-01T00:00:00Z');
  assert.equal(fold({ outcomes: [SYNCED, PENDING], previous: first.status }), undefined);
});

test('if targets still wait for a source that exists now, no status is written', () => {
  const waiting: Outcome = { state: 'waiting', for: 'source', ...userCause('NoSecret', 'not found') };
  const previous = fold({ outcomes: [waiting], source: MISSING })?.status;
  assert.equal(previous?.mirrorStatus, 'Pending');
  assert.equal(fold({ outcomes: [SYNCED, waiting], previous }), undefined);
  const going: Outcome = { state: 'waiting', for: 'target', ...userCause('NamespaceTerminating', 'going away') };
  const [ready] = fold({ outcomes: [SYNCED, going], previous })?.status.conditions ?? [];
  assert.deepEqual([ready?.status, ready?.message], ['False', 'waiting in namespace team-1: going away']);
});

test('lastSyncTime changes after a write if all copies are up to date, and never after a failure', () => {
  const previous: SecretMirrorStatus = {
    ...fold({ outcomes: [SYNCED], writes: 1 })?.status,
    lastSyncTime: '2020-01-01T00:00:00Z',
  };
  const time = (given: Given): string | undefined => fold({ ...given, previous })?.status.lastSyncTime;
  assert.equal(time({ outcomes: [SYNCED], writes: 1 }), '2026-11-21T10:00:00Z');
  assert.equal(time({ outcomes: [SYNCED], writes: 0 }), '2020-01-01T00:00:00Z');
  assert.equal(time({ outcomes: [SYNCED, DENIED], writes: 1 }), '2020-01-01T00:00:00Z');
  assert.equal(time({ outcomes: [SYNCED, GOING], writes: 1 }), '2020-01-01T00:00:00Z');
  assert.equal(time({ outcomes: [], source: MISSING, writes: 1 }), '2020-01-01T00:00:00Z');
});

test('lastSyncTime changes when a new generation is synced, even without a write', () => {
  const synced = fold({ outcomes: [SYNCED], writes: 1 })?.status;
  assert.equal(synced?.observedGeneration, 2);
  const previous: SecretMirrorStatus = { ...synced, observedGeneration: 1, lastSyncTime: '2020-01-01T00:00:00Z' };
  assert.equal(fold({ outcomes: [SYNCED], previous })?.status.lastSyncTime, '2026-11-21T10:00:00Z');
  assert.equal(fold({ outcomes: [DENIED], previous })?.status.lastSyncTime, '2020-01-01T00:00:00Z');
});

test('if a spec has a thousand problems, the message of the status lists the first problems, and is not too long for the API', () => {
  const namespaces = Array.from({ length: 1000 }, (_, index) => `(${'x'.repeat(200)}${index}`);
  const condition = fold({ outcomes: [], namespaces })?.status.conditions?.[0];
  assert.match(condition?.message ?? '', /^spec\.destination\.namespaces\[0\]: .*\[1\]: /s);
  assert.ok((condition?.message.length ?? 0) < 32_768);
});
