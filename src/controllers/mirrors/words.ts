/**
 * The status and events of a SecretMirror, computed from the outcomes of its claims. Pure.
 *
 * The condition `Ready` is true only if all targets are up to date. `mirrorStatus` is as in the original: Active even
 * if a target has another owner.
 */
import type { Entry } from '../../copy/book/claim-book.ts';
import { type Cause, withReason } from '../../copy/model/cause.ts';
import { isUnderWay, type OutcomeState, type SourceView, type Undeleted } from '../../copy/model/claim.ts';
import { parseResourceKey } from '../../copy/model/keys.ts';
import type { Findings, OutOfReach } from '../../copy/model/rule-set.ts';
import { KEPT_AS_SOURCE } from '../../copy/plan/plan.ts';
import { clipped, rfc3339, someOf } from '../../runtime/text/texts.ts';
import type { RuleEvent } from '../../copy/engine/controller.ts';
import { type Condition, nextCondition } from '../../copy/engine/life/condition.ts';
import type { VaultTrouble } from '../../copy/vault/access/access.ts';
import {
  type DestinationType,
  type MirrorStatus,
  NEVER_SYNCED,
  type SecretMirror,
  type SecretMirrorStatus,
} from './api.ts';
import { nextLease, type LeaseState, type LeaseStatus, sameLeases } from './rules/lease-records.ts';
import { RetainShape } from './shape.ts';
import { type EffectiveSpec, problemsWith, SUSPENDED } from './rules/spec.ts';

export interface StatusInput extends Findings {
  readonly mirror: SecretMirror;
  readonly spec: EffectiveSpec;
  readonly claims: Iterable<Entry>;
  /** The copies that the mirror no longer wants, and that could not be deleted. */
  readonly undeleted: readonly Undeleted[];
  readonly source: SourceView;
  /** Why Keyferry cannot poll a source in Vault now, although its content is known; `undefined`: it can. */
  readonly trouble?: VaultTrouble | undefined;
  /** @see RuleProgress.failure */
  readonly failure?: Cause | undefined;
  /** The mirror's Vault lease; `undefined`: the mirror is being deleted. */
  readonly lease?: LeaseState | undefined;
  /** Number of writes since the last status. */
  readonly writes: number;
  /** The last status that was written or read. */
  readonly previous: SecretMirrorStatus | undefined;
  /** Wall clock, ms. */
  readonly now: number;
}

export interface StatusOutput {
  readonly status: SecretMirrorStatus;
  readonly events: readonly RuleEvent[];
  /** On the selected namespaces. */
  readonly remarks: readonly RuleEvent[];
  /** Whether all copies are up to date, except targets that belong to another owner. */
  readonly synced: boolean;
  readonly namespaces: number;
}

/** The type of the condition that Keyferry writes. */
export const READY_CONDITION = 'Ready';

const FIRST = { mirrorStatus: 'Pending', reason: 'Pending', message: 'the copies are being created' } as const;
const NO_LEASE: LeaseState = { lease: undefined, destinationVersion: undefined };
const NOTHING_YET = { events: [], remarks: [], synced: false, namespaces: 0 } as const;

