/** What a source asks for in other clusters, which the annotation `sync-contexts` names by contexts. Pure. */
import { type Cause, nobodyCause } from '../../copy/model/cause.ts';
import { resourceKey, type ResourceKey } from '../../copy/model/keys.ts';
import { illFormed, type Place } from '../common/annotated/values.ts';
import { isItself, NAMES } from './words.ts';

/** Another cluster that a source may name, by its context. */
export interface OtherTarget {
  /** Name of its backend. */
  readonly cluster: string;
  /** The namespace of the context; `undefined`: that of the source. */
  readonly namespace: string | undefined;
}

/** The clusters as far as they are known. */
export interface Clusters {
  /** By context. */
  readonly others: ReadonlyMap<string, OtherTarget>;
  /** The uid of a cluster, by the name of its backend; `undefined`: not read yet; a cause: why it is not known. */
  readonly uidOf: (cluster: string) => string | Cause | undefined;
  /** The backend through which the cluster with this uid is written: several contexts may lead to one cluster. */
  readonly backendOf: (uid: string) => string | undefined;
}

/** What a source asks for in other clusters. */
export interface Far {
  readonly keys: readonly ResourceKey[];
  /** Mistakes. With one, nothing is written in other clusters. */
  readonly problems: readonly Cause[];
  /** Why it is not known which cluster a context leads to. The copies there stay as they are. */
  readonly unknown: readonly Cause[];
}

export const UNIDENTIFIED = nobodyCause('Pending', 'it is not known yet which cluster it is');

/** @param home name of the backend of this cluster @param clusters `undefined`: nothing is evaluated */
export function farOf(
  { contexts, kind, place }: { readonly contexts: readonly string[]; readonly kind: string; readonly place: Place },
  clusters: Clusters | undefined,
  home: string,
): Far {
  const far = { keys: new Array<ResourceKey>(), problems: new Array<Cause>(), unknown: new Array<Cause>() };
  if (clusters === undefined || contexts.length === 0) return far;
  const { others, uidOf, backendOf } = clusters;
  const own = uidOf(home) ?? UNIDENTIFIED;
  const known = new Map<string, string>();
  for (const context of contexts) {
    const other = others.get(context);
    const uid = other && (uidOf(other.cluster) ?? UNIDENTIFIED);
    if (other === undefined || uid === undefined) {
      const why = others.size === 0 ? 'there is no --kubeconfig-file' : 'the kubeconfig has no such context';
      far.problems.push(illFormed(NAMES.contexts, context, why));
    } else if (typeof own !== 'string') far.unknown.push(own);
    else if (typeof uid !== 'string') far.unknown.push(uid);
    else if (uid === own) far.problems.push(isItself(context));
    else if (known.has(uid)) {
      const first = JSON.stringify(known.get(uid));
      far.problems.push(illFormed(NAMES.contexts, context, `it is the same cluster as ${first}`));
    } else {
      known.set(uid, context);
      const backend = backendOf(uid) ?? other.cluster;
      far.keys.push(resourceKey(backend, kind, other.namespace ?? place.namespace, place.name));
    }
  }
  return far;
}

/** A text that changes with what `farOf` reads of the clusters. */
export function clustersText(contexts: readonly string[], clusters: Clusters | undefined, home: string): string {
  if (clusters === undefined || contexts.length === 0) return '';
  const names = [home, ...contexts.map((context) => clusters.others.get(context)?.cluster ?? '')];
  return JSON.stringify(
    names.map((name) => {
      const uid = clusters.uidOf(name) ?? '';
      return typeof uid === 'string' ? [uid, clusters.backendOf(uid) ?? ''] : [uid.message];
    }),
  );
}
