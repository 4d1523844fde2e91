/**
 * The namespaces that the process serves, where it does not serve all: those of a list, or those that a label selects. The latter come and go:
 *
 *   not served ──selected──▶ served ──no longer selected, or deleted──▶ not served
 *                               ▲                                          │
 *                               └──selected again, within a second later── waiting
 *
 * A label can flip many times a second, and each namespace has watches of its own. So a namespace that is selected again soon waits, and is
 * served at most about once a second. One that leaves is left at once.
 */
import { type Clock, systemClock, type Timer } from '../../runtime/clock.ts';
import type { KubeObject } from '../api.ts';
import type { WatchSink } from './watcher.ts';

/** A namespace is served from now on, or no longer. */
export type OnServed = (namespace: string, isServed: boolean) => void;

/** How long a namespace waits at most that is selected again, ms. */
const FLIP_MS = 1000;

export class ServedNamespaces {
  /** The label selector; `undefined`: they are those of a list. */
  readonly selector: string | undefined;
  readonly #names: Set<string>;
  readonly #handlers = new Set<OnServed>();
  readonly #listed = Promise.withResolvers<void>();
  /** The namespaces that came lately. With an object: it is selected again, and waits. */
  readonly #recent = new Map<string, KubeObject | undefined>();
  readonly #clock: Clock;
  #timer: Timer | undefined;

  constructor(names: readonly string[], selector?: string, clock: Clock = systemClock) {
    this.#names = new Set(names);
    this.selector = selector;
    this.#clock = clock;
    if (selector === undefined) this.#listed.resolve();
  }

  /** @returns `undefined` without names and without a selector: all are served */
  static of(names: readonly string[], selector: string | undefined): ServedNamespaces | undefined {
    return names.length === 0 && selector === undefined ? undefined : new ServedNamespaces(names, selector);
  }

  /** The flag that sets them, for messages. */
  get flag(): string {
    return this.selector === undefined ? '--namespaces' : '--namespace-selector';
  }

  has(namespace: string): boolean {
    return this.#names.has(namespace);
  }

  /** Why nothing may be written to a path of the API; `undefined`: it is in no namespace, or in one that is served. */
  refusal(path: string): string | undefined {
    const namespace = /\/namespaces\/([^/]+)\//.exec(path)?.[1];
    return namespace === undefined || this.has(namespace) ? undefined : `namespace ${namespace} is no longer served`;
  }

  get names(): readonly string[] {
    return [...this.#names];
  }

  /** Settles when they are known for the first time. */
  get listed(): Promise<void> {
    return this.#listed.promise;
  }

  /** Calls the handler for every change from now on. @returns ends that */
  onChange(handler: OnServed): () => void {
    this.#handlers.add(handler);
    return () => this.#handlers.delete(handler);
  }

  /** For a watch of namespaces with the selector. @param known gets the events of the namespaces that are served */
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

  /** The namespace is known before its watches open, so that the rules that reach it hear of it before its objects come. */
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

  /** The namespace is not served from now on: it is no longer selected, or nothing in it may be read. */
  remove(name: string): void {
    if (this.#recent.has(name)) this.#recent.set(name, undefined);
    if (!this.#names.delete(name)) return;
    for (const handler of this.#handlers) handler(name, false);
  }
}
