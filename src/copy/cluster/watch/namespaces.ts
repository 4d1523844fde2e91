/**
 * The namespaces of one cluster, with their labels and consents. A namespace that is being deleted counts as absent,
 * because nothing can be created in it. So does one with more labels than are kept.
 */
import { isDeepStrictEqual } from 'node:util';

import type { KubeObject, ObjectMeta } from '../../../kube/api.ts';
import type { WatchSink } from '../../../kube/watch/watcher.ts';
import type { LabelMatcher, Labels } from '../../../runtime/text/label-selector.ts';
import { LabelIndex } from './label-index.ts';

/** The consent of a namespace: comma-separated patterns of namespaces whose rules may copy into it. Empty: none may. */
export const ACCEPT_FROM_ANNOTATION = 'keyferry.dev/accept-from';

/** Maximum length of a consent, characters. A longer consent is cut to one character more, so it is still too long. */
export const MAX_CONSENT = 16 * 1024;

/** Most characters of the labels of a namespace. With more, it counts as absent: a part of them could open a limit. */
const MAX_LABELS = 16 * 1024;

/** The labels and the consent of a namespace. */
export interface NamespaceFacts {
  readonly labels: Labels;
  /** The value of `keyferry.dev/accept-from`, if there is one. */
  readonly acceptFrom?: string | undefined;
}

/**
 * A change of a namespace. `labels`: only its labels. `all`: the namespace was created (perhaps again with the same
 * name), its deletion began, or its consent changed.
 */
export type NamespaceChange = 'labels' | 'all';

export type OnNamespace = (name: string, change: NamespaceChange) => void;

export class Namespaces {
  readonly #uids = new Map<string, string>();
  readonly #facts = new Map<string, NamespaceFacts>();
  /** The names of namespaces, by the labels in `#facts`. */
  readonly #labelled = new LabelIndex();
  readonly #handlers: OnNamespace[] = [];

  /** Calls the handler for every change from now on. */
  onChange(handler: OnNamespace): void {
    this.#handlers.push(handler);
  }

  get size(): number {
    return this.#uids.size;
  }

  has(name: string): boolean {
    return this.#uids.has(name);
  }

  /** The names of namespaces. @param labels skips namespaces that lack the rarest of the labels that it needs */
  names(labels?: LabelMatcher): Iterable<string> {
    const index = this.#labelled;
    const [fewest] = labels?.needed.toSorted((a, b) => index.count(a) - index.count(b)) ?? [];
    return fewest === undefined ? this.#uids.keys() : index.having(fewest);
  }

  /** `undefined`: there is no such namespace. */
  uidOf(name: string): string | undefined {
    return this.#uids.get(name);
  }

  /** `undefined`: the namespace does not exist, or has neither labels nor a consent. */
  factsOf(name: string): NamespaceFacts | undefined {
    return this.#facts.get(name);
  }

  /** Whether the watch has brought the namespace with the same uid, labels and consent. */
  isKnown({ metadata: { name, uid, labels, annotations } }: KubeObject): boolean {
    if (sizeOf(labels) > MAX_LABELS) return !this.#uids.has(name);
    const facts = factsIn(labels, annotations?.[ACCEPT_FROM_ANNOTATION]);
    return this.#uids.get(name) === uid && changeOf(this.#facts.get(name), facts) === undefined;
  }

  /** Counts a namespace as existing, although Keyferry has no permission to read it. */
  assume(name: string): void {
    this.sink.upsert({ metadata: { name, uid: '', resourceVersion: '', creationTimestamp: '' } });
  }

  /** The sink for a watch of the metadata of namespaces. */
  readonly sink: WatchSink = {
    upsert: ({ metadata }: KubeObject) => {
      const { name, uid, labels, deletionTimestamp } = metadata;
      if (deletionTimestamp !== undefined || sizeOf(labels) > MAX_LABELS) {
        this.#drop(name);
        return true;
      }
      const isNew = this.#uids.get(name) !== uid;
      if (isNew) this.#uids.set(name, uid);
      const change = this.#learn(metadata);
      if (isNew) this.#changed(name, 'all');
      else if (change !== undefined) this.#changed(name, change);
      return true;
    },
    remove: ({ metadata }) => this.#drop(metadata.name),
    prune: (keys) => {
      for (const name of this.#uids.keys()) if (!keys.has(name)) this.#drop(name);
    },
  };

  /** @returns the change of the facts; `undefined`: there is none */
  #learn({ name, labels, annotations }: ObjectMeta): NamespaceChange | undefined {
    const facts = factsIn(labels, annotations?.[ACCEPT_FROM_ANNOTATION]);
    const change = changeOf(this.#facts.get(name), facts);
    if (change !== undefined) this.#put(name, facts);
    return change;
  }

  #put(name: string, facts: NamespaceFacts | undefined): void {
    this.#labelled.replace(name, this.#facts.get(name)?.labels, facts?.labels);
    if (facts === undefined) this.#facts.delete(name);
    else this.#facts.set(name, facts);
  }

  #drop(name: string): void {
    this.#put(name, undefined);
    if (this.#uids.delete(name)) this.#changed(name, 'all');
  }

  #changed(...change: Parameters<OnNamespace>): void {
    for (const handler of this.#handlers) handler(...change);
  }
}

function factsIn(labels: Labels = {}, acceptFrom?: string): NamespaceFacts | undefined {
  if (acceptFrom !== undefined) return { labels, acceptFrom: acceptFrom.slice(0, MAX_CONSENT + 1) };
  return Object.keys(labels).length === 0 ? undefined : { labels };
}

function sizeOf(labels: Labels = {}): number {
  let size = 0;
  for (const key in labels) size += key.length + (labels[key]?.length ?? 0);
  return size;
}

function changeOf(before: NamespaceFacts | undefined, after: NamespaceFacts | undefined): NamespaceChange | undefined {
  if (before?.acceptFrom !== after?.acceptFrom) return 'all';
  return isDeepStrictEqual(before?.labels ?? {}, after?.labels ?? {}) ? undefined : 'labels';
}
