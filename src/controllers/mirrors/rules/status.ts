/**
 * The status and events of a SecretMirror, computed from the outcomes of its claims. Pure.
 *
 * `mirrorStatus` has the meaning of the original: it stays Active also if a target belongs to another owner. The condition `Ready` is exact.
 */
import type { Entry } from '../../../copy/book/claim-book.ts';
import type { Cause } from '../../../copy/model/cause.ts';
import type { SourceView } from '../../../copy/model/claim.ts';
import { rfc3339 } from '../../../runtime/text/rfc3339.ts';
import type { VaultTrouble } from '../../../copy/vault/access/access.ts';
import { type Condition, nextCondition, sameConditions } from '../../common/rules/condition.ts';
import type { RuleEvent } from '../../common/rules/rule-statuses.ts';
import { NEVER_SYNCED, type SecretMirror, type SecretMirrorStatus } from '../api.ts';
import { nextLeases, type LeaseStates, type LeaseStatus, sameLeases } from '../duties/lease-records.ts';
import type { EffectiveSpec } from './spec.ts';
import { summarize, summarizeDeletion, groupOutcomes, type Summary } from './summary.ts';

export interface StatusInput {
  readonly mirror: SecretMirror;
  readonly spec: EffectiveSpec;
  readonly entries: Iterable<Entry>;
  readonly source: SourceView;
  /** Why a present source cannot be polled now. */
  readonly trouble?: VaultTrouble | undefined;
  /** Why `prepare` or `evaluate` failed. */
  readonly failure?: Cause | undefined;
  /** Warnings of `misreadPatterns`. */
  readonly misread: readonly string[];
  /** For a mirror with present or earlier dynamic credentials. */
  readonly leases?: LeaseStates | undefined;
  /** Writes since the last status. */
  readonly writes: number;
  /** The status that was last written or read. */
  readonly previous: SecretMirrorStatus | undefined;
  /** Wall clock, ms. */
  readonly now: number;
}

export interface StatusOutput {
  readonly status: SecretMirrorStatus;
  readonly events: readonly RuleEvent[];
  /** All copies are up to date, except targets that belong to another owner. */
  readonly synced: boolean;
  readonly namespaces: number;
}

const FIRST = { mirrorStatus: 'Pending', reason: 'Pending', message: 'the copies are being created' } as const;
const NOTHING_YET = { events: [], synced: false, namespaces: 0 } as const;

/** @returns `undefined` while nothing new is known */
export function nextStatus(input: StatusInput): StatusOutput | undefined {
  const { mirror, spec, previous, misread, now } = input;
  const outcomes = groupOutcomes(input.entries, spec.destinationType);
  const deleting = mirror.metadata.deletionTimestamp !== undefined;
  if (deleting && outcomes.isUnderWay) return undefined;
  const leases = nextLeases(input.source, spec, previous, input.leases, now);
  // Some outcomes may be from before the source was created.
  const isOutdated = outcomes.waitsForSource && input.source.state === 'present';
  const isUnsettled = outcomes.isUnderWay || input.source.state === 'unknown' || isOutdated;
  if (!deleting && isUnsettled && spec.problems.length === 0 && input.failure === undefined) {
    if (previous?.conditions === undefined)
      return { ...NOTHING_YET, status: statusOf(input, leases, FIRST, NEVER_SYNCED) };
    // A lease is recorded at once, so that it is known after a crash.
    const { vaultSource: _, vaultLeases: __, ...rest } = previous;
    return sameLeases(previous, leases) ? undefined : { ...NOTHING_YET, status: { ...rest, ...leases } };
  }
  const summary = deleting
    ? summarizeDeletion(outcomes, previous?.mirrorStatus ?? 'Pending')
    : summarize(outcomes, spec, input);
  const before = readyCondition(previous);
  const isNewSync =
    summary.synced &&
    (input.writes > 0 ||
      previous?.mirrorStatus !== summary.mirrorStatus ||
      previous.observedGeneration !== mirror.metadata.generation);
  const lastSyncTime = isNewSync ? rfc3339(now) : (previous?.lastSyncTime ?? NEVER_SYNCED);
  const message = [summary.message, ...misread].join('; ');
  const status = statusOf(input, leases, { ...summary, message }, lastSyncTime);
  const events: RuleEvent[] = [];
  // A status of the original has no conditions.
  const wasReady = before === undefined ? previous?.mirrorStatus === 'Active' : before.status === 'True';
  if (summary.reason === 'Synced' && !wasReady) {
    events.push({ type: 'Normal', reason: 'Active', message: 'SecretMirror is synced' });
  }
  const isNew = before?.reason !== summary.reason || before.message !== message;
  if (isNew && summary.event !== undefined) events.push(summary.event);
  for (const warning of misread) {
    if (before?.message.includes(warning) === true) continue;
    events.push({ type: 'Warning', reason: 'MisreadPattern', message: warning });
  }
  return { status, events, synced: summary.synced, namespaces: spec.destinationType === 'vault' ? 0 : outcomes.total };
}

export function sameStatus(a: SecretMirrorStatus, b: SecretMirrorStatus): boolean {
  return (
    a.mirrorStatus === b.mirrorStatus &&
    a.lastSyncTime === b.lastSyncTime &&
    a.observedGeneration === b.observedGeneration &&
    sameConditions(ownConditions(a), ownConditions(b)) &&
    sameLeases(a, b)
  );
}

function statusOf(
  { mirror, previous, now }: StatusInput,
  leases: LeaseStatus,
  { mirrorStatus, reason, message }: Pick<Summary, 'mirrorStatus' | 'reason' | 'message'>,
  lastSyncTime: string,
): SecretMirrorStatus {
  const { generation } = mirror.metadata;
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  const state = { type: 'Ready', status: reason === 'Synced' ? 'True' : 'False', reason, message } as const;
  const ready = nextCondition(readyCondition(previous), state, generation, now);
  // Conditions of others stay.
  const others = previous?.conditions?.filter(({ type }) => type !== 'Ready') ?? [];
  return { ...leases, mirrorStatus, lastSyncTime, ...observed, conditions: [ready, ...others] };
}

function ownConditions(status: SecretMirrorStatus): readonly Condition[] {
  return status.conditions?.filter(({ type }) => type === 'Ready') ?? [];
}

function readyCondition(status: SecretMirrorStatus | undefined): Condition | undefined {
  return status?.conditions?.find(({ type }) => type === 'Ready');
}
