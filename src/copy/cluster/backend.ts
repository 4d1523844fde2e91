/** A Kubernetes cluster as a backend: its objects as sources and targets, by their kind. */
import type { Clock } from '../../runtime/clock.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import type { Backend, BackendWatch, SourceProvider, TargetWriter } from '../backend.ts';
import type { Engine } from '../engine.ts';
import type { Claim, SourceView } from '../model/claim.ts';
import type { Content } from '../model/content.ts';
import { parseResourceKey, type ResourceKey } from '../model/keys.ts';
import type { Kind } from '../model/kind.ts';
import type { Observed } from '../model/observed.ts';
import type { Flow } from '../plan/cycles.ts';
import type { Fingerprint } from '../model/fingerprint.ts';
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

export class ClusterBackend implements Backend, SourceProvider, TargetWriter {
  readonly name: string;
  readonly sources: SourceProvider = this;
  readonly targets: TargetWriter = this;
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

  view(source: ResourceKey): SourceView {
    return this.#store(source).view(source);
  }

  fingerprint(source: ResourceKey): Fingerprint | undefined {
    const view = this.view(source);
    return view.state === 'present' ? this.#store(source).fingerprint(source, view.version) : undefined;
  }

  async load(source: ResourceKey, signal: AbortSignal): Promise<Content | undefined> {
    const view = this.view(source);
    return view.state === 'present' ? await this.#store(source).load(source, view.version, signal) : undefined;
  }

  want(source: ResourceKey): void {
    this.#store(source).want(source);
  }

  forget(source: ResourceKey): void {
    this.#store(source).forget(source);
  }

  async reconcile(target: ResourceKey, signal: AbortSignal): Promise<RunResult | undefined> {
    return await this.#reconcilerOf(target).reconcile(target, signal);
  }

  flowOf(claim: Claim): Flow {
    return this.#reconcilerOf(claim.target).flowOf(claim);
  }

  failed(target: ResourceKey, error: unknown): void {
    this.#reconcilerOf(target).failed(target, error);
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

  #reconcilerOf(target: ResourceKey): TargetReconciler {
    const { kind } = parseResourceKey(target);
    let reconciler = this.#reconcilers.get(kind);
    if (reconciler === undefined) {
      const { engine, onWrite, clock } = this.#options;
      reconciler = new TargetReconciler({
        store: this.#store(target),
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

  #store(key: ResourceKey): KubeStore {
    const { kind: name } = parseResourceKey(key);
    const kind = this.#options.kinds.find(({ kind }) => kind === name);
    if (kind === undefined) throw new TypeError(`not a kind that is copied: ${key}`);
    return this.cluster.store(kind);
  }
}
