/** A Kubernetes cluster as a backend: its objects as sources and targets, by their kind. */
import type { Clock } from '../../runtime/clock.ts';
import type { Backend, BackendWatch } from '../backend.ts';
import type { Engine } from '../engine.ts';
import { parseResourceKey, type ResourceKey } from '../model/keys.ts';
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
}

export class ClusterBackend implements Backend {
  readonly name: string;
  readonly concurrency: number;
  /** Its namespaces, objects and watches. */
  readonly cluster: Cluster;
  readonly #options: ClusterBackendOptions;
  readonly #reconcilers = new Map<string, TargetReconciler>();

  constructor(options: ClusterBackendOptions) {
    this.#options = options;
    this.name = options.api.cluster;
    this.concurrency = options.concurrency;
    this.cluster = new Cluster(options);
  }

  sourcesOf(source: ResourceKey): KubeStore {
    const { kind: name } = parseResourceKey(source);
    const kind = this.#options.kinds.find(({ kind }) => kind === name);
    if (kind === undefined) throw new TypeError(`not a kind that is copied: ${source}`);
    return this.cluster.store(kind);
  }

  targetsOf(target: ResourceKey): TargetReconciler {
    const { kind } = parseResourceKey(target);
    let reconciler = this.#reconcilers.get(kind);
    if (reconciler === undefined) {
      const { engine, onWrite, clock } = this.#options;
      reconciler = new TargetReconciler({
        store: this.sourcesOf(target),
        claims: engine.claims,
        sources: engine.sources,
        hasNamespace: (name) => this.cluster.namespaces.has(name),
        fateOf: async (rule, key, observed, signal) => await engine.fateOf(rule, key, observed, signal),
        onOutcome: (entry, wrote) => {
          engine.outcomeChanged(entry, wrote);
        },
        onWrite,
        now: () => clock.now(),
      });
      this.#reconcilers.set(kind, reconciler);
    }
    return reconciler;
  }

  async synced(): Promise<void> {
    await this.cluster.synced();
  }

  get watches(): readonly BackendWatch[] {
    return this.cluster.watches;
  }

  get cachedBytes(): number {
    return this.cluster.cachedBytes;
  }

  objectChanged(key: ResourceKey, before: Observed | undefined, after: Observed | undefined): void {
    if (after !== undefined && (before === undefined || before.uid === after.uid)) return;
    this.#reconcilers.get(parseResourceKey(key).kind)?.left(key);
  }

  async stop(): Promise<void> {
    await this.cluster.stop();
  }
}
