/** A Kubernetes cluster as a backend: its objects as sources and targets, by their kind. */
import type { Clock } from '../../runtime/clock.ts';
import type { Backend } from '../backend.ts';
import type { Engine } from '../engine.ts';
import { backendOf, parseResourceKey, type ResourceKey } from '../model/keys.ts';
import type { Kind } from '../model/kind.ts';
import type { Observed } from '../model/observed.ts';
import { Cluster, type ClusterOptions } from './cluster.ts';
import type { KubeStore } from './store.ts';
import { TargetReconciler, type TargetReconcilerOptions } from './target-reconciler.ts';

export interface ClusterBackendOptions extends ClusterOptions {
  readonly engine: Engine;
  readonly onWrite: TargetReconcilerOptions['onWrite'];
  /** The kinds that can be copied. */
  readonly kinds: readonly Kind[];
  /** Targets that are reconciled at once. */
  readonly concurrency: number;
  readonly clock: Clock;
  /** This process runs in the cluster. */
  readonly isHome: boolean;
}

export class ClusterBackend extends Cluster implements Backend {
  readonly name: string;
  readonly queueName: string;
  readonly concurrency: number;
  readonly #options: ClusterBackendOptions;
  readonly #reconcilers = new Map<string, TargetReconciler>();

  constructor(options: ClusterBackendOptions) {
    super(options);
    this.#options = options;
    this.name = options.api.cluster;
    this.queueName = options.isHome ? 'targets' : `targets ${this.name}`;
    this.concurrency = options.concurrency;
  }

  sourcesOf(source: ResourceKey): KubeStore {
    const { kind: name } = parseResourceKey(source);
    const kind = this.#options.kinds.find(({ kind }) => kind === name);
    if (kind === undefined) throw new TypeError(`not a kind that is copied: ${source}`);
    return this.store(kind);
  }

  targetsOf(target: ResourceKey): TargetReconciler {
    const { kind } = parseResourceKey(target);
    return this.#reconcilers.get(kind) ?? this.#openReconciler(kind, this.sourcesOf(target));
  }

  #openReconciler(kind: string, store: KubeStore): TargetReconciler {
    const { engine, onWrite, clock } = this.#options;
    const reconciler = new TargetReconciler({
      store,
      claims: engine.claims,
      sources: engine.sources,
      hasNamespace: (name) => this.hasNamespace(name),
      orphanActionOf: engine.orphanActionOf,
      onOutcome: (...change) => engine.outcomeChanged(...change),
      onWrite,
      now: () => clock.now(),
    });
    this.#reconcilers.set(kind, reconciler);
    return reconciler;
  }

  objectChanged(key: ResourceKey, before: Observed | undefined, after: Observed | undefined): void {
    if (backendOf(key) !== this.name) return;
    if (after !== undefined && (before === undefined || before.uid === after.uid)) return;
    this.#reconcilers.get(parseResourceKey(key).kind)?.objectGone(key);
  }
}