/** Computes the next status. @returns `undefined` if no status must be written now, because claims are under way */
export function nextStatus(input: StatusInput): StatusOutput | undefined {
  const { mirror, previous, refusal, outOfReach, now } = input;
  const spec = { ...input.spec, problems: problemsWith(input.spec, refusal) };
  const outcomes = groupOutcomes(input.claims, spec.destinationType);
  const deleting = mirror.metadata.deletionTimestamp !== undefined;
  if (deleting && outcomes.isUnderWay) return undefined;
  const leases = nextLease(input.source, spec, previous, input.lease ?? NO_LEASE);
  // If targets wait for a source that exists now, their outcomes are older than the source.
  const isOutdated = outcomes.waitsForSource && input.source.state === 'present';
  const isUnsettled = outcomes.isUnderWay || input.source.state === 'unknown' || isOutdated;
  const isIdle = spec.problems.length > 0 || refusal === SUSPENDED;
  if (!deleting && isUnsettled && !isIdle && input.failure === undefined) {
    if (previous?.conditions === undefined)
      return { ...NOTHING_YET, status: statusOf(input, leases, FIRST, NEVER_SYNCED) };
    // The copies get the credentials of a new lease when the status names the lease.
    const { vaultSource: _, vaultLeases: __, ...rest } = previous;
    return sameLeases(previous, leases) ? undefined : { ...NOTHING_YET, status: { ...rest, ...leases } };
  }
  const summary = deleting
    ? summarizeDeletion(outcomes, previous?.mirrorStatus ?? 'Pending')
    : withUndeleted(summarize(outcomes, spec, input), groupOutcomes(input.undeleted, 'namespaces'));
  const before = readyCondition(previous);
  const isNewSync =
    summary.synced &&
    (input.writes > 0 ||
      previous?.mirrorStatus !== summary.mirrorStatus ||
      previous.observedGeneration !== mirror.metadata.generation);
  const lastSyncTime = isNewSync ? rfc3339(now) : (previous?.lastSyncTime ?? NEVER_SYNCED);
  const status = statusOf(input, leases, summary, lastSyncTime);
  const events: RuleEvent[] = [];
  // A status of the original has no conditions; there Active means ready.
  const wasReady = before === undefined ? previous?.mirrorStatus === 'Active' : before.status === 'True';
  if (summary.reason === 'Synced' && !wasReady) {
    events.push({ type: 'Normal', reason: 'Active', message: 'SecretMirror is synced' });
  }
  const isNew = before?.reason !== summary.reason || before.message !== summary.message;
  if (isNew && summary.event !== undefined) events.push(summary.event);
  const remarks: RuleEvent[] = [];
  if (summary.reason === 'Synced' && outOfReach !== undefined)
    remarks.push({ type: 'Normal', reason: outOfReach.reason, message: outOfReach.message });
  const namespaces = spec.destinationType === 'vault' ? 0 : outcomes.total;
  return { status, events, remarks, synced: summary.synced, namespaces };
}

function statusOf(
  { mirror, previous, now }: StatusInput,
  leases: LeaseStatus,
  { mirrorStatus, reason, message }: Pick<Summary, 'mirrorStatus' | 'reason' | 'message'>,
  lastSyncTime: string,
): SecretMirrorStatus {
  const { generation } = mirror.metadata;
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  const state = { type: READY_CONDITION, status: reason === 'Synced' ? 'True' : 'False', reason, message } as const;
  const ready = nextCondition(readyCondition(previous), state, generation, now);
  // Conditions of other types stay, because they belong to other clients.
  const others = previous?.conditions?.filter(({ type }) => type !== READY_CONDITION) ?? [];
  return { ...leases, mirrorStatus, lastSyncTime, ...observed, conditions: [ready, ...others] };
}

function readyCondition(status: SecretMirrorStatus | undefined): Condition | undefined {
  return status?.conditions?.find(({ type }) => type === READY_CONDITION);
}

/** Maximum number of namespaces that a message names for one reason. More namespaces are only counted. */
const NAMED = 5;
/** Maximum number of reasons in a message. The namespaces with other reasons are only counted. */
const MAX_REASONS = 5;
/** Maximum length of the text for one reason, characters: a server's message may have any length. */
const MAX_DETAIL = 2048;
/** Maximum length of the message about problems of a spec, characters. A condition accepts 32,768 characters. */
const MAX_PROBLEMS = 16_384;

/** Errors whose reason becomes the reason of the condition. All other errors get `SyncError`, as in the original. */
const OWN_REASONS: ReadonlySet<string> = new Set(['Cycle', 'Overwritten', 'KeyNotFound']);

/** Targets with the same outcome. */
interface Group {
  readonly state: OutcomeState;
  readonly reason: string;
  readonly message: string;
  readonly namespaces: string[];
}

interface OutcomeGroups {
  readonly total: number;
  /** Sorted by their first namespace. */
  readonly groups: readonly Group[];
  /** @see isUnderWay in copy/model/claim.ts */
  readonly isUnderWay: boolean;
  /** Whether some targets wait for their source. */
  readonly waitsForSource: boolean;
}

interface Summary {
  readonly mirrorStatus: MirrorStatus;
  readonly reason: string;
  readonly message: string;
  readonly synced: boolean;
  readonly event?: RuleEvent;
}

