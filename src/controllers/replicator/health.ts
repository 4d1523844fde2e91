/** `/healthz` in the format of the original. */
import { jsonReply, type Reply } from '../../observe/routes.ts';

/** The original's name of a replicator: one Go type serves Secrets and ConfigMaps. */
const COMPONENT = '*replicate.ObjectReplicator';

/**
 * @param unsynced the kinds whose first list is not complete
 * @param stuck problems that a restart may solve; in a field that the original does not have
 */
export function replicatorHealth(unsynced: readonly string[], stuck: readonly string[] = []): Reply {
  const ok = unsynced.length === 0 && stuck.length === 0;
  return jsonReply(ok ? 200 : 503, {
    notReady: unsynced.map(() => COMPONENT),
    ...(stuck.length === 0 ? {} : { stuck }),
  });
}
