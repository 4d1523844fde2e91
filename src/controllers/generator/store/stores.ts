/**
 * Stores the SecretStores and ClusterSecretStores of the cluster. Without the permission to list them, the environment
 * variables of the process replace all stores. Certificates that a store names are read from the API server.
 */
import { parseRuleKey, type RuleKey } from '../../../copy/model/keys.ts';
import { CONFIG_MAP, SECRET } from '../../../copy/model/kind.ts';
import type { KubeObject } from '../../../kube/api.ts';
import { parseJson } from '../../../kube/json.ts';
import type { WatchSink } from '../../../kube/watch/watcher.ts';
import type { ControllerContext } from '../../common/context.ts';
import { PatternCache } from '../../../runtime/text/name-patterns.ts';
import { RuleStore } from '../../../copy/engine/life/rule-store.ts';
import type { SecretStore } from '../api.ts';
import type { EsoRights } from '../eso-api.ts';
import type { StoreRef, WantedValue } from '../request/requests.ts';
import {
  type CaReference,
  environmentStore,
  StoreError,
  type StoreSpec,
  type StoreUser,
  type VaultStore,
  vaultStoreOf,
} from './store-spec.ts';

/** The part of a SecretStore or ClusterSecretStore that stays in memory. */
type KeptStore = KubeObject & { readonly spec: StoreSpec };

export class Stores {
  readonly #context: ControllerContext;
  /** The permissions of the process, which are found out before the first use. */
  rights: Pick<EsoRights, 'stores' | 'clusterStores'> = { stores: false, clusterStores: false };
  readonly #stores: Readonly<Record<StoreRef['kind'], RuleStore<KeptStore>>>;
  readonly #patterns = new PatternCache('search');

  /** @param onChange called when a store is added, changed or deleted. The namespace of a ClusterSecretStore is '' */
  constructor(context: ControllerContext, onChange: (ref: StoreRef, namespace: string) => void) {
    this.#context = context;
    const storeOf = (kind: StoreRef['kind']): RuleStore<KeptStore> =>
      new RuleStore({
        controller: kind,
        toRule: keptStore,
        // The resourceVersion is not used, because it changes every few minutes, when ESO writes the status of a store.
        versionOf: ({ metadata: { uid, generation = 0 } }) => `${uid} ${generation}`,
        onChange: (key: RuleKey) => {
          const { namespace, name } = parseRuleKey(key);
          onChange({ kind, name }, namespace);
        },
      });
    this.#stores = { SecretStore: storeOf('SecretStore'), ClusterSecretStore: storeOf('ClusterSecretStore') };
  }

  /** @param namespace the namespace of the ExternalSecret @returns `undefined`: the store does not exist */
  get({ kind, name }: StoreRef, namespace: string): StoreSpec | undefined {
    const stores = this.#stores[kind];
    return stores.get(stores.key(kind === 'SecretStore' ? namespace : '', name))?.spec;
  }

  /** Stores the objects from a watch of one kind. */
  sinkOf(kind: StoreRef['kind']): WatchSink {
    const { sink } = this.#stores[kind];
    if (kind === 'SecretStore') return sink;
    // For an object without a namespace, the watch has the key `name`, but the store has `/name`.
    return {
      ...sink,
      prune: (names, version) => sink.prune(new Set(Array.from(names, (name) => `/${name}`)), version),
    };
  }

  /**
   * Gives access to the stores that ExternalSecrets of a namespace may use.
   * @returns a function that throws StoreError for a store that cannot be used
   * @throws ApiError, ConnectionError: the labels of the namespace are needed and could not be read
   */
  async usableIn(
    namespace: string,
    wanted: readonly WantedValue[],
    signal: AbortSignal,
  ): Promise<(ref: StoreRef) => VaultStore> {
    const { config, vault } = this.#context;
    if (!this.rights.stores) return () => environmentStore(config.vault.environment);
    const user: StoreUser = {
      namespace,
      labels: this.#needsLabels(namespace, wanted) ? await this.#labelsOf(namespace, signal) : {},
      matches: (expression, text) => {
        const pattern = this.#patterns.get(expression);
        // An invalid expression matches no namespace. ESO refuses a store with such an expression.
        return !('error' in pattern) && pattern.occursIn(text);
      },
      mayGetApiTokens: (addr) => vault.addresses.isNamedAddress(addr),
    };
    return (ref) => {
      if (ref.kind === 'ClusterSecretStore' && !this.rights.clusterStores) {
        throw new StoreError('StoreNotFound', 'Keyferry has no permission to list clustersecretstores', 'operator');
      }
      return vaultStoreOf(ref, this.get(ref, namespace), user);
    };
  }

  /** Reads CA certificates as PEM. @throws ApiError, ConnectionError; StoreError: the object or key does not exist */
  async readCa({ kind, namespace, name, key }: CaReference, signal: AbortSignal): Promise<string> {
    const source = kind === 'Secret' ? SECRET : CONFIG_MAP;
    const store = this.#context.cluster.store(source);
    const read = await store.read(store.key(namespace, name), signal);
    const pem = read?.content.values(source).get(key);
    if (pem === undefined) {
      const message = `spec.provider.vault.caProvider: the ${kind} ${namespace}/${name} has no key ${key}`;
      throw new StoreError('InvalidStore', message);
    }
    return pem.utf8();
  }

  /** Whether one of the stores for these values selects namespaces by labels. */
  #needsLabels(namespace: string, wanted: readonly WantedValue[]): boolean {
    return wanted.some(({ store }) => {
      if (store.kind !== 'ClusterSecretStore') return false;
      const { conditions = [] } = this.get(store, namespace) ?? {};
      return conditions.some(({ namespaceSelector }) => namespaceSelector !== undefined);
    });
  }

  async #labelsOf(namespace: string, signal: AbortSignal): Promise<StoreUser['labels']> {
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}`;
    const { body } = await this.#context.cluster.api.request({ method: 'GET', path, signal });
    return (parseJson(body, `the answer to GET ${path}`) as KubeObject).metadata.labels ?? {};
  }
}

function keptStore(object: KubeObject): KeptStore {
  const { name, namespace = '', uid, resourceVersion, creationTimestamp, generation = 0 } = object.metadata;
  const { conditions, provider } = (object as SecretStore).spec ?? {};
  return {
    metadata: { name, namespace, uid, resourceVersion, creationTimestamp, generation },
    spec: { ...(conditions && { conditions }), ...(provider && { provider }) },
  };
}
