/**
 * The watches of the copies of SecretMirrors: of Secrets from the start, and of ConfigMaps from the first mirror of a ConfigMap on. Without one,
 * Keyferry needs no rights to ConfigMaps. A change of a copy wakes the same for all controllers: see `Engine.objectChanged`.
 */
import type { Cluster, WatchDiagnosis } from '../../copy/cluster/cluster.ts';
import { CONFIG_MAP, type Kind, SECRET } from '../../copy/model/kind.ts';
import { isForbidden } from '../../kube/errors.ts';
import type { WatchGroup } from '../../kube/watch/watch-group.ts';
import { COPY_LABEL } from '../common/excluded-metadata.ts';
import { MIRRORS_CONTROLLER } from './api.ts';

export class WatchedCopies {
  readonly #cluster: Cluster;
  readonly #watches: { readonly synced: Promise<unknown> }[] = [];
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
    this.#watches.push(...others, this.#watch(SECRET));
  }

  /** Without the rights, the mirrors of ConfigMaps report the refusal, and no other rule waits. */
  watchConfigMaps(): void {
    if (this.#hasConfigMaps) return;
    this.#hasConfigMaps = true;
    const diagnosis = new RightsDiagnosis(CONFIG_MAP.plural);
    const { synced } = this.#watch(CONFIG_MAP, diagnosis);
    const listed = Promise.race([synced, diagnosis.found]);
    // Who waits for it gets the error. Perhaps nobody waits when the process stops.
    listed.catch(() => undefined);
    this.#watches.push({ synced: listed });
  }

  #watch(kind: Kind, diagnosis?: WatchDiagnosis): WatchGroup {
    const target = {
      collection: kind.plural,
      scope: 'copies',
      path: `${kind.groupPath}/${kind.plural}`,
      labelSelector: `${COPY_LABEL}=${MIRRORS_CONTROLLER}`,
      metadataOnly: true,
      inPages: true,
    };
    return this.#cluster.watch(target, this.#cluster.store(kind).index.feed().sink, diagnosis, this.#cluster.served);
  }
}

/** For a watch that only some rules need: without the permission for it the process is ready, and other rules do not wait. */
class RightsDiagnosis implements WatchDiagnosis {
  readonly #plural: string;
  readonly #found = Promise.withResolvers<void>();
  #isForbidden = false;

  constructor(plural: string) {
    this.#plural = plural;
  }

  get found(): Promise<void> {
    return this.#found.promise;
  }

  failed(error: unknown): boolean {
    const isKnown = this.#isForbidden;
    this.#isForbidden = isForbidden(error);
    if (!this.#isForbidden) return false;
    this.#found.resolve();
    return isKnown;
  }

  get advice(): string | undefined {
    return this.#isForbidden ? `give Keyferry the permission to list and watch ${this.#plural}` : undefined;
  }

  get isExcused(): boolean {
    return this.#isForbidden;
  }
}
