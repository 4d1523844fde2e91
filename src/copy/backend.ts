/**
 * The first seam of the engine: a place that holds content, as source and as target. A Kubernetes cluster is one
 * (`copy/cluster/backend.ts`), Vault is another (`copy/vault/backend.ts`).
 *
 * The engine uses backends by this interface alone. Each has its own queues and its own start, so that a backend that does not answer
 * delays no other.
 */
import type { WatchHealth } from '../kube/watch/watcher.ts';
import type { RunResult } from '../runtime/queue/keyed-queue-options.ts';
import type { ClusterEvents } from './cluster/cluster.ts';
import type { Claim } from './model/claim.ts';
import type { ResourceKey } from './model/keys.ts';
import type { Flow } from './plan/cycles.ts';
import type { SourceReader } from './sources.ts';

export interface Backend {
  /** First part of its resource keys: a cluster's name, or `vault`. */
  readonly name: string;
  sourcesOf(source: ResourceKey): SourceProvider;
  targetsOf(target: ResourceKey): TargetWriter;
  /** Targets that are reconciled at once in each lane. */
  readonly concurrency: number;
  /** The queue lane of a target. Lanes do not wait for each other. Without this method all targets share one lane. */
  laneOf?(target: ResourceKey): string;
  /** How long the server asked us to wait, ms, where the error is not one of the Kubernetes API. */
  readonly retryAfterMs?: (error: unknown) => number | undefined;
  /** The longest wait after an error of this backend that passes by itself, ms. */
  readonly longestWaitMs?: (error: unknown) => number | undefined;
  /** @see ClusterEvents: of any cluster, because credentials may be there. */
  objectChanged?: ClusterEvents['objectChanged'];
  objectKnown?: ClusterEvents['objectKnown'];
  /** Settles when enough is known to reconcile targets: every watch that was opened so far is listed. */
  synced(): Promise<void>;
  readonly watches: readonly BackendWatch[];
  /** Queues besides the engine's. */
  readonly queues?: readonly QueueFigures[];
  /** Size of the contents in the cache. */
  readonly cachedBytes: number;
  /** First half of a stop: running work ends. */
  drain?(): Promise<void>;
  /** Second half, when nothing is reconciled any more. */
  stop(limitMs: number): Promise<void>;
}

/** Sources that are followed on request. */
export interface SourceProvider extends SourceReader {
  follow(source: ResourceKey): void;
  unfollow(source: ResourceKey): void;
}

export interface TargetWriter {
  reconcile(target: ResourceKey, signal: AbortSignal): Promise<RunResult | undefined>;
  /** Whether a claim would write its source's content into its target now. Without I/O. */
  flowOf(claim: Claim): Flow;
  /** `reconcile` failed, and does not seem to recover by itself. */
  failed(target: ResourceKey, error: unknown): void;
}

export interface QueueFigures {
  readonly name: string;
  readonly depth: number;
  readonly oldestWaitingMs: number;
  readonly retries: number;
}

/** A watch as it stands. */
export interface BackendWatch extends WatchHealth {
  /** What the user can do about its failure. */
  readonly advice?: string | undefined;
  /** There is nothing to watch, and the process is ready without it. */
  readonly isExcused?: boolean;
}
