/** The phase and condition of SyncSecrets, computed from the outcomes of their claims. Pure. */
import type { Cause } from '../../copy/model/cause.ts';
import type { Entry } from '../../copy/book/claim-book.ts';
import { isUnderWay, type Outcome } from '../../copy/model/claim.ts';
import { clipped } from '../../runtime/text/texts.ts';
import type { SyncSecretPhase, SyncSecretStatus } from './api.ts';

/** The status that a SyncSecret should have. */
export interface SyncState {
  readonly phase: SyncSecretPhase;
  readonly status: 'True' | 'False';
  readonly reason: string;
  readonly message: string;
  /** Whether no problem is known: the SyncSecret waits in the queue, or for the other cluster. */
  readonly isUnderWay?: true;
}

/** The status of a copy in the management cluster. */
export interface CopyStatus {
  readonly generation: number | undefined;
  readonly status: SyncSecretStatus;
}

/** KubeLB's message for a Secret that is up to date. */
const SYNCED_MESSAGE = 'Secret synced successfully';
/** KubeLB's message for a SyncSecret that is being deleted. */
const TERMINATING_MESSAGE = 'SyncSecret is being deleted';
const FAILED_REASON = 'SyncFailed';

/** The latest result for a SyncSecret that is copied. */
export interface RuleResult {
  /** The claim of the SyncSecret, perhaps from an earlier version of it. */
  readonly entry?: Entry | undefined;
  /** The outcome of the claim from the present version; `undefined`: there is no outcome yet. */
  readonly outcome: Outcome | undefined;
  /** Why `prepare` or `evaluate` failed; `undefined`: it did not fail. */
  readonly failure: Cause | undefined;
}

/**
 * The status of a SyncSecret in the management cluster, with KubeLB's reasons and messages.
 * @param exists whether the Secret exists. @param originalType see `SecretShape`
 * @returns `undefined` while there is nothing new to write
 */
export function managementState(
  { outcome, failure }: RuleResult,
  exists: boolean,
  originalType: string | undefined,
): SyncState | undefined {
  if (failure !== undefined) return failed(`failed to prepare SyncSecret: ${failure.publicMessage}`);
  if (outcome === undefined || isUnderWay(outcome)) return undefined;
  if (outcome.state === 'synced') {
    const note =
      originalType === undefined
        ? ''
        : `; its type is Opaque, because a Secret of type ${originalType} is never created from a copy`;
    return { phase: 'Synced', status: 'True', reason: 'Synced', message: `${SYNCED_MESSAGE}${note}` };
  }
  return failed(`failed to ${exists ? 'update' : 'create'} Secret: ${outcome.publicMessage}`);
}

function failed(message: string): SyncState {
  return { phase: 'Failed', status: 'False', reason: FAILED_REASON, message };
}

/** @param waitsFor the reason of the wait, in words */
export function terminatingState(waitsFor: string | undefined): SyncState {
  const message = waitsFor === undefined ? TERMINATING_MESSAGE : `${TERMINATING_MESSAGE}; ${waitsFor}`;
  // As in KubeLB, the condition is True during a deletion.
  return { phase: 'Terminating', status: 'True', reason: 'Terminating', message };
}

/**
 * The status of a tenant's SyncSecret, which covers the copy and its Secret. In phase `Pending` it is not final.
 * @param unreachable why the management cluster cannot be used; `undefined`: it can be used
 * @param copy `undefined`: no copy is known
 */
export function tenantState(
  { outcome, failure }: RuleResult,
  unreachable: Cause | undefined,
  copy: CopyStatus | undefined,
): SyncState {
  if (failure !== undefined) {
    return { phase: 'Failed', status: 'False', reason: FAILED_REASON, message: failure.publicMessage };
  }
  if (outcome === undefined || isUnderWay(outcome)) {
    if (unreachable !== undefined) return pending(unreachable.reason, unreachable.publicMessage);
    return UNDER_WAY;
  }
  if (outcome.state === 'waiting') {
    const { reason, publicMessage: message } = outcome;
    return outcome.for === 'namespace'
      ? { phase: 'Failed', status: 'False', reason, message }
      : pending(reason, message);
  }
  if (outcome.state !== 'synced') {
    // The tenant may read the exact reason only if it may read the whole message.
    const { state, message, publicMessage } = outcome;
    const reason = state === 'conflict' || message === publicMessage ? outcome.reason : FAILED_REASON;
    return { phase: 'Failed', status: 'False', reason, message: `failed to copy SyncSecret: ${publicMessage}` };
  }
  return copyState(copy);
}

/** Translates the status of a copy for the tenant. @param copy `undefined`: no copy is known */
export function copyState(copy: CopyStatus | undefined): SyncState {
  const isPresent = copy !== undefined && copy.status.observedGeneration === copy.generation;
  const [condition] = isPresent ? (copy.status.conditions ?? []) : [];
  if (isPresent && copy.status.phase === 'Synced') {
    const message = clipped(condition?.message ?? SYNCED_MESSAGE, MAX_REMOTE);
    return { phase: 'Synced', status: 'True', reason: 'Synced', message: printable(message) };
  }
  if (isPresent && copy.status.phase === 'Failed') {
    const message = clipped(condition?.message ?? 'the management cluster gives no reason', MAX_REMOTE);
    return { phase: 'Failed', status: 'False', reason: reasonOf(condition?.reason), message: printable(message) };
  }
  return UNDER_WAY;
}

/** The message is the same while the copy and its Secret are made: each change of it would cost one more write. */
const NOT_MADE = 'the Secret in the management cluster is not made yet';
const UNDER_WAY: SyncState = { ...pending('Pending', NOT_MADE), isUnderWay: true };

/** Maximum length of a message from the other cluster, characters. */
const MAX_REMOTE = 512;

function pending(reason: string, message: string): SyncState {
  return { phase: 'Pending', status: 'False', reason, message };
}

/** A reason is one word, as those of the API server. */
const REASON = /^[A-Za-z][A-Za-z0-9]{0,63}$/;

function reasonOf(reason: string | undefined): string {
  return reason !== undefined && REASON.test(reason) ? reason : FAILED_REASON;
}

/** Replaces control characters, which could change what a terminal shows. */
function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, ' ');
}