function summarize(
  outcomes: OutcomeGroups,
  spec: EffectiveSpec,
  { source, trouble, failure, refusal, outOfReach, previous }: StatusInput,
): Summary {
  if (spec.problems.length > 0)
    return notReady('Error', 'InvalidSpec', clipped(spec.problems.join('; '), MAX_PROBLEMS));
  if (failure !== undefined) {
    return notReady(
      'Error',
      'SyncError',
      `cannot prepare the SecretMirror (finalizer, defaults): ${failure.reason}: ${failure.message}`,
    );
  }
  if (refusal === SUSPENDED) {
    const { reason, message } = refusal;
    return {
      ...notReady(previous?.mirrorStatus ?? 'Pending', reason, message),
      event: { type: 'Normal', reason, message },
    };
  }
  if (outOfReach?.part === 'all') return notReady('Error', outOfReach.reason, outOfReach.message);
  if (source.state === 'failed') return notReady('Error', source.reason, source.message);
  if (trouble !== undefined) {
    const message = `${trouble.message}; existing copies are unchanged`;
    return notReady(trouble.pending ? 'Pending' : 'Error', trouble.reason, message);
  }
  return spec.destinationType === 'vault'
    ? summarizeVaultEntry(outcomes, source)
    : summarizeCopies(outcomes, source, outOfReach, spec);
}

/** The summary of a mirror that waits for the deletion of its copies. @param before its last `mirrorStatus` */
function summarizeDeletion(outcomes: OutcomeGroups, before: MirrorStatus): Summary {
  const errors = groupsOf(outcomes, 'error');
  const waits = groupsOf(outcomes, 'waiting');
  const parts = [...listed('cannot delete the copy in', errors, withReason), ...listed('waiting in', waits)];
  const message = `being deleted: ${parts.join('; ')}`;
  return errors.length > 0 ? notReady('Error', 'SyncError', message) : notReady(before, 'Terminating', message);
}

/** The events when a deleted mirror loses its finalizer. @param left copies that remain after the time limit */
export function deletionEvents(
  entries: readonly Entry[],
  left: readonly Entry[],
  destination: DestinationType,
): RuleEvent[] {
  const events: RuleEvent[] = [];
  const kept = entries.filter(({ outcome }) => outcome.state === 'released' && outcome.kept === true);
  if (kept.length > 0) {
    const namespaces = new Set(kept.map(({ target }) => parseResourceKey(target).namespace));
    const message = `the copy in ${namespaceList([...namespaces].sort())} is kept while it is the source of other copies`;
    events.push({ type: 'Warning', reason: KEPT_AS_SOURCE.reason, message });
  }
  if (left.length > 0) {
    const last = summarizeDeletion(groupOutcomes(left, destination), 'Pending').message;
    const message = `the SecretMirror no longer waits for its copies; the remaining copies will be deleted when possible. Last state: ${last}`;
    events.push({ type: 'Warning', reason: 'DeletionTimeout', message });
  }
  return events;
}

/** The summary of a mirror some of whose earlier copies could not be deleted. @param undeleted these copies */
function withUndeleted(summary: Summary, { groups }: Pick<OutcomeGroups, 'groups'>): Summary {
  const [left] = listed('cannot delete the copy in', groups, withReason);
  if (left === undefined) return summary;
  const { mirrorStatus, reason, message } = summary;
  return reason === 'Synced'
    ? notReady('Error', 'SyncError', `${left}; ${message}`)
    : notReady(mirrorStatus, reason, `${message}; ${left}`);
}

/** A summary that is not ready, with a Warning event. */
function notReady(mirrorStatus: MirrorStatus, reason: string, message: string): Summary {
  return { mirrorStatus, reason, message, synced: false, event: { type: 'Warning', reason, message } };
}

/** The summary of a mirror whose destination is in Vault. */
function summarizeVaultEntry(outcomes: OutcomeGroups, source: SourceView): Summary {
  if (source.state === 'missing') return notReady('Pending', source.reason, source.message);
  const [failed] = groupsOf(outcomes, 'error');
  if (failed !== undefined) return notReady('Error', failed.reason, failed.message);
  const [waiting] = groupsOf(outcomes, 'waiting');
  if (waiting !== undefined) return notReady('Pending', waiting.reason, waiting.message);
  const [conflict] = groupsOf(outcomes, 'conflict');
  if (conflict !== undefined) return { ...notReady('Active', conflict.reason, conflict.message), synced: true };
  return { mirrorStatus: 'Active', reason: 'Synced', message: 'the Vault entry is up to date', synced: true };
}

