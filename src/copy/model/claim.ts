/**
 * A claim says that its owner (a rule) wants a target to have the content of a source, in a given shape. It is pure
 * data. Controllers make claims from rules. The engine reconciles the targets and records the outcome of each claim.
 */
import { because, type Cause, causeOf, sameCause, userCause } from './cause.ts';
import { type ResourceKey, type RuleKey, parseResourceKey } from './keys.ts';
import type { OwnerReference } from '../../kube/api.ts';
import type { KeySelection } from './key-selection.ts';
import { type Observed, contentVersion } from './observed.ts';

export interface Owner {
  readonly key: RuleKey;
  /** The owner's name for people: `SecretMirror default/mysecret-mirror`. */
  readonly title: string;
  /** If several owners claim the same target, the one with the smallest rank wins. @see rankOf */
  readonly rank: string;
}

/** Rank by the age of rules: creationTimestamp, then uid. */
export function rankOf(creationTimestamp: string, uid: string): string {
  return `${creationTimestamp} ${uid}`;
}

/**
 * - `own`: Keyferry creates and deletes the target.
 * - `fill`: the target is an object of a user, and Keyferry fills its data.
 * - `release`: the owner is being deleted; if the target has the owner's mark, the target is deleted.
 */
export type ClaimMode = 'own' | 'fill' | 'release';

/** If a rule wants the same for many targets, they share one claim, because there are tens of thousands of targets. */
export interface Claim {
  readonly owner: Owner;
  readonly mode: ClaimMode;
  readonly source: ResourceKey | undefined;
  /** The source's key as a target, if it differs from `source` (in Vault). `undefined`: it is the same. */
  readonly sourcePlace?: ResourceKey | undefined;
  /** The source is the rule's own object. If this object is deleted, the claim ends. */
  readonly isRuleSource?: true | undefined;
  /**
   * Set if the source is the rule's own object, and the rule's status reports its generation. A new generation makes a
   * new claim, so that each outcome belongs to one generation.
   */
  readonly sourceGeneration?: number | undefined;
  /**
   * The keys of the source that the target gets. Default: all. The id of the shape must contain `selection.id`, and
   * `heldVersion` must not answer for a target with other keys.
   */
  readonly selection?: KeySelection | undefined;
  readonly shape: Shape;
}

/** A target with the claim on it. */
export interface Claimed {
  readonly target: ResourceKey;
  readonly claim: Claim;
}

/** Claims of one rule on many targets. */
export function claimAll(targets: Iterable<ResourceKey>, claim: Claim): Claimed[] {
  return Array.from(targets, (target) => ({ target, claim }));
}

/** The key that the source of a claim has as a target; `undefined`: the claim copies nothing. */
export function targetKeyOfSource({ mode, source, sourcePlace }: Claim): ResourceKey | undefined {
  return mode === 'release' ? undefined : (sourcePlace ?? source);
}

/** The Vault lease of dynamic credentials. */
export interface SourceLease {
  readonly id: string;
  /** Duration of the last grant or renewal, seconds. */
  readonly seconds: number;
  /** The login and path that the lease was made with. @see vaultLeaseOrigin */
  readonly origin: string;
  /** When the token of the lease expires if it is not renewed, ms since 1970; `undefined`: the lease needs no token. */
  readonly tokenExpiresAt: number | undefined;
}

/** The state of a source, as far as its metadata shows the state. */
export type SourceView =
  | { readonly state: 'unknown' }
  | ({ readonly state: 'missing' } & Cause)
  | ({ readonly state: 'failed' } & Cause)
  | {
      readonly state: 'present';
      /** If the version is the same, the content is the same. Another version may have other content. */
      readonly version: string;
      readonly labels: Readonly<Record<string, string>>;
      readonly annotations: Readonly<Record<string, string>>;
      readonly lease?: SourceLease;
    };

/** Changes labels or annotations by key. `null`: the key must not exist. All other keys stay unchanged. */
export type FieldPatch = Readonly<Record<string, string | null>>;

