/**
 * A claim is data: the owner desires that targets hold the content of a source, in a given shape. Controllers make
 * claims from rules; the engine reconciles the targets and records the outcomes.
 */
import { type Cause, causeOf, nobodyCause, sameCause, userCause } from './cause.ts';
import { type ResourceKey, type RuleKey, parseResourceKey } from './keys.ts';
import type { Steps } from '../../runtime/queue/slices.ts';
import type { OwnerReference } from '../../kube/api.ts';
import type { KeySelection } from './key-selection.ts';
import { type Observed, contentVersion } from './observed.ts';

export interface Owner {
  readonly key: RuleKey;
  /** For people: `SecretMirror default/mysecret-mirror`. */
  readonly title: string;
  /** Orders owners that claim one target; see `rankOf`. The smallest wins. */
  readonly rank: string;
}

/** Orders rules by age: creationTimestamp, then uid. */
export function rankOf(creationTimestamp: string, uid: string): string {
  return `${creationTimestamp} ${uid}`;
}

/**
 * - `own`: Keyferry creates and deletes the target.
 * - `fill`: the target belongs to a user; Keyferry fills its data.
 * - `release`: the owner is being deleted; the target is deleted if it carries the owner's mark.
 */
export type ClaimMode = 'own' | 'fill' | 'release';

/** Targets for which a rule desires the same share one claim, because there are tens of thousands of targets. */
export interface Claim {
  readonly owner: Owner;
  readonly mode: ClaimMode;
  readonly source: ResourceKey | undefined;
  /** The key that the source has as a target, if it is a different one (Vault). */
  readonly sourcePlace?: ResourceKey | undefined;
  /** The source is the object of the rule itself: its deletion ends the claim, so the claim does not protect it. */
  readonly isRuleSource?: true | undefined;
  /**
   * The generation of such a source, if the status of the rule reports it. A new generation makes a new claim, so that
   * each outcome belongs to one generation.
   */
  readonly sourceGeneration?: number | undefined;
  readonly shape: Shape;
}

/** A claim on one target. */
export interface Claimed {
  readonly target: ResourceKey;
  readonly claim: Claim;
}

/** Claims of one rule on many targets. */
export function claimAll(targets: Iterable<ResourceKey>, claim: Claim): Claimed[] {
  return Array.from(targets, (target) => ({ target, claim }));
}

/** The source of a claim, by its key as a target; `undefined` if the claim copies nothing. */
export function targetKeyOfSource({ mode, source, sourcePlace }: Claim): ResourceKey | undefined {
  return mode === 'release' ? undefined : (sourcePlace ?? source);
}

/** The Vault lease of dynamic credentials. */
export interface SourceLease {
  readonly id: string;
  /** Duration of the last grant or renewal, seconds. */
  readonly seconds: number;
  /** The login and path that it belongs to, see `vaultLeaseOrigin`. */
  readonly origin: string;
  /** When the token of the lease expires without a renewal, ms since 1970; `undefined`: the lease does not need it. */
  readonly tokenExpiresAt: number | undefined;
}

/** The state of a source as its metadata show it. */
export type SourceView =
  | { readonly state: 'unknown' }
  | ({ readonly state: 'missing' } & Cause)
  | ({ readonly state: 'failed' } & Cause)
  | {
      readonly state: 'present';
      /** Another version may mean other content. */
      readonly version: string;
      readonly labels: Readonly<Record<string, string>>;
      readonly annotations: Readonly<Record<string, string>>;
      readonly lease?: SourceLease;
    };

/** Labels or annotations by key. `null`: the key must not exist. Other keys are not changed. */
export type FieldPatch = Readonly<Record<string, string | null>>;

/** The desired state of a target. With `wait` and `fail` the target stays unchanged. */
export type DesiredState =
  | ({ readonly kind: 'wait'; readonly for: WaitsFor } & Cause)
  | ({ readonly kind: 'fail' } & Cause)
  | {
      readonly kind: 'be';
      readonly labels: FieldPatch;
      readonly annotations: FieldPatch;
      /** Annotations that are written with any write. A difference in them alone causes no write. */
      readonly bookkeeping: FieldPatch;
      /** Labels that are written with any write. A difference in them alone causes no write. Default: none. */
      readonly bookkeepingLabels?: FieldPatch;
      /** `source`: the content of the source. `keep`: unchanged. `minimal`: the least that the type allows. */
      readonly data: 'source' | 'keep' | 'minimal';
      /** `undefined`: the type of the source (for `minimal` in an existing target: its own type). '': any type. */
      readonly type?: string;
      /** `undefined`: unchanged. An immutable Secret never becomes mutable, and the API server refuses other data. */
      readonly immutable?: boolean;
      /** All owner references of the target; `undefined`: unchanged. */
      readonly ownerReferences?: readonly OwnerReference[];
      /** The outcome of a target that is in its desired state, but cannot be all that the user requested. */
      readonly remark?: Waiting | Failed;
    };

