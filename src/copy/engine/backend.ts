/**
 * The interface of a backend, which holds content as source and as target: a Kubernetes cluster
 * (`copy/cluster/cluster.ts`) or Vault (`copy/vault/backend.ts`). The engine uses backends by this interface alone.
 * Each backend has its own queues and its own start, so that a backend that does not respond delays no other.
 */
import type { WatchHealth } from '../../kube/watch/watch-target.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue.ts';
import type { ObjectKey, ResourceKey } from '../model/keys.ts';
import type { NamedQueue } from './controller.ts';
import type { Observed } from '../model/observed.ts';
import type { Contest } from '../plan/facts.ts';
import type { SourceView } from '../model/claim.ts';
import type { Content, Fingerprint } from '../model/content.ts';

export interface Backend {
  /** First part of the backend's resource keys: the name of a cluster, or `vault`. */
  readonly name: string;
  readonly queueing: TargetQueueing;
  sourcesOf(source: ResourceKey): SourceProvider;
  targetsOf(target: ResourceKey): TargetWriter;
  /** Settles when every watch that is open now is listed; rejects if the backend is stopped before. Absent in Vault. */
  synced?(): Promise<void>;
  /** Settles when targets can be reconciled; rejects as `synced`. Absent in Vault, where each target itself logs in. */
  ready?(): Promise<void>;
  readonly watches: readonly WatchHealth[];
  /** Queues of the backend, besides those of the engine. */
  readonly queues: readonly NamedQueue[];
  /** Memory that the cached contents take, bytes. */
  readonly cachedBytes: number;
  /** First part of a stop: waits for the work that is not in the queues of the engine. */
  drain?(): Promise<void>;
  /** Second part of a stop, after the queues have stopped. */
  stop(limitMs: number): Promise<void>;
}

/** How the targets of a backend are queued. */
export interface TargetQueueing {
  /** Name of the queues in metrics: `targets`. */
  readonly name: string;
  /** Most targets that are reconciled at the same time in each lane. */
  readonly concurrency: number;
  /** The target's lane, a queue that does not wait for others (Vault: one for each server). `undefined`: one lane. */
  readonly laneOf: ((target: ResourceKey) => string) | undefined;
  /**
   * Which namespaces share the workers of a lane, so that slow writes of one delay no other: those of the targets, or,
   * where these differ too little, those of the targets' rules.
   */
  readonly shareBy: 'target' | 'rule';
  /** Longest wait after a transient error of this backend, ms; `undefined`: another error. */
  readonly longestWaitMs: (error: unknown) => number | undefined;
}

/**
 * Called for each change of an object. `before` or `after` is undefined if the object was or is unknown. `own`: the
 * response to Keyferry's own write shows the change. The run that wrote enqueues the target itself if more has to be done.
 */
export type OnObjectChange = (
  key: ObjectKey,
  before: Observed | undefined,
  after: Observed | undefined,
  own?: boolean,
) => void;

/** Receives the events of all objects in all clusters. */
export interface ObjectEvents {
  readonly objectChanged: OnObjectChange;
  /** Called when a list or GET has shown whether the object exists, or when the server refuses both. */
  readonly objectKnown: (key: ObjectKey) => void;
}

/** Gives the sources of a backend. A source is watched or polled only between `follow` and `unfollow`. */
export interface SourceProvider {
  /** The state of a source, from memory alone. */
  view(source: ResourceKey | undefined): SourceView;
  /** The fingerprint of the source's content at the version that `view` gives; `undefined`: this was not read yet. */
  fingerprint(source: ResourceKey | undefined): Fingerprint | undefined;
  /** Reads the content at the version that `view` gives, or a newer one, which `view` then gives. `undefined`: gone. */
  load(source: ResourceKey, signal: AbortSignal): Promise<Content | undefined>;
  follow(source: ResourceKey): void;
  unfollow(source: ResourceKey): void;
}

export interface TargetWriter {
  reconcile(target: ResourceKey, signal: AbortSignal): Promise<RunResult | undefined>;
  /** What is known about the claims on a target, from memory alone. @see CyclesOptions.contestOf */
  contestOf(target: ResourceKey): Contest;
  /** Called if `reconcile` fails repeatedly, or with an error that is not transient. Reports the error to the rules. */
  failed(target: ResourceKey, error: unknown): void;
}
