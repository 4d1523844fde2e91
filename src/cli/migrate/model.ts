/** What `keyferry migrate` finds, system by system. */
import type { Annotations, AnnotationNames } from '../../controllers/replicator/annotations.ts';
import type { ResourceKey } from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { KubeApi } from '../../kube/api.ts';

/** The programs that Keyferry replaces, by the names that `--from` takes. */
export const SYSTEMS = [
  'mirrors',
  'k8s-replicator',
  'kubelb',
  'reflector',
  'kubernetes-replicator',
  'config-syncer',
] as const;

export type System = (typeof SYSTEMS)[number];

/**
 * - `change`: `--apply` writes it.
 * - `manual`: somebody must decide or write something.
 * - `difference`: it goes on, but not in the same way.
 * - `leftover`: a copy that nothing will update any more.
 * - `unsupported`: Keyferry cannot do it.
 */
export type Verdict = 'change' | 'manual' | 'difference' | 'leftover' | 'unsupported';

/** An object, as the report names it. */
export interface Place {
  readonly kind: string;
  /** '' for an object without a namespace. */
  readonly namespace: string;
  readonly name: string;
}

export interface Finding {
  readonly verdict: Verdict;
  readonly object: Place;
  readonly text: string;
}

/** Annotations that `--apply` adds to an object. */
export interface Change {
  readonly object: ResourceKey;
  readonly annotations: Annotations;
  readonly text: string;
  /** The object is a copy of this source, and is changed only once the source is. */
  readonly source?: ResourceKey;
}

/** Another write of `--apply`. */
export interface Step {
  readonly object: Place;
  readonly text: string;
  /** @throws the errors of `api.request` */
  readonly write: (api: KubeApi, signal: AbortSignal | undefined) => Promise<void>;
}

/** What one system has in the cluster. */
export interface Found {
  /** Objects that request copies. */
  readonly rules: number;
  /** Objects that the other program made or fills. */
  readonly copies: number;
  readonly findings: readonly Finding[];
  readonly changes: readonly Change[];
  /** In their order, before the changes. */
  readonly steps: readonly Step[];
}

/** The cluster, as far as the analysis of annotated objects needs it. */
export interface View {
  /** Secrets and ConfigMaps. */
  readonly objects: ReadonlyMap<ResourceKey, Observed>;
  /** Names of namespaces. */
  readonly namespaces: readonly string[];
  /** The annotations that Keyferry's replicator reads here. */
  readonly names: AnnotationNames;
}
