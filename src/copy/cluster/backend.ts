/** A Kubernetes cluster as a backend: its objects as sources and targets, by their kind. */
import { isForbidden, isUnauthorized } from '../../kube/errors.ts';
import type { Backend, OnObjectChange, TargetQueueing, TargetWriter } from '../engine/backend.ts';
import type { Engine } from '../engine/engine.ts';
import { type ObjectKey, parseResourceKey } from '../model/keys.ts';
import type { Kind } from '../model/kind.ts';
import type { Observed } from '../model/observed.ts';
import { Cluster, type ClusterOptions } from './cluster.ts';
import type { KubeStore } from './objects/store.ts';
import { RemoteTargets } from './write/remote-targets.ts';
import { TargetReconciler, type TargetReconcilerOptions } from './write/target-reconciler.ts';

export interface ClusterBackendOptions extends Omit<ClusterOptions, 'events'> {
  readonly engine: Engine;
  readonly onWrite: TargetReconcilerOptions['onWrite'];
  /** The kinds that can be copied. */
  readonly kinds: readonly Kind[];
  /** Targets that are reconciled at once. */
  readonly concurrency: number;
  /** This process runs in the cluster. */
  readonly isHome: boolean;
}

/** Longest wait after a refusal by another cluster, ms. */
const REFUSED_WAIT_MS = 30_000;

export class ClusterBackend extends Cluster implements Backend {
  readonly name: string;
  readonly queueing: TargetQueueing;
  readonly queues = [];
  readonly #options: ClusterBackendOptions;
  readonly #reconcilers = new Map<string, TargetReconciler>();
  /** The reconcilers, with `RemoteTargets` before them if this is not the home cluster. */
  readonly #writers = new Map<string, TargetReconciler | RemoteTargets>();
  #isListed = false;

  constructor(options: ClusterBackendOptions) {
    const { engine, isHome } = options;
    const objectChanged: OnObjectChange = (key, before, after, ...how) => {
      this.#objectChanged(key, before, after);
      engine.objectChanged(key, before, after, ...how);
    };
    super({ ...options, events: { objectChanged, objectKnown: (key) => engine.objectKnown(key) } });
    this.#options = options;
    this.name = options.api.cluster;
    this.queueing = {
      name: isHome ? 'targets' : `targets ${this.name}`,
      concurrency: options.concurrency,
      laneOf: undefined,
      // All copies of a tenant are in one namespace of another cluster.
      shareBy: isHome ? 'target' : 'rule',
      retryAfterMs: () => undefined,
      // An administrator of the other cluster may give the permission at any time.
      longestWaitMs: (error) =>
        !isHome && (isForbidden(error) || isUnauthorized(error)) ? REFUSED_WAIT_MS : undefined,
    };
    this.onReachableChange(() => this.#retryWaiting());
  }

  /** Targets of another cluster that turns out to be unreachable can be reconciled, too: they wait (`RemoteTargets`). */
  async ready(): Promise<void> {
    const listed = this.#listed();
    await (this.#options.isHome ? listed : Promise.race([listed, this.#foundUnreachable()]));
  }

  async drain(): Promise<void> {
    // Its work is in the queues of the engine.
  }

  sourcesOf(source: ObjectKey): KubeStore {
    const { kind: name } = parseResourceKey(source);
    const kind = this.#options.kinds.find(({ kind }) => kind === name);
    if (kind === undefined) throw new TypeError(`not a kind that is copied: ${source}`);
    return this.store(kind);
  }

  targetsOf(target: ObjectKey): TargetWriter {
    const { kind } = parseResourceKey(target);
    return this.#writers.get(kind) ?? this.#openWriter(kind, this.sourcesOf(target));
  }

  #objectChanged(key: ObjectKey, before: Observed | undefined, after: Observed | undefined): void {
    if (after !== undefined && (before === undefined || before.uid === after.uid)) return;
    this.#reconcilers.get(parseResourceKey(key).kind)?.objectGone(key);
  }

  #openWriter(kind: string, store: KubeStore): TargetWriter {
    const { engine, onWrite, clock, isHome } = this.#options;
    const reconciler = new TargetReconciler({
      store,
      isHome,
      claims: engine.claims,
      sources: engine.backends,
      hasNamespace: (name) => this.hasNamespace(name),
      orphanActionOf: engine.orphanActionOf,
      onOutcome: (...change) => engine.outcomeChanged(...change),
      onWrite,
      now: () => clock.now(),
    });
    this.#reconcilers.set(kind, reconciler);
    const writer = isHome ? reconciler : this.#waitingFor(reconciler);
    this.#writers.set(kind, writer);
    return writer;
  }

  #waitingFor(targets: TargetReconciler): RemoteTargets {
    return new RemoteTargets({
      cluster: this.name,
      targets,
      unreachable: () => this.unreachable,
      isListed: () => this.#isListed,
      retry: (target) => this.#options.engine.retryTarget(target),
    });
  }

  async #listed(): Promise<void> {
    await this.synced();
    this.#isListed = true;
    this.#retryWaiting();
  }

  #retryWaiting(): void {
    for (const writer of this.#writers.values()) if (writer instanceof RemoteTargets) writer.retryWaiting();
  }

  async #foundUnreachable(): Promise<void> {
    if (this.unreachable !== undefined) return;
    await new Promise<void>((resolve) => this.onReachableChange(() => resolve()));
  }
}