function summarizeCopies(
  outcomes: OutcomeGroups,
  source: SourceView,
  outOfReach: OutOfReach | undefined,
  { unmatched }: EffectiveSpec,
): Summary {
  const errors = groupsOf(outcomes, 'error');
  const conflicts = groupsOf(outcomes, 'conflict');
  const waits = source.state === 'present' ? groupsOf(outcomes, 'waiting') : [];
  const out = outOfReach === undefined ? [] : [withReason(outOfReach)];
  const rest = [...listed('skipped', conflicts), ...listed('waiting in', waits), ...out];
  const [failed] = errors;
  if (failed !== undefined) {
    const hasOwnReason = OWN_REASONS.has(failed.reason) && errors.every(({ reason }) => reason === failed.reason);
    const reason = hasOwnReason ? failed.reason : 'SyncError';
    const describe = (lead: string): string =>
      [...listed(lead, errors, hasOwnReason ? undefined : withReason), ...rest].join('; ');
    const event = { type: 'Warning', reason, message: describe('unable to sync some objects:') } as const;
    return { ...notReady('Error', reason, describe('cannot sync')), event };
  }
  if (source.state === 'missing') return notReady('Pending', source.reason, source.message);
  const first = conflicts[0] ?? waits[0];
  if (first !== undefined) {
    // As in the original, conflicts and waiting targets do not change `mirrorStatus`.
    return { ...notReady('Active', first.reason, rest.join('; ')), synced: waits.length === 0 };
  }
  const { total } = outcomes;
  const done = `${total} ${total === 1 ? 'copy is' : 'copies are'} up to date`;
  // `mirrorStatus` is Active, because in the original it means that all permitted copies exist.
  if (outOfReach?.part === 'named') {
    const { reason, message } = outOfReach;
    const event = { type: 'Warning', reason, message } as const;
    return { mirrorStatus: 'Active', reason, message: `${message}; ${done}`, synced: true, event };
  }
  const message = total === 0 ? `0 copies: ${unmatched}` : [done, ...out].join('; ');
  return { mirrorStatus: 'Active', reason: 'Synced', message, synced: true };
}

function groupsOf({ groups }: OutcomeGroups, state: OutcomeState): Group[] {
  return groups.filter((group) => group.state === state);
}

/** Lists each reason with its namespaces. @returns one part of a message; empty if there are no groups */
function listed(lead: string, groups: readonly Group[], detail = ({ message }: Group): string => message): string[] {
  if (groups.length === 0) return [];
  const named = groups.slice(0, MAX_REASONS);
  const parts = named.map((group) => `${namespaceList(group.namespaces)}: ${clipped(detail(group), MAX_DETAIL)}`);
  let more = 0;
  for (const { namespaces } of groups.slice(MAX_REASONS)) more += namespaces.length;
  if (more > 0) parts.push(`${more} more ${more === 1 ? 'namespace' : 'namespaces'} for other reasons`);
  return [`${lead} ${parts.join('; ')}`];
}

function groupOutcomes(entries: Iterable<Entry | Undeleted>, destination: DestinationType): OutcomeGroups {
  const groups = new Map<string, Group>();
  const outcomes = { total: 0, isUnderWay: false, waitsForSource: false };
  for (const entry of entries) {
    const { target, outcome } = entry;
    // A claim with `RetainShape` is not a copy: its target was a copy before, and is the source now.
    if (!('claim' in entry && entry.claim.shape instanceof RetainShape)) outcomes.total += 1;
    outcomes.isUnderWay ||= isUnderWay(outcome);
    outcomes.waitsForSource ||= outcome.state === 'waiting' && outcome.for === 'source';
    const { state, reason, message } = outcome;
    const key = `${state} ${reason} ${message}`;
    let group = groups.get(key);
    if (group === undefined) groups.set(key, (group = { state, reason, message, namespaces: [] }));
    group.namespaces.push(destination === 'vault' ? '' : parseResourceKey(target).namespace);
  }
  const all = [...groups.values()];
  for (const group of all) group.namespaces.sort();
  all.sort(byFirstNamespace);
  return { ...outcomes, groups: all };
}

function byFirstNamespace({ namespaces: [a = ''] }: Group, { namespaces: [b = ''] }: Group): number {
  return a < b ? -1 : Number(a > b);
}

/** For example `namespaces a, b, c, d, e and 4 more`. */
function namespaceList(namespaces: readonly string[]): string {
  return `${namespaces.length === 1 ? 'namespace' : 'namespaces'} ${someOf(namespaces, NAMED)}`;
}
