/**
 * Records with a watch which copies exist, and when each appeared. By default it watches all Secrets; a `View` can name
 * other objects.
 *
 * It handles one expectation at a time: a set of copies, a start time, and the generation (version of the content) that
 * each copy must get. The time of a copy is that of its first event with this generation after the start time.
 */
import type { Json, TestApi } from '../support/api.ts';
import type { Watcher } from '../support/watcher.ts';
import { copyKey, generationOf } from './workload.ts';

/** For each copy, how long it took from a change until the copy had it. Sorted, in ms. */
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

/** Some copies did not appear within the time limit. */
export class OverdueError extends Error {
  override readonly name = 'OverdueError';
}

interface Expectation {
  readonly remaining: Set<string>;
  /** The generation that each copy must get; `undefined`: each copy must be deleted. */
  readonly generation: string | undefined;
  readonly since: number;
  readonly arrived: number[];
  readonly done: PromiseWithResolvers<void>;
}

/** Which objects are watched, and how to get from an object the key and the generation of its copy. */
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
   * Resolves after each of `keys` had `generation` at some time after `since` (`undefined`: after each was deleted).
   * Call it before the change, because it records no earlier events.
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
