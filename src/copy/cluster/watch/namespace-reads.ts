/** Reads namespaces besides their watch, to check labels and consent before a copy is deleted. */
import type { KubeApi, KubeObject } from '../../../kube/api.ts';
import { listEach } from '../../../kube/list-each.ts';
import type { ServedNamespaces } from '../../../kube/watch/served-namespaces.ts';
import { orAborted } from '../../../runtime/abort.ts';
import { SingleFlight } from '../../../runtime/queue/single-flight.ts';
import type { Namespaces } from './namespaces.ts';

const PATH = '/api/v1/namespaces';
/** More namespaces are read by a list of all. Their names would make a URL above 8 KiB, which many proxies refuse. */
const MAX_SELECTED = 100;

export interface NamespaceReadsOptions {
  readonly api: KubeApi;
  readonly namespaces: Namespaces;
  readonly served: ServedNamespaces | undefined;
}

/**
 * All rules of a cluster share one running read: what is asked meanwhile is read together by the next one, so that a
 * thousand deletions need few reads. Throws as `api.request`.
 */
export class NamespaceReads {
  readonly #cluster: NamespaceReadsOptions;
  readonly #reads = new SingleFlight<ReadonlyMap<string, KubeObject>>();
  /** The number of the next read, and the namespaces that it reads. */
  #number = 0;
  #names = new Set<string>();
  /** Settles, always without an error, when the running read has ended. */
  #running: Promise<unknown> = Promise.resolve();

  constructor(cluster: NamespaceReadsOptions) {
    this.#cluster = cluster;
  }

  /**
   * Whether a namespace has the same labels and consent on the server as in memory. They differ if the watch is late.
   * Always `true` with `--namespaces`: then Keyferry has no permission to read them.
   */
  async isCurrent(name: string, signal: AbortSignal): Promise<boolean> {
    const { namespaces, served } = this.#cluster;
    if (served !== undefined) return true;
    const item = await this.#read(name, signal);
    return item !== undefined && namespaces.isKnown(item);
  }

  async #read(name: string, signal: AbortSignal): Promise<KubeObject | undefined> {
    this.#names.add(name);
    const found = await this.#reads.run(`read ${this.#number}`, (shared) => this.#readNext(shared), signal);
    return found.get(name);
  }

  async #readNext(signal: AbortSignal): Promise<ReadonlyMap<string, KubeObject>> {
    await orAborted(this.#running, signal, 'waiting for another read of namespaces');
    const names = [...this.#names];
    this.#names.clear();
    this.#number += 1;
    const found = new Map<string, KubeObject>();
    // This is a list, because Keyferry has no permission to get a single namespace. All namespaces have this label.
    const labelSelector = `kubernetes.io/metadata.name in (${names.join()})`;
    const selected = names.length > MAX_SELECTED ? {} : { labelSelector };
    const options = { ...selected, metadataOnly: true, signal };
    const read = listEach(this.#cluster.api, PATH, (item) => void found.set(item.metadata.name, item), options);
    this.#running = read.catch(() => undefined);
    await read;
    return found;
  }
}
