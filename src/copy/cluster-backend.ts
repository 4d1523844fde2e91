/** A cluster as sources and targets: picks the store of the kind that a key names. */
import type { RunResult } from '../runtime/keyed-queue-options.ts';
import type { Claim, SourceView } from './claim.ts';
import type { Cluster } from './cluster.ts';
import type { Content } from './content.ts';
import type { Flow } from './cycles.ts';
import { parseHolderKey, type HolderKey } from './keys.ts';
import { CONFIG_MAP, type Kind, SECRET } from './kind.ts';
import type { KubeStore } from './kube-store.ts';
import { KubeTargets, type KubeTargetsOptions } from './kube-targets.ts';
import type { Gist } from './plan.ts';
import type { SourceProvider } from './sources.ts';
import type { TargetBackend } from './system.ts';

export interface ClusterBackendOptions extends Omit<KubeTargetsOptions, 'store'> {
  /** The kinds that can be copied. Default: Secrets and ConfigMaps. */
  readonly kinds?: readonly Kind[];
}

export class ClusterBackend implements SourceProvider, TargetBackend {
  readonly #cluster: Cluster;
  readonly #options: Omit<KubeTargetsOptions, 'store'>;
  readonly #kinds: ReadonlyMap<string, Kind>;
  readonly #targets = new Map<string, KubeTargets>();

  constructor(cluster: Cluster, options: ClusterBackendOptions) {
    this.#cluster = cluster;
    this.#options = options;
    this.#kinds = new Map((options.kinds ?? [SECRET, CONFIG_MAP]).map((kind) => [kind.kind, kind]));
  }

  view(source: HolderKey): SourceView {
    return this.#store(source).view(source);
  }

  gist(source: HolderKey): Gist | undefined {
    const view = this.view(source);
    return view.state === 'present' ? this.#store(source).gist(source, view.version) : undefined;
  }

  async load(source: HolderKey, signal: AbortSignal): Promise<Content | undefined> {
    const view = this.view(source);
    return view.state === 'present' ? await this.#store(source).load(source, view.version, signal) : undefined;
  }

  want(source: HolderKey): void {
    this.#store(source).want(source);
  }

  forget(source: HolderKey): void {
    this.#store(source).forget(source);
  }

  async reconcile(target: HolderKey, signal: AbortSignal): Promise<RunResult | undefined> {
    return await this.#of(target).reconcile(target, signal);
  }

  flowOf(claim: Claim): Flow {
    return this.#of(claim.target).flowOf(claim);
  }

  failed(target: HolderKey, error: unknown): void {
    this.#of(target).failed(target, error);
  }

  /** The object behind `target` is gone. */
  left(target: HolderKey): void {
    this.#targets.get(parseHolderKey(target).kind)?.left(target);
  }

  #of(target: HolderKey): KubeTargets {
    const { kind } = parseHolderKey(target);
    let targets = this.#targets.get(kind);
    if (targets === undefined) {
      targets = new KubeTargets({ ...this.#options, store: this.#store(target) });
      this.#targets.set(kind, targets);
    }
    return targets;
  }

  #store(key: HolderKey): KubeStore {
    const kind = this.#kinds.get(parseHolderKey(key).kind);
    if (kind === undefined) throw new TypeError(`not a kind that is copied: ${key}`);
    return this.#cluster.store(kind);
  }
}