/** The desired state of a target that is written. */
export type DesiredObject = Extract<DesiredState, { kind: 'be' }>;

/** Targets stay unchanged until a watch or GET has shown their source. */
export const UNREAD: DesiredState = {
  kind: 'wait',
  for: 'watch',
  ...nobodyCause('Pending', 'the source has not been read yet'),
};

/** The desired state of a target that stays unchanged because of a failure. */
export function failing(cause: Cause): DesiredState {
  return { kind: 'fail', ...causeOf(cause) };
}

/** A controller's pure function for the desired state of targets. Claims of a rule with equal shapes share one. */
export interface Shape {
  /** Shapes with the same id desire the same state. */
  readonly id: string;
  /** The part of the source's content that the target gets. Default: all. */
  readonly selection?: KeySelection | undefined;
  /** Does the slow work of `desiredState` for a source in steps; `undefined`: none is due. Absent if there is none. */
  readonly warmUp?: ((source: SourceView) => Steps<void> | undefined) | undefined;
  desiredState(source: SourceView, observed: Observed | undefined, now: number): DesiredState;
  /** The version of the source that the target holds, according to its annotations. */
  heldVersion(observed: Observed): string | undefined;
}

/**
 * The event that a claim waits for.
 * - `watch`: a watch or GET will report the state of the source or target.
 * - `source`: the source does not exist. `content`: the source is empty.
 * - `target`: the target is being deleted, its cluster cannot be used, or there is no login for it.
 * - `namespace`: the namespace of the target does not exist, or is being deleted.
 */
export type WaitsFor = 'watch' | 'source' | 'content' | 'target' | 'namespace';

/** The claim cannot be carried out until something else happens. */
export interface Waiting extends Cause {
  readonly state: 'waiting';
  readonly for: WaitsFor;
}

/** The last try failed, and the claim will be tried again. */
export interface Failed extends Cause {
  readonly state: 'error';
}

/**
 * The outcome of a claim.
 * - `pending`: not tried yet. `synced`: the target is in its desired state.
 * - `conflict`: the target belongs to another owner. `released`: a release claim is done.
 */
export type Outcome =
  | Waiting
  | Failed
  | ({ readonly state: 'pending' | 'synced' | 'conflict' } & Cause)
  /** `kept`: the target stays, because it is the source of other copies. */
  | ({ readonly state: 'released'; readonly kept?: true } & Cause);

export type OutcomeState = Outcome['state'];

export const PENDING: Outcome = { state: 'pending', ...nobodyCause('Pending', '') };
export const SYNCED: Outcome = { state: 'synced', ...nobodyCause('Synced', '') };
export const RELEASED: Outcome = { state: 'released', ...nobodyCause('Released', '') };

export function sameOutcome(a: Outcome, b: Outcome): boolean {
  if (a.state === 'waiting' && b.state === 'waiting' && a.for !== b.for) return false;
  return a.state === b.state && sameCause(a, b);
}

/** Whether the claim has no final outcome: nothing was tried yet, or a watch will report soon. */
export function isUnderWay(outcome: Outcome): boolean {
  return outcome.state === 'pending' || (outcome.state === 'waiting' && outcome.for === 'watch');
}

/** The desired state of the copies of a rule that is not valid: unchanged, with a reason. */
export class LeaveShape implements Shape {
  readonly id: string;
  readonly #desired: DesiredState;

  constructor(cause: Cause) {
    this.id = `leave ${cause.reason} ${cause.message}`;
    this.#desired = failing(cause);
  }

  desiredState(): DesiredState {
    return this.#desired;
  }

  heldVersion(): undefined {
    return undefined;
  }
}

/** Claims that keep the copies of a rule unchanged. */
export function leavingClaims(owner: Owner, targets: Iterable<ResourceKey>, cause: Cause): Claimed[] {
  return claimAll(targets, { owner, mode: 'own', source: undefined, shape: new LeaveShape(cause) });
}

/**
 * The view of a source in a cluster: the same for the operator and for the short commands.
 * @param observed `undefined`: there is no such object, as far as is known
 * @param isKnown whether an object that exists would be known
 */
export function sourceView(source: ResourceKey, observed: Observed | undefined, isKnown: () => boolean): SourceView {
  if (observed !== undefined) {
    const { labels, annotations } = observed;
    return { state: 'present', version: contentVersion(observed), labels, annotations };
  }
  if (!isKnown()) return { state: 'unknown' };
  const { kind, namespace, name } = parseResourceKey(source);
  const message = `${kind.toLowerCase()} ${namespace}/${name} not found, waiting to appear`;
  return { state: 'missing', ...userCause(`No${kind}`, message) };
}
