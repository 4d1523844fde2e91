/**
 * Records which copies exist in the cluster, and when they appeared, with an independent watch: of all Secrets, or of what `View` says.
 *
 * One expectation runs at a time: a set of copies, the generation that each should have, and a start time. A copy fulfils it with
 * the first event after that time that shows this generation.
 */
import type { Json, TestApi } from '../support/api.ts';
import type { Watcher } from '../support/watcher.ts';
import { copyKey, generationOf } from './workload.ts';

/** Times from the start of the change to the event that showed it at one copy, ms; sorted. */
export class Latencies {
  readonly sorted: readonly number[];

  constructor(values: readonly number[]) {
    this.sorted = values.toSorted((a, b) => a - b);
  }

  quantile(share: number): number {
    return this.sorted[Math.min(this.sorted.length - 1, Math.ceil(share * this.sorted.length) - 1)] ?? Number.NaN;
  }

  get last(): number {
    return this.sorted.at(-1) ?? Number.NaN;
  }
}

/** Some copies did not appear in time. */
export class OverdueError extends Error {
  override readonly name = 'OverdueError';
}

interface Expectation {
  readonly remaining: Set<string>;
  /** `undefined`: deleted. */
  readonly generation: string | undefined;
  readonly since: number;
  readonly arrived: number[];
  readonly done: PromiseWithResolvers<void>;
}

/** What is watched, and how an object shows which copy it is and which generation it holds. */
export interface View {
  readonly path: string;
  keyOf(object: Json): string;
  generationOf(object: Json): string;
}

const SECRETS: View = {
  path: '/api/v1/secrets',
  keyOf: ({ metadata }) => copyKey(metadata.namespace, metadata.name),
  generationOf,
};

export class CopyTracker implements AsyncDisposable {
  #watcher: Watcher | undefined;
  #expectation: Expectation | undefined;

  static async open(api: TestApi, view: View = SECRETS): Promise<CopyTracker> {
    const tracker = new CopyTracker();
    tracker.#watcher = await api.watch(view.path, ({ type, object, at }) => {
      if (type === 'GAP') throw new Error('the watch of the benchmark fell behind');
      tracker.#see(view.keyOf(object), type === 'DELETED' ? undefined : view.generationOf(object), at);
    });
    return tracker;
  }

  /**
   * Settles when each of `keys` had `generation` (`undefined`: was deleted) at some moment after `since`.
   * Call it before the change: earlier events are not recorded.
   * @throws OverdueError
   */
  async expect(
    keys: Iterable<string>,
    generation: string | undefined,
    timeoutMs: number,
    change: () => Promise<unknown>,
  ): Promise<Latencies> {
    if (this.#expectation !== undefined) throw new Error('one expectation at a time');
    const expectation: Expectation = {
      remaining: new Set(keys),
      generation,
      since: performance.now(),
      arrived: [],
      done: Promise.withResolvers<void>(),
    };
    const wanted = expectation.remaining.size;
    this.#expectation = expectation;
    const timer = setTimeout(() => {
      const missing = expectation.remaining.size;
      expectation.done.reject(new OverdueError(`${missing} of ${wanted} copies had not changed after ${timeoutMs} ms`));
    }, timeoutMs);
    try {
      await Promise.all([change(), expectation.done.promise]);
    } finally {
      clearTimeout(timer);
      this.#expectation = undefined;
    }
    return new Latencies(expectation.arrived);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#watcher?.stop();
  }

  #see(key: string, generation: string | undefined, at: number): void {
    const expectation = this.#expectation;
    if (expectation === undefined || generation !== expectation.generation || at < expectation.since) return;
    if (!expectation.remaining.delete(key)) return;
    expectation.arrived.push(at - expectation.since);
    if (expectation.remaining.size === 0) expectation.done.resolve();
  }
}
