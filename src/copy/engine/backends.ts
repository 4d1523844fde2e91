/**
 * The backends of the engine. By the first part of a key it finds the backend that reads a source or queues a target.
 *
 * Each backend has its own queues, one for each of its lanes (in Vault: for each server), so that no backend waits for
 * another. The queues accept keys from the beginning, and start when their backend is ready.
 *
 * Turns belong to those who cause the work: the namespaces of rules, and then the namespaces of the targets. Objects that
 * are filled from a source belong to the namespace of the source, because one change of it may cause the work on them
 * all. All orphans together have one turn, in which the namespaces take turns that the orphans lie in: everybody can
 * forge the mark of a rule, but only in namespaces that they may write to. Objects whose source is missing are with
 * them: everybody can name any source.
 */
import type { KeyedQueue, KeyedQueueOptions, RunResult, StopOptions } from '../../runtime/queue/keyed-queue.ts';
import { QueueLanes } from '../../runtime/queue/queue-lanes.ts';
import type { SourceView } from '../model/claim.ts';
import type { Content, Fingerprint } from '../model/content.ts';
import type { KeySelection } from '../model/key-selection.ts';
import { backendOf, namespaceOf, type ResourceKey } from '../model/keys.ts';
import type { Backend, SourceProvider } from './backend.ts';
import type { NamedQueue } from './controller.ts';

export interface BackendsOptions extends Required<Pick<KeyedQueueOptions, 'clock' | 'retryMaxMsOf'>> {
  /** The namespace in whose turn a target is decided; '': the common turn of orphans. */
  readonly turnOf: (target: ResourceKey) => string;
  readonly onError: KeyedQueueOptions<ResourceKey>['onError'];
}

/** @param since start of the target's latency; see `Worker` in `runtime/queue/keyed-queue.ts` */
type TargetWorker = (target: ResourceKey, signal: AbortSignal, since: number) => Promise<RunResult | undefined>;

interface QueuedBackend {
  readonly backend: Backend;
  readonly lanes: QueueLanes<ResourceKey>;
}

const UNKNOWN: SourceView = { state: 'unknown' };

/** The sources of all backends, for the code that writes targets. */
export type Sources = Pick<Backends, 'view' | 'fingerprint' | 'load'>;

export class Backends {
  readonly #options: BackendsOptions;
  readonly #backends = new Map<string, QueuedBackend>();
  #stopped = false;

  constructor(options: BackendsOptions) {
    this.#options = options;
  }

  add<B extends Backend>(backend: B): B {
    const { clock, retryMaxMsOf, turnOf, onError } = this.#options;
    const { name, concurrency, laneOf, shareBy, longestWaitMs } = backend.queueing;
    const lanes = new QueueLanes<ResourceKey>({
      name,
      pauses: laneOf && true,
      concurrency,
      clock,
      ownerOf: turnOf,
      groupOf: (target) => (shareBy === 'rule' && turnOf(target)) || namespaceOf(target),
      retryMaxMsOf: (error) => retryMaxMsOf(error) ?? longestWaitMs(error),
      onError,
    });
    // If there is only one lane, it is created now, so that metrics show it before its first target.
    if (laneOf === undefined) lanes.of('');
    this.#backends.set(backend.name, { backend, lanes });
    return backend;
  }

  get all(): readonly Backend[] {
    return Array.from(this.#backends.values(), ({ backend }) => backend);
  }

  /** @throws Error for the key of a backend that was not added */
  of(key: ResourceKey): Backend {
    return this.#find(key).backend;
  }

  /** The queue of a target's lane. @throws as `of` */
  queueOf(target: ResourceKey): KeyedQueue<ResourceKey> {
    const { backend, lanes } = this.#find(target);
    return lanes.of(backend.queueing.laneOf?.(target) ?? '');
  }

  get queues(): readonly NamedQueue[] {
    return Array.from(this.#backends.values(), ({ lanes }) => lanes.all).flat();
  }

  view(source: ResourceKey | undefined): SourceView {
    return this.#sources(source)?.view(source) ?? UNKNOWN;
  }

  fingerprint(source: ResourceKey | undefined): Fingerprint | undefined {
    return this.#sources(source)?.fingerprint(source);
  }

  /** As `SourceProvider.load`. `undefined` also if a key of the selection is missing; the selection remembers this. */
  async load(source: ResourceKey, signal: AbortSignal, selection?: KeySelection): Promise<Content | undefined> {
    const content = await this.of(source).sourcesOf(source).load(source, signal);
    return content === undefined || selection === undefined ? content : selection.select(content).chosen;
  }

  follow(source: ResourceKey): void {
    this.of(source).sourcesOf(source).follow(source);
  }

  unfollow(source: ResourceKey): void {
    this.of(source).sourcesOf(source).unfollow(source);
  }

  /** Starts the queues of each backend as soon as the backend is ready. */
  start(worker: TargetWorker): void {
    const startOne = async ({ backend, lanes }: QueuedBackend): Promise<void> => {
      try {
        await backend.ready?.();
      } catch (error) {
        // A stop closes the watches. Then `ready` rejects if the watches never had a complete list.
        if (this.#stopped) return;
        throw error;
      }
      lanes.start(worker);
    };
    for (const queued of this.#backends.values()) void startOne(queued);
  }

  /** @see KeyedQueue.stop */
  async stop(options: StopOptions): Promise<void> {
    this.#stopped = true;
    await Promise.all(Array.from(this.#backends.values(), ({ lanes }) => lanes.stop(options)));
  }

  #sources(source: ResourceKey | undefined): SourceProvider | undefined {
    return source === undefined ? undefined : this.#backends.get(backendOf(source))?.backend.sourcesOf(source);
  }

  #find(key: ResourceKey): QueuedBackend {
    const queued = this.#backends.get(backendOf(key));
    if (queued === undefined) throw new Error(`no backend for the key ${key}`);
    return queued;
  }
}
