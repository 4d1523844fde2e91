/** A cluster as sources and targets: picks the store of the kind that a key names. */
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import type { Claim, SourceView } from '../model/claim.ts';
import type { Cluster } from './cluster.ts';
import type { Content } from '../model/content.ts';
import type { Flow } from '../plan/cycles.ts';
import { parseResourceKey, type ResourceKey } from '../model/keys.ts';
import { CONFIG_MAP, type Kind, SECRET } from '../model/kind.ts';
import type { KubeStore } from './store.ts';
import { TargetReconciler, type TargetReconcilerOptions } from './target-reconciler.ts';
import type { Fingerprint } from '../model/fingerprint.ts';
import type { SourceProvider } from '../sources.ts';
import type { TargetBackend } from '../rule-reconciler.ts';

export interface ClusterBackendOptions extends Omit<TargetReconcilerOptions, 'store'> {
  /** The kinds that can be copied. Default: Secrets and ConfigMaps. */
  readonly kinds?: readonly Kind[];
}

export class ClusterBackend implements SourceProvider, TargetBackend {
  readonly #cluster: Cluster;
  readonly #options: Omit<TargetReconcilerOptions, 'store'>;
  readonly #kinds: ReadonlyMap<string, Kind>;
  readonly #targets = new Map<string, TargetReconciler>();

  constructor(cluster: Cluster, options: ClusterBackendOptions) {
    this.#cluster = cluster;
    this.#options = options;
    this.#kinds = new Map((options.kinds ?? [SECRET, CONFIG_MAP]).map((kind) => [kind.kind, kind]));
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
    return await this.#of(target).reconcile(target, signal);
  }

  flowOf(claim: Claim): Flow {
    return this.#of(claim.target).flowOf(claim);
  }

  failed(target: ResourceKey, error: unknown): void {
    this.#of(target).failed(target, error);
  }

  /** The object behind `target` is gone. */
  left(target: ResourceKey): void {
    this.#targets.get(parseResourceKey(target).kind)?.left(target);
  }

  #of(target: ResourceKey): TargetReconciler {
    const { kind } = parseResourceKey(target);
    let targets = this.#targets.get(kind);
    if (targets === undefined) {
      targets = new TargetReconciler({ ...this.#options, store: this.#store(target) });
      this.#targets.set(kind, targets);
    }
    return targets;
  }

  #store(key: ResourceKey): KubeStore {
    const kind = this.#kinds.get(parseResourceKey(key).kind);
    if (kind === undefined) throw new TypeError(`not a kind that is copied: ${key}`);
    return this.#cluster.store(kind);
  }
}
