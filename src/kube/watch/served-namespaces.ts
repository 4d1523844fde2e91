/**
 * The namespaces that the process serves, if it does not serve all: a fixed list, or those that a label selector
 * selects.
 * Selected namespaces come and go:
 *
 *   not served ──selected──▶ served ──no longer selected, or deleted──▶ not served
 *                               ▲                                          │
 *                               └──selected again, within a second later── waiting
 *
 * A label can change many times a second, and each served namespace needs its own watches. So a namespace that is
 * selected again within a second has to wait, and its watches open about once a second at most. When a namespace is no
 * longer selected, its watches end at once.
 */
import { type Clock, systemClock, type Timer } from '../../runtime/clock.ts';
import type { KubeObject } from '../api.ts';
import type { WatchSink } from './watcher.ts';

/** Called when a namespace begins (`true`) or ceases (`false`) to be served. */
export type OnServed = (namespace: string, isServed: boolean) => void;

/** Longest wait of a namespace that is selected again, ms. */
const FLIP_MS = 1000;

export class ServedNamespaces {
  /** The label selector; `undefined`: the namespaces are a fixed list. */
  readonly selector: string | undefined;
  /** For messages, after "the namespaces": `that Keyferry serves (--namespaces)`, `of --namespaces`. */
  readonly which: string;
  readonly #names: Set<string>;
  readonly #handlers = new Set<OnServed>();
  readonly #listed = Promise.withResolvers<void>();
  /** Namespaces that were selected less than a second ago. Value: the namespace, if it waits to be served again. */
  readonly #recent = new Map<string, KubeObject | undefined>();
  readonly #clock: Clock;
  #timer: Timer | undefined;

  /** @param by `command`: the flag belongs to a command such as `plan`, so messages do not mention the operator */
  constructor(names: readonly string[], selector?: string, clock: Clock = systemClock, by?: 'command') {
    this.#names = new Set(names);
    this.selector = selector;
    this.#clock = clock;
    this.which = by === 'command' ? `of ${this.flag}` : `that Keyferry serves (${this.flag})`;
    if (selector === undefined) this.#listed.resolve();
  }

  /** @returns `undefined`, if there is neither a name nor a selector: all namespaces are served */
  static of(names: readonly string[], selector: string | undefined, by?: 'command'): ServedNamespaces | undefined {
    if (names.length === 0 && selector === undefined) return undefined;
    return new ServedNamespaces(names, selector, systemClock, by);
  }

  /** The flag that names or selects the namespaces, for messages. */
  get flag(): string {
    return this.selector === undefined ? '--namespaces' : '--namespace-selector';
  }

  has(namespace: string): boolean {
    return this.#names.has(namespace);
  }

  /** Why a write to a path is refused; `undefined`: the path is in no namespace, or its namespace is served. */
  refusal(path: string): string | undefined {
    const namespace = /\/namespaces\/([^/]+)\//.exec(path)?.[1];
    return namespace === undefined || this.has(namespace) ? undefined : `namespace ${namespace} is no longer served`;
  }

  get names(): readonly string[] {
    return [...this.#names];
  }

  /** Settles when the namespaces are known. With a selector: when the first list of the namespaces is complete. */
  get listed(): Promise<void> {
    return this.#listed.promise;
  }

  /** Calls the handler for every later change. @returns a function that removes the handler */
  onChange(handler: OnServed): () => void {
    this.#handlers.add(handler);
    return () => this.#handlers.delete(handler);
  }

  /** Receives the selected namespaces from a watch. @param known gets the events of the served namespaces */
  sinkBefore(known: WatchSink): WatchSink {
    return {
      upsert: (object, initial) => {
        const { name } = object.metadata;
        if (!this.#names.has(name) && this.#recent.has(name)) this.#recent.set(name, object);
        else this.#put(object, initial, known);
        return true;
      },
      remove: (object) => {
        this.remove(object.metadata.name);
        known.remove(object);
      },
      prune: (keys, ...list) => {
        for (const name of [...this.#names, ...this.#recent.keys()]) if (!keys.has(name)) this.remove(name);
        known.prune(keys, ...list);
        this.#listed.resolve();
      },
    };
  }

  stop(): void {
    this.#timer?.cancel();
  }

  /** Serves a namespace. `known` gets the namespace before its watches open, so rules know it before its objects. */
  #put(object: KubeObject, initial: boolean, known: WatchSink): void {
    const { name } = object.metadata;
    known.upsert(object, initial);
    if (this.#names.has(name)) return;
    this.#names.add(name);
    if (!initial) {
      this.#recent.set(name, undefined);
      this.#timer ??= this.#clock.setTimeout(() => this.#endWaits(known), FLIP_MS, { unref: true });
    }
    for (const handler of this.#handlers) handler(name, true);
  }

  #endWaits(known: WatchSink): void {
    this.#timer = undefined;
    const waiting = [...this.#recent.values()];
    this.#recent.clear();
    for (const object of waiting) if (object !== undefined) this.#put(object, false, known);
  }

  /** Ends serving a namespace, because it is no longer selected, or Keyferry may read nothing in it. */
  remove(name: string): void {
    if (this.#recent.has(name)) this.#recent.set(name, undefined);
    if (!this.#names.delete(name)) return;
    for (const handler of this.#handlers) handler(name, false);
  }
}
