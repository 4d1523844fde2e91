/**
 * A claim is data: *owner wants target to hold the content of source, shaped so*. Controllers make claims from rules; the
 * engine makes them true and notes the outcome.
 */
import type { ResourceKey, RuleKey } from './keys.ts';
import type { Observed } from './observed.ts';

export interface Owner {
  readonly key: RuleKey;
  /** For people: `SecretMirror default/mysecret-mirror`. */
  readonly title: string;
  /** Orders owners that claim one target: creationTimestamp, then uid. The smallest wins. */
  readonly rank: string;
}

/**
 * - `own`: we create the target and delete it.
 * - `fill`: the target is somebody's; we fill its data.
 * - `release`: the target goes if it is the owner's, whatever it holds (the owner is being deleted).
 */
export type ClaimMode = 'own' | 'fill' | 'release';

export interface Claim {
  readonly owner: Owner;
  readonly target: ResourceKey;
  readonly mode: ClaimMode;
  readonly source: ResourceKey | undefined;
  /** What the source is called as a target, where that is another key. */
  readonly sourcePlace?: ResourceKey | undefined;
  readonly shape: Shape;
}

/** Where the content of a claim comes from, by the key that this has as a target; `undefined`: from nowhere. */
export function placeOf({ mode, source, sourcePlace }: Claim): ResourceKey | undefined {
  return mode === 'release' ? undefined : (sourcePlace ?? source);
}

/** The Vault lease of dynamic credentials. */
export interface SourceLease {
  readonly id: string;
  /** Of the last grant or renewal. */
  readonly seconds: number;
  /** The login and path that it belongs to, see `vaultLeaseOrigin`. */
  readonly origin: string;
  /** When the token of the lease ends if we do not renew it, ms since 1970; `undefined` where the lease does not depend on that. */
  readonly tokenExpiresAt: number | undefined;
}

/** What is known of a source without reading its content. */
export type SourceView =
  | { readonly state: 'unknown' }
  | { readonly state: 'missing'; readonly reason: string; readonly message: string }
  | { readonly state: 'failed'; readonly reason: string; readonly message: string }
  | {
      readonly state: 'present';
      /** Another version may mean other content. */
      readonly version: string;
      readonly labels: Readonly<Record<string, string>>;
      readonly annotations: Readonly<Record<string, string>>;
      readonly lease?: SourceLease;
    };

/** `null`: this key must not be there. Keys that are not named are not ours to touch. */
export type FieldPatch = Readonly<Record<string, string | null>>;

/** How the target should look. `wait` and `fail` leave it as it is. */
export type DesiredState =
  | { readonly kind: 'wait'; readonly for: WaitsFor; readonly reason: string; readonly message: string }
  | { readonly kind: 'fail'; readonly reason: string; readonly message: string }
  | {
      readonly kind: 'be';
      readonly labels: FieldPatch;
      readonly annotations: FieldPatch;
      /** Written along with any write, but a difference in them alone is no reason to write. */
      readonly bookkeeping: FieldPatch;
      /** `source`: the source's content. `keep`: whatever is there. `minimal`: the least that the type allows. */
      readonly data: 'source' | 'keep' | 'minimal';
      /** Type of the target; `undefined`: the source's (of `minimal` in a target that is there: its own); '': not ours to say. */
      readonly type?: string;
      /** Why the target, though as it should be, is not what its user hoped for. */
      readonly remark?: Waiting | Failed;
    };

/** A system's pure rule of how targets look. One object is shared by all claims of a rule that are shaped alike. */
export interface Shape {
  /** Two shapes with the same id want the same. */
  readonly id: string;
  desiredState(source: SourceView, observed: Observed | undefined, now: number): DesiredState;
  /** Which version of its source the target says that it holds. */
  heldVersion(observed: Observed): string | undefined;
}

/**
 * What a claim waits for.
 * - `watch`: a watch or look-up is about to report the state of the source or target.
 * - `source`: the source does not exist. `content`: the source is empty.
 * - `target`: the target or its namespace is being deleted, or there is no login for it.
 */
export type WaitsFor = 'watch' | 'source' | 'content' | 'target';

/** Not possible until something else happens. */
export interface Waiting {
  readonly state: 'waiting';
  readonly for: WaitsFor;
  readonly reason: string;
  readonly message: string;
}

/** Failed, and will be retried. */
export interface Failed {
  readonly state: 'error';
  readonly reason: string;
  readonly message: string;
}

/**
 * What became of a claim.
 * - `pending`: not tried yet. `synced`: the target is in its desired state.
 * - `conflict`: the target belongs to another owner. `released`: a release claim is done.
 */
export type Outcome =
  | Waiting
  | Failed
  | {
      readonly state: 'pending' | 'synced' | 'conflict' | 'released';
      readonly reason: string;
      readonly message: string;
    };

export type OutcomeState = Outcome['state'];

export const PENDING: Outcome = { state: 'pending', reason: 'Pending', message: '' };
export const SYNCED: Outcome = { state: 'synced', reason: 'Synced', message: '' };
export const RELEASED: Outcome = { state: 'released', reason: 'Released', message: '' };

export function sameOutcome(a: Outcome, b: Outcome): boolean {
  if (a.state === 'waiting' && b.state === 'waiting' && a.for !== b.for) return false;
  return a.state === b.state && a.reason === b.reason && a.message === b.message;
}

/** Nothing final is known of the claim: it was not tried yet, or a watch is about to report. */
export function isUnderWay(outcome: Outcome): boolean {
  return outcome.state === 'pending' || (outcome.state === 'waiting' && outcome.for === 'watch');
}
