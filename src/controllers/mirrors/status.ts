/**
 * What a SecretMirror's status says, folded from what became of its claims. Pure.
 *
 * `mirrorStatus` is the original's word and keeps the original's meaning: a target that is somebody else's does not make it anything
 * but Active. The condition `Ready` says the whole truth.
 */
import type { Entry } from '../../copy/claim-book.ts';
import type { Outcome, SourceView } from '../../copy/claim.ts';
import { parseHolderKey } from '../../copy/keys.ts';
import {
  type MirrorCondition,
  type MirrorStatus,
  NEVER_SYNCED,
  type SecretMirror,
  type SecretMirrorStatus,
} from './api.ts';
import type { EffectiveSpec } from './spec.ts';

export interface MirrorEvent {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
}

export interface StatusInput {
  readonly mirror: SecretMirror;
  readonly spec: EffectiveSpec;
  readonly entries: Iterable<Entry>;
  readonly source: SourceView;
  /** Writes since the last report. */
  readonly writes: number;
  /** The status that was last written or read. */
  readonly previous: SecretMirrorStatus | undefined;
  /** Wall clock, ms. */
  readonly now: number;
}

export interface StatusOutput {
  readonly status: SecretMirrorStatus;
  readonly events: readonly MirrorEvent[];
  /** Everything that the mirror wants is there (somebody else's objects left alone). */
  readonly synced: boolean;
  readonly namespaces: number;
}

/** Namespaces named in a message; the rest is counted. */
const NAMED = 5;

/** What a copy may wait for that is no matter of its source (see `plan` and `KubeTargets`). */
const WAITS_FOR_TARGET: ReadonlySet<string> = new Set(['Terminating', 'NamespaceTerminating']);

interface Group {
  readonly namespaces: string[];
  readonly first: Outcome;
  /** Some of them wait for their source. */
  forSource: boolean;
}

interface Tally {
  total: number;
  readonly byState: Map<Outcome['state'], Group>;
}

/** @returns `undefined` while the first attempts are still under way and nothing can be said */
export function foldStatus(input: StatusInput): StatusOutput | undefined {
  const { mirror, spec, previous, now } = input;
  const tally = tallyOf(input.entries);
  const unsettled = tally.byState.has('pending') || input.source.state === 'unknown' || isOutdated(tally, input.source);
  if (unsettled && spec.problems.length === 0)
    return previous?.conditions === undefined ? firstStatus(mirror, now) : undefined;
  const verdict = judge(tally, spec, input.source);
  const wasSynced = previous?.conditions?.find(({ type }) => type === 'Ready');
  const fresh =
    verdict.synced &&
    (input.writes > 0 ||
      previous?.mirrorStatus !== verdict.mirrorStatus ||
      previous.observedGeneration !== mirror.metadata.generation);
  const lastSyncTime = fresh ? timestamp(now) : (previous?.lastSyncTime ?? NEVER_SYNCED);
  const ready: MirrorCondition = {
    type: 'Ready',
    status: verdict.reason === 'Synced' ? 'True' : 'False',
    ...generationOf(mirror),
    lastTransitionTime: timestamp(now),
    reason: verdict.reason,
    message: verdict.message,
  };
  const status: SecretMirrorStatus = {
    ...(previous?.vaultSource === undefined ? {} : { vaultSource: previous.vaultSource }),
    mirrorStatus: verdict.mirrorStatus,
    lastSyncTime,
    ...generationOf(mirror),
    conditions: [
      wasSynced?.status === ready.status ? { ...ready, lastTransitionTime: wasSynced.lastTransitionTime } : ready,
    ],
  };
  const events: MirrorEvent[] = [];
  const news = wasSynced === undefined || wasSynced.reason !== verdict.reason || wasSynced.message !== verdict.message;
  if (verdict.mirrorStatus === 'Active' && previous?.mirrorStatus !== 'Active') {
    events.push({ type: 'Normal', reason: 'Active', message: 'SecretMirror is synced' });
  }
  if (news && verdict.event !== undefined) events.push(verdict.event);
  return { status, events, synced: verdict.synced, namespaces: tally.total };
}

/** The source is there, and some copies have not been told yet: their outcome is still that they wait for it. */
function isOutdated({ byState }: Tally, source: SourceView): boolean {
  return source.state === 'present' && byState.get('waiting')?.forSource === true;
}

/** Equal but for the time that a condition last changed. */
export function sameStatus(a: SecretMirrorStatus | undefined, b: SecretMirrorStatus): boolean {
  return a !== undefined && JSON.stringify(comparable(a)) === JSON.stringify(comparable(b));
}

