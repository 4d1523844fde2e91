import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Entry } from '../../copy/claim-book.ts';
import { type Outcome, PENDING, type SourceView, SYNCED } from '../../copy/claim.ts';
import type { SecretMirror, SecretMirrorStatus } from './api.ts';
import { PatternCache } from '../../copy/patterns.ts';
import { MirrorShape } from './shape.ts';
import { effectiveSpec } from './spec.ts';
import { foldStatus, sameStatus, type StatusOutput } from './status.ts';

const NOW = Date.parse('2026-11-21T10:00:00Z');
const PRESENT: SourceView = { state: 'present', version: '1', labels: {}, annotations: {} };
const MISSING: SourceView = {
  state: 'missing',
  reason: 'NoSecret',
  message: 'secret default/x not found, waiting to appear',
};
const DENIED: Outcome = { state: 'error', reason: 'Forbidden', message: 'exceeded quota' };
const FOREIGN: Outcome = {
  state: 'conflict',
  reason: 'Conflict',
  message: 'an object of this name is there that is not a copy',
};

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

interface Given {
  readonly outcomes: readonly Outcome[];
  readonly source?: SourceView;
  readonly namespaces?: readonly string[];
  readonly previous?: SecretMirrorStatus | undefined;
  readonly writes?: number;
}

function fold({ outcomes, source = PRESENT, namespaces, previous, writes = 0 }: Given): StatusOutput | undefined {
  const object = mirror(namespaces);
  const spec = effectiveSpec(object, new PatternCache('full'));
  const owner = { key: 'mirrors:default/m', title: 'SecretMirror default/m', rank: '' };
  const shape = new MirrorShape({ owner: 'default/m', retain: false });
  const entries: Entry[] = outcomes.map((outcome, index) => ({
    claim: { owner, target: `local:Secret/team-${index}/x`, mode: 'own', source: 'local:Secret/default/x', shape },
    outcome,
  }));
  return foldStatus({ mirror: object, spec, entries, source, writes, previous, now: NOW });
}

test('what the outcomes of the claims make of the status', () => {
  const cases: readonly [string, Given, string, string, string, string[]][] = [
    ['all synced', { outcomes: [SYNCED, SYNCED], writes: 2 }, 'Active', 'True', 'Synced', ['Active']],
    ['no namespace matches', { outcomes: [] }, 'Active', 'True', 'Synced', ['Active']],
    ['no source', { outcomes: [], source: MISSING }, 'Pending', 'False', 'NoSecret', ['NoSecret']],
    ['one failed', { outcomes: [SYNCED, DENIED] }, 'Error', 'False', 'SyncError', ['SyncError']],
    ["one somebody else's", { outcomes: [SYNCED, FOREIGN] }, 'Active', 'False', 'Conflict', ['Active', 'Conflict']],
    ['failed and foreign', { outcomes: [DENIED, FOREIGN] }, 'Error', 'False', 'SyncError', ['SyncError']],
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
    assert.equal(fold({ ...given, writes: 0, previous: result.status })?.events.length, 0, `${name}: told twice`);
  }
});

test('messages name the namespaces concerned, or the field', () => {
  assert.match(
    fold({ outcomes: [SYNCED, DENIED] })?.events[0]?.message ?? '',
    /unable to sync some objects: namespace team-1: .*quota/,
  );
  assert.match(fold({ outcomes: [FOREIGN, SYNCED] })?.status.conditions?.[0]?.message ?? '', /team-0/);
  const many = fold({ outcomes: Array.from({ length: 9 }, () => DENIED) });
  assert.match(many?.status.conditions?.[0]?.message ?? '', /team-0, team-1, team-2, team-3, team-4 and 4 more/);
  assert.match(
    fold({ outcomes: [], namespaces: ['ok', '('] })?.status.conditions?.[0]?.message ?? '',
    /namespaces\[1\]/,
  );
});

test('patterns that match nothing are told: `project-*` is a regular expression, and hardly what was meant', () => {
  const [ready] = fold({ outcomes: [] })?.status.conditions ?? [];
  assert.deepEqual([ready?.reason, ready?.status], ['Synced', 'True']);
  assert.match(ready?.message ?? '', /^0 copies: the patterns match no other namespace/);
});

test('while attempts are under way nothing is said, except the very first time', () => {
  const first = fold({ outcomes: [PENDING] });
  assert.equal(first?.status.mirrorStatus, 'Pending');
  assert.equal(first.status.lastSyncTime, '1970-01-01T00:00:00Z');
  assert.equal(fold({ outcomes: [SYNCED, PENDING], previous: first.status }), undefined);
});

test('copies that still wait for a source which is there now are not up to date', () => {
  const waiting: Outcome = { state: 'waiting', reason: 'NoSecret', message: 'not found' };
  const previous = fold({ outcomes: [waiting], source: MISSING })?.status;
  assert.equal(previous?.mirrorStatus, 'Pending');
  assert.equal(fold({ outcomes: [SYNCED, waiting], previous }), undefined);
  const going: Outcome = { state: 'waiting', reason: 'NamespaceTerminating', message: 'going away' };
  const status = fold({ outcomes: [SYNCED, going], previous })?.status;
  assert.equal(status?.conditions?.[0]?.message, '1 copy is up to date; waiting in namespace team-1: going away');
});

test('lastSyncTime is the last successful sync: it moves with writes and never with failures', () => {
  const previous: SecretMirrorStatus = {
    ...fold({ outcomes: [SYNCED], writes: 1 })?.status,
    lastSyncTime: '2020-01-01T00:00:00Z',
  };
  const time = (given: Given): string | undefined => fold({ ...given, previous })?.status.lastSyncTime;
  assert.equal(time({ outcomes: [SYNCED], writes: 1 }), '2026-11-21T10:00:00Z');
  assert.equal(time({ outcomes: [SYNCED], writes: 0 }), '2020-01-01T00:00:00Z');
  assert.equal(time({ outcomes: [SYNCED, DENIED], writes: 1 }), '2020-01-01T00:00:00Z');
  assert.equal(time({ outcomes: [], source: MISSING, writes: 1 }), '2020-01-01T00:00:00Z');
});

test('a settled status is not written again', () => {
  const { status } = fold({ outcomes: [SYNCED], writes: 1 }) ?? {};
  assert.ok(status);
  const again = fold({ outcomes: [SYNCED], previous: status });
  assert.ok(again && sameStatus(status, again.status));
  const worse = fold({ outcomes: [DENIED], previous: status });
  assert.ok(worse && !sameStatus(status, worse.status));
});

test('of more problems than a condition can hold, the first are told', () => {
  const namespaces = Array.from({ length: 1000 }, (_, index) => `(${'x'.repeat(200)}${index}`);
  const condition = fold({ outcomes: [], namespaces })?.status.conditions?.[0];
  assert.match(condition?.message ?? '', /^spec\.destination\.namespaces\[0\]: .*\[1\]: .*…$/s);
  assert.ok((condition?.message.length ?? 0) < 32_768);
});
