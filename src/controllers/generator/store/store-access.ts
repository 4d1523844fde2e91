/**
 * How the stores are read for one namespace: from their watches, or the environment in their place. The objects that they name are read from
 * the API server.
 */
import type { VaultEnvironment } from '../../../config/vault-environment.ts';
import type { Cluster } from '../../../copy/cluster/cluster.ts';
import { CONFIG_MAP, SECRET } from '../../../copy/model/kind.ts';
import type { KubeObject } from '../../../kube/api.ts';
import { parseJson } from '../../../kube/json.ts';
import type { VaultAddresses } from '../../../vault/client/addresses.ts';
import { PatternCache } from '../../common/namespaces/namespace-patterns.ts';
import type { StoreSource } from '../request/places.ts';
import type { Reach } from './reach.ts';
import type { StoreRef, WantedValue } from '../request/requests.ts';
import { type CaReference, StoreError, type StoreSpec, type StoreUser } from './store-spec.ts';
import type { Stores } from './stores.ts';

export interface StoreAccessOptions {
  readonly cluster: Cluster;
  readonly stores: Stores;
  /** `undefined`: not found out yet. */
  readonly reach: () => Reach | undefined;
  /** The server in the place of stores that may not be read. */
  readonly environment: VaultEnvironment;
  readonly addresses: VaultAddresses;
}

export class StoreAccess {
  readonly #options: StoreAccessOptions;
  readonly #patterns = new PatternCache('search');

  constructor(options: StoreAccessOptions) {
    this.#options = options;
  }

  /** The stores as an ExternalSecret of this namespace may name them. */
  sourceFor(namespace: string): StoreSource {
    const { reach, environment } = this.#options;
    if (reach()?.stores === true) return { from: 'stores', get: (ref) => this.#find(ref, namespace) };
    const { address: addr, caBundle, tlsServerName, insecureSkipVerify, namespace: vaultNamespace } = environment;
    if (addr === undefined) return { from: 'environment', server: undefined };
    const server = { addr, caBundle, tlsServerName, insecureSkipVerify, namespace: vaultNamespace };
    return { from: 'environment', server };
  }

  /** @throws ApiError, ConnectionError where the labels of the namespace are needed */
  async userOf(namespace: string, wanted: readonly WantedValue[], signal: AbortSignal): Promise<StoreUser> {
    const { addresses } = this.#options;
    return {
      namespace,
      labels: this.#needsLabels(namespace, wanted) ? await this.#labelsOf(namespace, signal) : {},
      matches: (expression, text) => {
        const pattern = this.#patterns.get(expression);
        // ESO refuses such a store.
        return !('error' in pattern) && pattern.matchesName(text);
      },
      mayGetApiTokens: (addr) => addresses.isNamedAddress(addr),
    };
  }

  /** PEM. @throws ApiError, ConnectionError; StoreError if there is no such key */
  async readCa({ kind, namespace, name, key }: CaReference, signal: AbortSignal): Promise<string> {
    const source = kind === 'Secret' ? SECRET : CONFIG_MAP;
    const store = this.#options.cluster.store(source);
    const read = await store.read(store.key(namespace, name), signal);
    const pem = read?.content.values(source).get(key);
    if (pem === undefined) {
      const message = `spec.provider.vault.caProvider: the ${kind} ${namespace}/${name} has no key ${key}`;
      throw new StoreError('InvalidStore', message);
    }
    return pem.utf8();
  }

  /** @throws StoreError without permission to list them */
  #find(ref: StoreRef, namespace: string): StoreSpec | undefined {
    const { reach, stores } = this.#options;
    if (ref.kind === 'ClusterSecretStore' && reach()?.clusterStores !== true) {
      throw new StoreError('StoreNotFound', 'Keyferry has no permission to list clustersecretstores', 'operator');
    }
    return stores.get(ref, namespace);
  }

  /** Whether a store selects namespaces by their labels. */
  #needsLabels(namespace: string, wanted: readonly WantedValue[]): boolean {
    return wanted.some(({ store }) => {
      if (store.kind !== 'ClusterSecretStore') return false;
      const { conditions = [] } = this.#options.stores.get(store, namespace) ?? {};
      return conditions.some(({ namespaceSelector }) => namespaceSelector !== undefined);
    });
  }

  async #labelsOf(namespace: string, signal: AbortSignal): Promise<StoreUser['labels']> {
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}`;
    const { body } = await this.#options.cluster.api.request({ method: 'GET', path, signal });
    return (parseJson(body, `the answer to GET ${path}`) as KubeObject).metadata.labels ?? {};
  }
}