/** The desired state of a target. `wait`, `fail`: the target stays unchanged. */
export type DesiredState = (
  | ({ readonly kind: 'wait'; readonly for: WaitsFor } & Cause)
  | ({ readonly kind: 'fail' } & Cause)
  | {
      readonly kind: 'be';
      readonly labels: FieldPatch;
      readonly annotations: FieldPatch;
      /** Annotations that are written only together with another change: a difference in them alone causes no write. */
      readonly bookkeeping: FieldPatch;
      /** As `bookkeeping`, for labels. Default: none. */
      readonly bookkeepingLabels?: FieldPatch;
      /** `source`: the source's content. `keep`: the target's own. `minimal`: the least that its type allows. */
      readonly data: 'source' | 'keep' | 'minimal';
      /** `undefined`: the source's type; with `minimal`, an existing target keeps its type. '': any type. */
      readonly type?: string;
      /** `undefined`: unchanged. An immutable Secret never becomes mutable, and cannot get other data. */
      readonly immutable?: boolean;
      /** Set: only the keys of the source are ours, and the target keeps its others. With `minimal`: it loses ours. */
      readonly merged?: Merged;
      /** All owner references of the target; `undefined`: unchanged. */
      readonly ownerReferences?: readonly OwnerReference[];
      /** The outcome if the target is in this state, but the user requested more than this. Default: `synced`. */
      readonly remark?: Waiting | Failed;
      /** The source gets its data from another source, and has none now. So with `minimal`, it may have data soon. */
      readonly isSourceEmpty?: true;
      /** Sources whose type begins so are not copied, besides those that are never copied. */
      readonly refusedTypes?: string;
      /** The shape refuses loops of `fill` claims itself, by its bookkeeping. Default: the engine finds them. */
      readonly refusesLoops?: true;
    }
) & {
  /**
   * An `own` claim may write this object of somebody else, because the object consents. `sure`: its annotations show that
   * the original made it from this source. Default: it may not.
   */
  readonly takes?: 'sure' | 'maybe' | undefined;
};

/** How a target shares its data with other clients: key by key. */
export interface Merged {
  /** The annotation of the target that lists our keys, with commas. */
  readonly listIn: string;
  /** Why nothing is written if the source has too many keys for the annotation. */
  readonly tooMany: Cause;
  /** The target is an object of a user, and is never replaced or deleted. */
  readonly isUsers?: boolean;
}

/** The keys that a target lists as ours. */
export function listedIn({ listIn }: Merged, { annotations }: Pick<Observed, 'annotations'>): readonly string[] {
  const items = annotations[listIn]?.split(',').map((item) => item.trim()) ?? [];
  return items.filter((item) => item !== '');
}

/** The desired state of a target that is to be written. */
export type DesiredObject = Extract<DesiredState, { kind: 'be' }>;

/** The desired state before a watch or GET has reported the source: unchanged. */
export const UNREAD: DesiredState = {
  kind: 'wait',
  for: 'watch',
  ...because('Pending', 'the source has not been read yet'),
};

/** The desired state if the source has changed, and its rule is about to be evaluated: unchanged. */
export const CHANGING: DesiredState = {
  kind: 'wait',
  for: 'watch',
  ...because('Pending', 'the source is being evaluated again'),
};

/** The desired state if something has failed: unchanged. */
export function failing(cause: Cause): DesiredState {
  return { kind: 'fail', ...causeOf(cause) };
}

/** A controller's pure function that gives the desired state. A rule's claims with equal shapes share one shape. */
export interface Shape {
  /** Two shapes with the same id give the same desired state. */
  readonly id: string;
  desiredState(source: SourceView, observed: Observed | undefined, now: number): DesiredState;
  /** The version of the source whose content the target has, according to the target's annotations. */
  heldVersion(observed: Observed): string | undefined;
}

/**
 * The event that a claim waits for.
 * - `watch`: a watch or GET reports the state of the source or target.
 * - `source`: the source is created. `content`: the source gets data.
 * - `target`: the deletion of the target ends, its cluster can be used again, or there is a login for it.
 * - `namespace`: the namespace of the target is created, or its deletion ends.
 */
export type WaitsFor = 'watch' | 'source' | 'content' | 'target' | 'namespace';

/** The claim waits for the event `for`. */
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
  /** `kept`: the target was not deleted, because other copies have it as their source. */
  | ({ readonly state: 'released'; readonly kept?: true } & Cause);

export type OutcomeState = Outcome['state'];

/** A copy that its rule no longer wants, and that the last try could not delete. */
export interface Undeleted {
  readonly target: ResourceKey;
  readonly outcome: Outcome;
}

export const PENDING: Outcome = { state: 'pending', ...because('Pending', '') };
export const SYNCED: Outcome = { state: 'synced', ...because('Synced', '') };
export const RELEASED: Outcome = { state: 'released', ...because('Released', '') };

export function sameOutcome(a: Outcome, b: Outcome): boolean {
  if (a.state === 'waiting' && b.state === 'waiting' && a.for !== b.for) return false;
  return a.state === b.state && sameCause(a, b);
}

/** Whether the outcome is not final: nothing was tried yet, or a watch will report soon. */
export function isUnderWay(outcome: Outcome): boolean {
  return outcome.state === 'pending' || (outcome.state === 'waiting' && outcome.for === 'watch');
}

/** The shape for copies of an invalid rule: they stay unchanged, and their outcome is the cause. */
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

/** Claims that leave the copies of an invalid rule unchanged. */
export function leavingClaims(owner: Owner, targets: Iterable<ResourceKey>, cause: Cause): Claimed[] {
  return claimAll(targets, { owner, mode: 'own', source: undefined, shape: new LeaveShape(cause) });
}

/**
 * The state of a source in a cluster. The operator and the commands (such as `plan`) use this same function.
 * @param observed `undefined`: no such object is known
 * @param isKnown whether the object would be known if it existed
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
