/** Phase and condition of SyncSecrets, from the outcomes of their claims. Pure. */
import type { Cause, Outcome } from '../../copy/model/claim.ts';
import { isUnderWay } from '../../copy/model/claim.ts';
import { clipped } from '../../runtime/clipped.ts';
import type { SyncSecretStatus } from './api.ts';
import type { SyncState } from './sync-secrets.ts';

/** KubeLB's words for a Secret that is up to date. */
const SYNCED_MESSAGE = 'Secret synced successfully';
/** KubeLB's words for a SyncSecret that is being deleted. */
const TERMINATING_MESSAGE = 'SyncSecret is being deleted';
const FAILED_REASON = 'SyncFailed';

/** Reasons of Keyferry's own messages that say all that a tenant needs. */
const OWN_REASONS: ReadonlySet<string> = new Set([
  'ClusterUnreachable',
  'Conflict',
  'Contested',
  'Immutable',
  'NamespaceTerminating',
  'Overwritten',
  'Pending',
  'RefusedType',
  'Terminating',
  'TooLarge',
]);

/** Messages of the API server that say what is wrong with the object itself. */
const ABOUT_THE_OBJECT = /^(Secret|SyncSecret)(\.[a-z0-9.]+)? "[^"]*" is invalid: /;
/** The API server's message for a missing permission: the verb and the resource. */
const NOT_PERMITTED = /^\S+(?: "[^"]*")? is forbidden: User "[^"]*" cannot (\w+) resource "([\w./-]+)"/;

/**
 * The text of a failure that a tenant may read. The server's message about the object itself is useful. Other messages name quotas,
 * webhooks, policies and users of the management cluster, and rules of others, so they are only in the operator's log.
 */
export function publicMessage({ reason, message, isInternal }: Cause): string {
  if (isInternal !== true && OWN_REASONS.has(reason)) return message;
  if (reason === 'ConnectionError') return 'the API server did not answer';
  if (/exceeded quota/.test(message)) return 'a quota of the namespace is used up';
  if (/denied (the )?request|ValidatingAdmissionPolicy/.test(message))
    return 'an admission policy or webhook refused it';
  if (reason === 'Invalid' && ABOUT_THE_OBJECT.test(message)) return message;
  const [, verb, resource] = NOT_PERMITTED.exec(message) ?? [];
  if (verb !== undefined) return `the operator has no permission to ${verb} ${resource}`;
  if (/too large|larger than max|too long|may not be more than/i.test(message))
    return 'it is too large for the cluster';
  if (reason === 'Conflict') return 'an object of another owner is in its place, or it keeps changing';
  const word = REASON.test(reason) ? ` (${reason})` : '';
  return `the API server refused it${word}; see the log of the operator`;
}

/** What a claim that is not done waits for, as a tenant may read it. */
export function publicWait(outcome: Outcome): string {
  if (outcome.state !== 'waiting') return publicMessage(outcome);
  // What is waited for is in our own words, and these two name the namespace.
  if (outcome.reason === 'NamespaceTerminating') return 'the namespace in the management cluster is being deleted';
  if (outcome.reason === 'NamespaceNotFound') return 'the namespace in the management cluster does not exist';
  return outcome.message;
}

export interface SecretFacts {
  /** Of the claim on the Secret. */
  readonly outcome: Outcome | undefined;
  /** `prepare` or `evaluate` fails. */
  readonly failure: Cause | undefined;
  /** The Secret exists. */
  readonly exists: boolean;
  /** @see SecretShape */
  readonly originalType: string | undefined;
}

/** The status in the management cluster, as KubeLB's. @returns `undefined` while nothing new is known */
export function managementState({ outcome, failure, exists, originalType }: SecretFacts): SyncState | undefined {
  if (failure !== undefined) return failed(`failed to prepare SyncSecret: ${publicMessage(failure)}`);
  if (outcome === undefined || isUnderWay(outcome)) return undefined;
  if (outcome.state === 'synced') {
    const note =
      originalType === undefined
        ? ''
        : `; its type is Opaque, because a Secret of type ${originalType} is never created from a copy`;
    return { phase: 'Synced', status: 'True', reason: 'Synced', message: `${SYNCED_MESSAGE}${note}` };
  }
  return failed(`failed to ${exists ? 'update' : 'create'} Secret: ${publicWait(outcome)}`);
}

function failed(message: string): SyncState {
  return { phase: 'Failed', status: 'False', reason: FAILED_REASON, message };
}

/** @param waitsFor what the deletion waits for */
export function terminatingState(waitsFor: string | undefined): SyncState {
  const message = waitsFor === undefined ? TERMINATING_MESSAGE : `${TERMINATING_MESSAGE}; ${waitsFor}`;
  // KubeLB has True here.
  return { phase: 'Terminating', status: 'True', reason: 'Terminating', message };
}

export interface ChainFacts {
  /** Of the claim on the copy. */
  readonly outcome: Outcome | undefined;
  readonly failure: Cause | undefined;
  /** The management cluster does not answer, or refuses the watch. */
  readonly unreachable: Cause | undefined;
  /** Of the copy; `undefined`: there is none, or none is known. */
  readonly copy: { readonly generation: number | undefined; readonly status: SyncSecretStatus } | undefined;
}

/** The status of the whole chain, in the tenant cluster. Phase `Pending`: not final. */
export function tenantState({ outcome, failure, unreachable, copy }: ChainFacts): SyncState {
  if (failure !== undefined) {
    return { phase: 'Failed', status: 'False', reason: FAILED_REASON, message: publicMessage(failure) };
  }
  if (outcome === undefined || isUnderWay(outcome)) {
    return pending(unreachable ?? { reason: 'Pending', message: 'the copy in the management cluster is being made' });
  }
  if (outcome.state === 'waiting') {
    const { reason } = outcome;
    return reason === 'NamespaceTerminating' || reason === 'NamespaceNotFound'
      ? { phase: 'Failed', status: 'False', reason, message: publicWait(outcome) }
      : pending({ reason, message: publicWait(outcome) });
  }
  if (outcome.state !== 'synced') {
    const reason = outcome.state === 'conflict' || OWN_REASONS.has(outcome.reason) ? outcome.reason : FAILED_REASON;
    return {
      phase: 'Failed',
      status: 'False',
      reason,
      message: `failed to copy SyncSecret: ${publicMessage(outcome)}`,
    };
  }
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
  return pending({ reason: 'Pending', message: 'the management cluster has not made the Secret yet' });
}

/** Longest message that is taken over from the other cluster, characters. */
const MAX_REMOTE = 512;

function pending({ reason, message }: Cause): SyncState {
  return { phase: 'Pending', status: 'False', reason, message };
}

/** One word, as the API server's own reasons are. */
const REASON = /^[A-Za-z][A-Za-z0-9]{0,63}$/;

function reasonOf(reason: string | undefined): string {
  return reason !== undefined && REASON.test(reason) ? reason : FAILED_REASON;
}

/** Without control characters, which would change what a terminal shows. */
function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, ' ');
}
