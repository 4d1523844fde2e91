/**
 * The watches of the copies of SecretMirrors: of Secrets from the start, and of ConfigMaps from the first mirror of a ConfigMap on. Without one,
 * Keyferry needs no rights to ConfigMaps. A change of a copy wakes the same for all controllers: see `Engine.objectChanged`.
 */
import type { Cluster } from '../../copy/cluster/cluster.ts';
import { CONFIG_MAP, type Kind, SECRET } from '../../copy/model/kind.ts';
import type { WatchGroup } from '../../kube/watch/watch-group.ts';
import { COPY_LABEL } from '../common/excluded-metadata.ts';
import { MIRRORS_CONTROLLER } from './api.ts';

export class WatchedCopies {
  readonly #cluster: Cluster;
  readonly #watches: WatchGroup[] = [];
  #hasConfigMaps = false;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /** Settles when all copies have been listed, and the other watches. */
  async listed(): Promise<void> {
    await Promise.all(this.#watches.map(async (watch) => await watch.synced));
  }

  /** @param others watches that `listed` waits for, too */
  open(...others: readonly WatchGroup[]): void {
    this.#watches.push(...others, this.#watch(SECRET, false));
  }

  /** Without the rights, the mirrors of ConfigMaps report the refusal, and no other rule waits. */
  watchConfigMaps(): void {
    if (this.#hasConfigMaps) return;
    this.#hasConfigMaps = true;
    this.#watches.push(this.#watch(CONFIG_MAP, true));
  }

  #watch(kind: Kind, isOptional: boolean): WatchGroup {
    const target = {
      collection: kind.plural,
      scope: 'copies',
      path: `${kind.groupPath}/${kind.plural}`,
      labelSelector: `${COPY_LABEL}=${MIRRORS_CONTROLLER}`,
      metadataOnly: true,
      inPages: true,
    };
    const { sink } = this.#cluster.store(kind).index.feed();
    return this.#cluster.watch(target, sink, { isOptional }, this.#cluster.served);
  }
}