function comparable(status: SecretMirrorStatus): unknown {
  const { mirrorStatus, lastSyncTime, observedGeneration, conditions, vaultSource } = status;
  const lines = (conditions ?? []).map((c) => [c.type, c.status, c.observedGeneration, c.reason, c.message]);
  return [mirrorStatus, lastSyncTime, observedGeneration, lines, vaultSource?.leaseID, vaultSource?.leaseDuration];
}

function firstStatus(mirror: SecretMirror, now: number): StatusOutput {
  const status: SecretMirrorStatus = {
    mirrorStatus: 'Pending',
    lastSyncTime: NEVER_SYNCED,
    ...generationOf(mirror),
    conditions: [
      {
        type: 'Ready',
        status: 'False',
        ...generationOf(mirror),
        lastTransitionTime: timestamp(now),
        reason: 'Pending',
        message: 'copies are being made',
      },
    ],
  };
  return { status, events: [], synced: false, namespaces: 0 };
}

interface Verdict {
  readonly mirrorStatus: MirrorStatus;
  readonly reason: string;
  readonly message: string;
  readonly synced: boolean;
  readonly event?: MirrorEvent;
}

function judge({ byState, total }: Tally, spec: EffectiveSpec, source: SourceView): Verdict {
  const failed = byState.get('error');
  if (spec.problems.length > 0) {
    const message = spec.problems.join('; ');
    return {
      mirrorStatus: 'Error',
      reason: 'InvalidSpec',
      message,
      synced: false,
      event: { type: 'Warning', reason: 'InvalidSpec', message },
    };
  }
  if (failed !== undefined) {
    const detail = `${failed.first.reason}: ${failed.first.message}`;
    return {
      mirrorStatus: 'Error',
      reason: 'SyncError',
      message: `cannot sync ${places(failed.namespaces)}: ${detail}`,
      synced: false,
      event: {
        type: 'Warning',
        reason: 'SyncError',
        message: `unable to sync some objects: ${places(failed.namespaces)}: ${detail}`,
      },
    };
  }
  if (source.state === 'missing' || source.state === 'failed') {
    const { reason, message } = source;
    const mirrorStatus = source.state === 'missing' ? 'Pending' : 'Error';
    return { mirrorStatus, reason, message, synced: false, event: { type: 'Warning', reason, message } };
  }
  const waiting = byState.get('waiting');
  const conflict = byState.get('conflict');
  if (conflict !== undefined) {
    const message = `left alone in ${places(conflict.namespaces)}: ${conflict.first.message}`;
    return {
      mirrorStatus: 'Active',
      reason: 'Conflict',
      message,
      synced: true,
      event: { type: 'Warning', reason: 'Conflict', message },
    };
  }
  const copies = total - (waiting?.namespaces.length ?? 0);
  const going = waiting === undefined ? '' : `; waiting in ${places(waiting.namespaces)}: ${waiting.first.message}`;
  const message = `${copies} ${copies === 1 ? 'copy is' : 'copies are'} up to date${going}`;
  return { mirrorStatus: 'Active', reason: 'Synced', message, synced: true };
}

function tallyOf(entries: Iterable<Entry>): Tally {
  const tally: Tally = { total: 0, byState: new Map() };
  for (const { claim, outcome } of entries) {
    tally.total += 1;
    const { namespace } = parseHolderKey(claim.target);
    let group = tally.byState.get(outcome.state);
    if (group === undefined) {
      group = { namespaces: [], first: outcome, forSource: false };
      tally.byState.set(outcome.state, group);
    }
    group.namespaces.push(namespace);
    if (!WAITS_FOR_TARGET.has(outcome.reason)) group.forSource = true;
  }
  for (const group of tally.byState.values()) group.namespaces.sort();
  return tally;
}

function places(namespaces: readonly string[]): string {
  const named = namespaces.slice(0, NAMED).join(', ');
  const rest = namespaces.length - NAMED;
  const noun = namespaces.length === 1 ? 'namespace' : 'namespaces';
  return rest > 0 ? `${noun} ${named} and ${rest} more` : `${noun} ${named}`;
}

function generationOf(mirror: SecretMirror): { observedGeneration?: number } {
  const { generation } = mirror.metadata;
  return generation === undefined ? {} : { observedGeneration: generation };
}

/** RFC 3339 with seconds, as Kubernetes writes times. */
export function timestamp(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
