/** Watches all SyncSecrets of the cluster that the process runs in. */
import type { WatchGroup } from '../../../kube/watch/watch-group.ts';
import type { WatchSink } from '../../../kube/watch/watcher.ts';
import type { ControllerContext } from '../../common/context.ts';
import { CrdDiagnosis } from '../../common/crd-diagnosis.ts';
import { SYNC_SECRET_CRD_ADVICE } from '../api.ts';
import { SYNC_SECRET } from '../rules/kind.ts';

/** @param isSource they are copied, and are not only targets */
export function watchSyncSecrets({ cluster, config }: ControllerContext, sink: WatchSink, isSource = true): WatchGroup {
  const diagnosis = new CrdDiagnosis({
    api: cluster.api,
    kind: SYNC_SECRET,
    advice: SYNC_SECRET_CRD_ADVICE,
    isOptional: false,
    isAlone: config.controllers.every((name) => name.startsWith('syncsecret-')),
  });
  return cluster.watchContents(SYNC_SECRET, { isSource }, sink, diagnosis);
}
