/** The SecretStores and ClusterSecretStores of the cluster, from their watches. */
import type { KubeObject } from '../../../kube/api.ts';
import type { WatchSink } from '../../../kube/watch/watcher.ts';
import type { SecretStore } from '../api.ts';
import type { StoreRef } from '../request/requests.ts';
import type { StoreSpec } from './store-spec.ts';

interface Stored {
  readonly uid: string;
  readonly generation: number;
  readonly spec: StoreSpec;
}

/** A store changed, came or went. @param namespace `undefined`: of a ClusterSecretStore */
export type OnStoreChange = (ref: StoreRef, namespace: string | undefined) => void;

export class Stores {
  readonly #stores = new Map<string, Stored>();
  readonly #onChange: OnStoreChange;

  constructor(onChange: OnStoreChange) {
    this.#onChange = onChange;
  }

  /** @param namespace of the ExternalSecret @returns `undefined`: there is none */
  get({ kind, name }: StoreRef, namespace: string): StoreSpec | undefined {
    return this.#stores.get(keyOf(kind, kind === 'SecretStore' ? namespace : undefined, name))?.spec;
  }

  /** For the watch of one kind. */
  sinkOf(kind: StoreRef['kind']): WatchSink {
    const keyOfObject = ({ metadata: { namespace, name } }: KubeObject): string => keyOf(kind, namespace, name);
    const drop = (key: string): void => {
      if (!this.#stores.delete(key)) return;
      const [, namespace = '', name = ''] = key.split('/');
      this.#onChange({ kind, name }, namespace || undefined);
    };
    return {
      upsert: (object) => {
        const key = keyOfObject(object);
        const { uid, generation = 0, name, namespace } = object.metadata;
        const before = this.#stores.get(key);
        // The operator of the stores writes their status every few minutes.
        if (before?.uid === uid && before.generation === generation) return true;
        const { conditions, provider } = (object as SecretStore).spec ?? {};
        this.#stores.set(key, {
          uid,
          generation,
          spec: { ...(conditions && { conditions }), ...(provider && { provider }) },
        });
        this.#onChange({ kind, name }, namespace);
        return true;
      },
      remove: (object) => {
        drop(keyOfObject(object));
      },
      prune: (names, _version, only) => {
        for (const key of this.#stores.keys()) {
          if (!key.startsWith(only === undefined ? `${kind}/` : `${kind}/${only}/`)) continue;
          const name = key.slice(kind.length + 1);
          if (!names.has(kind === 'SecretStore' ? name : name.slice(1))) drop(key);
        }
      },
    };
  }
}

function keyOf(kind: StoreRef['kind'], namespace: string | undefined, name: string): string {
  return `${kind}/${namespace ?? ''}/${name}`;
}
