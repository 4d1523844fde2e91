/** `/healthz` as the original answers it, for probes and people who know it. */
import { jsonReply, type Reply } from '../../observe/routes.ts';

/** What the original calls each of its replicators: one type of Go serves Secrets and ConfigMaps. */
const COMPONENT = '*replicate.ObjectReplicator';

/**
 * @param unsynced the kinds whose first list is not complete
 * @param stuck why a restart would help, beyond what the original looks at; named in a field of its own
 */
export function replicatorHealth(unsynced: readonly string[], stuck: readonly string[] = []): Reply {
  const ok = unsynced.length === 0 && stuck.length === 0;
  return jsonReply(ok ? 200 : 503, {
    notReady: unsynced.map(() => COMPONENT),
    ...(stuck.length === 0 ? {} : { stuck }),
  });
}
