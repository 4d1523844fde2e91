import { COPY_LABEL } from '../../copy/model/observed.ts';
import type { Cluster } from '../../copy/cluster/cluster.ts';
import type { Kind } from '../../copy/model/kind.ts';
import type { WatchGroup } from '../../kube/watch/watch-group.ts';

/** Watches the metadata of copies. Changes go to `Engine.objectChanged`. @param copyOf value of their label `COPY_LABEL` */
export function watchCopies(
  cluster: Cluster,
  kind: Kind,
  scope: string,
  copyOf: string,
  neededBy?: 'some rules',
): WatchGroup {
  const path = `${kind.groupPath}/${kind.plural}`;
  const labelSelector = `${COPY_LABEL}=${copyOf}`;
  const target = { collection: kind.plural, scope, path, labelSelector, metadataOnly: true };
  return cluster.watch(target, cluster.store(kind).index.feed().sink, { neededBy }, cluster.served);
}
