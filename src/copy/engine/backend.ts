/**
 * A backend holds content, as source and as target: a Kubernetes cluster (`copy/cluster/cluster.ts`) or Vault
 * (`copy/vault/backend.ts`). The engine uses backends by this interface alone. Each has its own queues and its own
 * start, so that a backend that does not respond delays no other.
 */
import type { WatchHealth } from '../../kube/watch/watch-target.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import type { ObjectKey, ResourceKey } from '../model/keys.ts';
import type { Observed } from '../model/observed.ts';
import type { Flows } from '../book/cycles.ts';
import type { SourceView } from '../model/claim.ts';
import type { Content, Fingerprint } from '../model/content.ts';

export interface Backend {
  /** First part of its resource keys: a cluster's name, or `vault`. */
  readonly name: string;
  readonly queueing: TargetQueueing;
  sourcesOf(source: ResourceKey): SourceProvider;
  targetsOf(target: ResourceKey): TargetWriter;
  /** Settles when every watch opened so far is listed; rejects if the backend is stopped before. Not in Vault. */
  synced?(): Promise<void>;
  /** Settles when targets can be reconciled; rejects as `synced`. In Vault at once: each target waits for its login. */
  ready?(): Promise<void>;
  readonly watches: readonly WatchHealth[];
  /** Queues besides the engine's. */
  readonly queues: readonly QueueFigures[];
  /** Size of the contents in the cache, bytes. */
  readonly cachedBytes: number;
  /** First part of a stop: lets work end that is not in the queues of the engine. */
  drain?(): Promise<void>;
  /** Second part, after the queues have stopped. */
  stop(limitMs: number): Promise<void>;
}

/** How the targets of a backend are queued. */
export interface TargetQueueing {
  /** For metrics: `targets`. */
  readonly name: string;
  /** Targets that are reconciled at once in each lane. */
  readonly concurrency: number;
  /** The lane of a target. Lanes do not wait for each other. `undefined`: all targets share one lane. */
  readonly laneOf: ((target: ResourceKey) => string) | undefined;
  /**
   * The namespaces that take turns in a lane: those of the targets, or those of their rules, which costs memory for
   * each target that waits.
   */
  readonly shareBy: 'target' | 'rule';
  /** The wait that the server requested, ms, for errors of other APIs than Kubernetes. */
  readonly retryAfterMs: (error: unknown) => number | undefined;
  /** The longest wait after a transient error of this backend, ms. */
  readonly longestWaitMs: (error: unknown) => number | undefined;
}

/**
 * `before` and `after` are undefined if the object was or is unknown. `initial`: the change comes from a list. `own`:
 * it is the result of an own write (a watch can report it before the response), whose run enqueues the target if it is
 * not done.
 */
export type OnObjectChange = (
  key: ObjectKey,
  before: Observed | undefined,
  after: Observed | undefined,
  initial: boolean,
  own?: boolean,
) => void;

/** The events of all objects in clusters. */
export interface ObjectEvents {
  readonly objectChanged: OnObjectChange;
  /** Called when a list or GET has shown whether the object exists, or the server refuses both. */
  readonly objectKnown: (key: ObjectKey) => void;
}

/** The sources of a backend, or a part of them. They are followed on request. */
export interface SourceProvider {
  /** The state of a source, without I/O. */
  view(source: ResourceKey | undefined): SourceView;
  /** The fingerprint of the source's content at the version of its view, if the content has been read. */
  fingerprint(source: ResourceKey | undefined): Fingerprint | undefined;
  /** The content at the version of the view, or a newer one, which the view then has too. `undefined`: it is gone. */
  load(source: ResourceKey, signal: AbortSignal): Promise<Content | undefined>;
  /** Called when the only copy of the source has its content: the values are not needed any more. */
  copied?(source: ResourceKey): void;
  follow(source: ResourceKey): void;
  unfollow(source: ResourceKey): void;
}

export interface TargetWriter {
  reconcile(target: ResourceKey, signal: AbortSignal): Promise<RunResult | undefined>;
  /** The claims that would write the content of their source into a target now. Without I/O. */
  flowsInto(target: ResourceKey): Flows;
  /** Reports to the rules that `reconcile` fails repeatedly, or with an error that is not transient. */
  failed(target: ResourceKey, error: unknown): void;
}

export interface QueueFigures {
  readonly name: string;
  readonly depth: number;
  readonly oldestWaitingMs: number;
  readonly retries: number;
}
