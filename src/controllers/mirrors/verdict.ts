/** What is to be said of a mirror, from the outcomes of its claims and the state of its source. Pure. */
import type { Entry } from '../../copy/claim-book.ts';
import type { Outcome, SourceView } from '../../copy/claim.ts';
import { parseHolderKey } from '../../copy/keys.ts';
import type { DestinationType, MirrorStatus } from './api.ts';
import type { EffectiveSpec } from './spec.ts';
import type { MirrorEvent, StatusInput } from './status.ts';

/** Namespaces named in a message; the rest is counted. */
const NAMED = 5;

/** What a copy may wait for that is no matter of its source (see `plan` and `KubeTargets`). */
const WAITS_FOR_TARGET: ReadonlySet<string> = new Set(['Terminating', 'NamespaceTerminating']);
/** The same for an entry in Vault (see `VaultTargets`). */
const WAITS_FOR_VAULT: ReadonlySet<string> = new Set(['VaultAuthMissing', 'NoData']);

interface Group {
  readonly namespaces: string[];
  readonly first: Outcome;
  /** Some of them wait for their source. */
  forSource: boolean;
}

export interface Tally {
  total: number;
  readonly byState: Map<Outcome['state'], Group>;
}

/** The source is there, and some copies have not been told yet: their outcome is still that they wait for it. */
export function isOutdated({ byState }: Tally, source: SourceView): boolean {
  return source.state === 'present' && byState.get('waiting')?.forSource === true;
}

export interface Verdict {
  readonly mirrorStatus: MirrorStatus;
  readonly reason: string;
  readonly message: string;
  readonly synced: boolean;
  readonly event?: MirrorEvent;
}

export function judge(
  tally: Tally,
  spec: EffectiveSpec,
  { source, trouble, failure }: Pick<StatusInput, 'source' | 'trouble' | 'failure'>,
): Verdict {
  if (spec.problems.length > 0) return refused('Error', 'InvalidSpec', clip(spec.problems.join('; ')));
  if (failure !== undefined) {
    return refused('Error', 'SyncError', `cannot prepare the mirror: ${failure.reason}: ${failure.message}`);
  }
  if (source.state === 'failed') return refused('Error', source.reason, source.message);
  if (trouble !== undefined) {
    const message = `${trouble.message}; what was copied stays as it is`;
    return refused(trouble.pending ? 'Pending' : 'Error', trouble.reason, message);
  }
  return spec.destinationType === 'vault' ? judgeEntry(tally, source) : judgeCopies(tally, source);
}

/** Longest message of problems: a condition's may have 32,768 characters, and there may be a thousand of them. */
const MAX_PROBLEMS = 16_384;

function clip(text: string): string {
  return text.length <= MAX_PROBLEMS ? text : `${text.slice(0, MAX_PROBLEMS).toWellFormed()}…`;
}

/** Not synced, for a reason that its users should hear of. */
function refused(mirrorStatus: MirrorStatus, reason: string, message: string): Verdict {
  return { mirrorStatus, reason, message, synced: false, event: { type: 'Warning', reason, message } };
}

/** The destination is an entry in Vault, whose outcome has the words for users already. */
function judgeEntry({ byState }: Tally, source: SourceView): Verdict {
  if (source.state === 'missing') return refused('Pending', source.reason, source.message);
  const failed = byState.get('error')?.first;
  if (failed !== undefined) return refused('Error', failed.reason, failed.message);
  const waiting = byState.get('waiting')?.first;
  if (waiting !== undefined) return refused('Pending', waiting.reason, waiting.message);
  const conflict = byState.get('conflict')?.first;
  if (conflict !== undefined) return leftAlone(conflict.message);
  return { mirrorStatus: 'Active', reason: 'Synced', message: 'the vault entry is up to date', synced: true };
}

function judgeCopies({ byState, total }: Tally, source: SourceView): Verdict {
  const failed = byState.get('error');
  if (failed !== undefined) {
    const where = places(failed.namespaces);
    const detail = `${failed.first.reason}: ${failed.first.message}`;
    const event = `unable to sync some objects: ${where}: ${detail}`;
    return {
      ...refused('Error', 'SyncError', `cannot sync ${where}: ${detail}`),
      event: { type: 'Warning', reason: 'SyncError', message: event },
    };
  }
  if (source.state === 'missing') return refused('Pending', source.reason, source.message);
  const waiting = byState.get('waiting');
  const conflict = byState.get('conflict');
  if (conflict !== undefined) {
    return leftAlone(`left alone in ${places(conflict.namespaces)}: ${conflict.first.message}`);
  }
  if (total === 0) {
    const message = '0 copies: the patterns match no other namespace yet';
    return { mirrorStatus: 'Active', reason: 'Synced', message, synced: true };
  }
  const copies = total - (waiting?.namespaces.length ?? 0);
  const going = waiting === undefined ? '' : `; waiting in ${places(waiting.namespaces)}: ${waiting.first.message}`;
  const message = `${copies} ${copies === 1 ? 'copy is' : 'copies are'} up to date${going}`;
  return { mirrorStatus: 'Active', reason: 'Synced', message, synced: true };
}

/** Somebody else's: that makes the mirror no less active, in the original's word. */
function leftAlone(message: string): Verdict {
  return {
    mirrorStatus: 'Active',
    reason: 'Conflict',
    message,
    synced: true,
    event: { type: 'Warning', reason: 'Conflict', message },
  };
}

export function tallyOf(entries: Iterable<Entry>, destination: DestinationType): Tally {
  const forTarget = destination === 'vault' ? WAITS_FOR_VAULT : WAITS_FOR_TARGET;
  const tally: Tally = { total: 0, byState: new Map() };
  for (const { claim, outcome } of entries) {
    tally.total += 1;
    const namespace = destination === 'vault' ? '' : parseHolderKey(claim.target).namespace;
    let group = tally.byState.get(outcome.state);
    if (group === undefined) {
      group = { namespaces: [], first: outcome, forSource: false };
      tally.byState.set(outcome.state, group);
    }
    group.namespaces.push(namespace);
    if (!forTarget.has(outcome.reason)) group.forSource = true;
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
