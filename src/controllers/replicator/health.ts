/** `/healthz` as the original answers it, for probes and people who know it. */
import { jsonReply, type Reply } from '../../observe/routes.ts';

/** What the original calls each of its replicators: one type of Go serves Secrets and ConfigMaps. */
const COMPONENT = '*replicate.ObjectReplicator';

/** @param unsynced the kinds whose first list is not complete */
export function replicatorHealth(unsynced: readonly string[]): Reply {
  return jsonReply(unsynced.length === 0 ? 200 : 503, { notReady: unsynced.map(() => COMPONENT) });
}
