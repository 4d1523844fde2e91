/** The watches of a controller. The controller evaluates no rule before all these watches have listed their objects. */
import { COPY_LABEL } from '../../copy/model/observed.ts';
import type { Cluster } from '../../copy/cluster/cluster.ts';
import type { Kind } from '../../copy/model/kind.ts';
import type { WatchGroup } from '../../kube/watch/watch-group.ts';
import { orAborted } from '../../runtime/abort.ts';

export class AwaitedWatches {
  readonly #awaited: { readonly synced: Promise<unknown> }[] = [];

  add(...awaited: readonly { readonly synced: Promise<unknown> }[]): void {
    this.#awaited.push(...awaited);
  }

  /** Settles when all added watches have received their first list. @throws the reason of `signal` */
  async listed(signal: AbortSignal): Promise<void> {
    await orAborted(Promise.all(this.#awaited.map(async ({ synced }) => await synced)), signal, 'waiting for lists');
  }
}

/**
 * Watches the metadata of copies. Changes go to `Engine.objectChanged`. @param copyOf value of their label `COPY_LABEL`
 * @param isOptional if the permission for the watch is missing, the process is ready all the same, and no rule waits
 */
export function watchCopies(
  cluster: Cluster,
  kind: Kind,
  scope: string,
  copyOf: string,
  isOptional = false,
): WatchGroup {
  const path = `${kind.groupPath}/${kind.plural}`;
  const labelSelector = `${COPY_LABEL}=${copyOf}`;
  const target = { collection: kind.plural, scope, path, labelSelector, metadataOnly: true, inPages: true };
  return cluster.watch(target, cluster.store(kind).index.feed().sink, { isOptional }, cluster.served);
}
