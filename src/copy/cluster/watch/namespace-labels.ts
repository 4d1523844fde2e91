/** Reads the labels of namespaces for keys that were not kept before: a rule selects by them since it has changed. */
import type { KubeApi } from '../../../kube/api.ts';
import { listEach } from '../../../kube/list-each.ts';
import { SingleFlight } from '../../../runtime/queue/single-flight.ts';
import type { Namespaces } from './namespaces.ts';

/** Settles when the labels with these keys are known of all namespaces. @throws the errors of `api.request` */
export type LabelsKnown = (keys: readonly string[], signal: AbortSignal) => Promise<void>;

/** Time limit of a page of the list, ms. */
const PAGE_TIMEOUT_MS = 60_000;

/** One list at a time, for all rules that wait for new keys. Create one for each cluster. */
export function labelReader(api: KubeApi, namespaces: Namespaces): LabelsKnown {
  const lists = new SingleFlight<void>();
  const read = async (signal: AbortSignal): Promise<void> => {
    const options = { metadataOnly: true, timeoutMs: PAGE_TIMEOUT_MS, signal };
    await namespaces.relist(async (take) => await listEach(api, '/api/v1/namespaces', take, options));
  };
  return async (keys, signal) => {
    namespaces.keep(keys);
    while (!namespaces.knows(keys)) await lists.run('the labels of namespaces', read, signal);
  };
}
