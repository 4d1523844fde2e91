/** The status of the copies in the management cluster, by name. */
import type { KubeObject } from '../../../kube/api.ts';
import type { WatchSink } from '../../../kube/watch/watcher.ts';
import { KeyLists } from '../../../copy/model/key-lists.ts';
import { versionOf } from '../../../copy/model/observed.ts';
import type { SyncSecretStatus } from '../api.ts';
import { SYNC_SECRET } from '../rules/kind.ts';
import { statusOf } from '../rules/rule.ts';

export interface CopyStatus {
  /** @see contentVersion */
  readonly version: string;
  readonly generation: number | undefined;
  readonly status: SyncSecretStatus;
}

export class CopyStatuses {
  readonly #copies = new Map<string, CopyStatus>();
  readonly #lists = new KeyLists();
  readonly #onChange: (name: string) => void;

  /** @param onChange the status of a copy may have changed */
  constructor(onChange: (name: string) => void) {
    this.#onChange = onChange;
  }

  get(name: string): CopyStatus | undefined {
    return this.#copies.get(name);
  }

  readonly sink: WatchSink = {
    upsert: (object: KubeObject) => {
      const { name, generation } = object.metadata;
      const version = versionOf(object.metadata, SYNC_SECRET);
      this.#copies.set(name, { version, generation, status: statusOf(object, this.#lists) });
      this.#onChange(name);
      return true;
    },
    remove: ({ metadata: { name } }) => {
      this.#drop(name);
    },
    prune: (keys) => {
      const names = new Set(Array.from(keys, (key) => key.slice(key.indexOf('/') + 1)));
      for (const name of this.#copies.keys()) if (!names.has(name)) this.#drop(name);
    },
  };

  #drop(name: string): void {
    if (this.#copies.delete(name)) this.#onChange(name);
  }
}
