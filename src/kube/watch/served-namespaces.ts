/**
 * The namespaces that the process serves, if not all: those of a fixed list, or those that a label selector selects.
 * Selected namespaces come and go:
 *
 *   not served ──selected──▶ served ──no longer selected, or deleted──▶ not served
 *                               ▲                                          │
 *                               └──selected again, within a second later── waiting
 *
 * A label can flip many times a second, and each served namespace needs watches of its own. So a namespace that is
 * selected again within a second waits, and its watches open about once a second at most. A namespace that is no longer
 * selected is dropped at once.
 */
import { type Clock, systemClock, type Timer } from '../../runtime/clock.ts';
import type { KubeObject } from '../api.ts';
import type { WatchSink } from './watcher.ts';

/** A namespace is served from now on, or no longer. */
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
  /** Namespaces that were selected within a second. With an object: the namespace is selected again, and waits. */
  readonly #recent = new Map<string, KubeObject | undefined>();
  readonly #clock: Clock;
  #timer: Timer | undefined;

  /** @param by `command`: the limit is one of the command that runs, so messages do not speak of the operator */
  constructor(names: readonly string[], selector?: string, clock: Clock = systemClock, by?: 'command') {
    this.#names = new Set(names);
    this.selector = selector;
    this.#clock = clock;
    this.which = by === 'command' ? `of ${this.flag}` : `that Keyferry serves (${this.flag})`;
    if (selector === undefined) this.#listed.resolve();
  }

  /** @returns `undefined` without names and without a selector: all are served */
  static of(names: readonly string[], selector: string | undefined, by?: 'command'): ServedNamespaces | undefined {
    if (names.length === 0 && selector === undefined) return undefined;
    return new ServedNamespaces(names, selector, systemClock, by);
  }

  /** The flag that sets the namespaces, for messages. */
  get flag(): string {
    return this.selector === undefined ? '--namespaces' : '--namespace-selector';
  }

  has(namespace: string): boolean {
    return this.#names.has(namespace);
  }

  /** Why nothing may be written to a path; `undefined`: the path is in no namespace, or in one that is served. */
  refusal(path: string): string | undefined {
    const namespace = /\/namespaces\/([^/]+)\//.exec(path)?.[1];
    return namespace === undefined || this.has(namespace) ? undefined : `namespace ${namespace} is no longer served`;
  }

  get names(): readonly string[] {
    return [...this.#names];
  }

  /** Settles when the namespaces are known: with a selector, when their first list is complete. */
  get listed(): Promise<void> {
    return this.#listed.promise;
  }

  /** Calls the handler for every change from now on. @returns a function that ends this */
  onChange(handler: OnServed): () => void {
    this.#handlers.add(handler);
    return () => this.#handlers.delete(handler);
  }

  /** The sink for a watch of the selected namespaces. @param known gets the events of those that are served */
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

  /** Serves a namespace. `known` gets it before its watches open, so that rules know of it before its objects come. */
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

  /** Stops to serve a namespace: it is no longer selected, or nothing in it may be read. */
  remove(name: string): void {
    if (this.#recent.has(name)) this.#recent.set(name, undefined);
    if (!this.#names.delete(name)) return;
    for (const handler of this.#handlers) handler(name, false);
  }
}
