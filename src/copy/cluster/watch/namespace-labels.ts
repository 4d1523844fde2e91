/** Reads the labels of namespaces beside their watch: for keys that were not kept before, and before a copy is deleted because of labels. */
import type { KubeApi, KubeObject } from '../../../kube/api.ts';
import { listEach } from '../../../kube/list-each.ts';
import type { ServedNamespaces } from '../../../kube/watch/served-namespaces.ts';
import { SingleFlight } from '../../../runtime/queue/single-flight.ts';
import type { Namespaces } from './namespaces.ts';

/** Settles when the labels with these keys are known of all namespaces. @throws the errors of `api.request` */
export type LabelsKnown = (keys: readonly string[], signal: AbortSignal) => Promise<void>;

/** Whether the server has no other labels and consent of a namespace than are known. The watch may be late. @throws the errors of `api.request` */
export type IsCurrent = (namespace: string, signal: AbortSignal) => Promise<boolean>;

const PATH = '/api/v1/namespaces';
/** Time limit of a page of the list, ms. */
const PAGE_TIMEOUT_MS = 60_000;

/** One list at a time, for all rules that wait for new keys. Create one for each cluster. */
export function labelReader(api: KubeApi, namespaces: Namespaces): LabelsKnown {
  const lists = new SingleFlight<void>();
  const read = async (signal: AbortSignal): Promise<void> => {
    const options = { metadataOnly: true, timeoutMs: PAGE_TIMEOUT_MS, signal };
    await namespaces.relist(async (take) => await listEach(api, PATH, take, options));
  };
  return async (keys, signal) => {
    namespaces.keep(keys);
    // Twice at most: a list that began before `keep` does not bring these keys, and the next one does. A failure is thrown.
    while (!namespaces.knows(keys)) await lists.run('the labels of namespaces', read, signal);
  };
}

/** Whether what is known of a namespace is up to date. Of those of a list nothing is known, and there is no right to read them. */
export function currencyReader(
  api: KubeApi,
  namespaces: Namespaces,
  served: Pick<ServedNamespaces, 'selector'> | undefined,
): IsCurrent {
  if (served !== undefined && served.selector === undefined) return async () => await Promise.resolve(true);
  return namespaceReader(api, (item) => namespaces.isKnown(item));
}

/** Whether a namespace exists on the server, also while it is being deleted. */
export function existenceReader(api: KubeApi): (namespace: string, signal: AbortSignal) => Promise<boolean> {
  return namespaceReader(api, () => true);
}

/** One read at a time of each namespace. Create one for each cluster. @param test answers for a namespace that exists */
function namespaceReader(api: KubeApi, test: (item: KubeObject) => boolean): IsCurrent {
  const reads = new SingleFlight<boolean>();
  const read = async (name: string, signal: AbortSignal): Promise<boolean> => {
    let answer = false;
    const take = (item: KubeObject): void => {
      answer = test(item);
    };
    // A list, because there is no right to get a namespace.
    const options = { fieldSelector: `metadata.name=${name}`, metadataOnly: true, timeoutMs: PAGE_TIMEOUT_MS, signal };
    await listEach(api, PATH, take, options);
    return answer;
  };
  return async (name, signal) => await reads.run(name, async (shared) => await read(name, shared), signal);
}
