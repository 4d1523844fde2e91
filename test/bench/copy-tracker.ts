/**
 * Records with a watch of its own which copies exist, and when each appeared. It watches all Secrets, or what a `View`
 * says.
 *
 * It handles one expectation at a time: a set of copies, the generation that each must get, and a start time. For each
 * copy, the first event after that time with this generation counts.
 */
import type { Json, TestApi } from '../support/api.ts';
import type { Watcher } from '../support/watcher.ts';
import { copyKey, generationOf } from './workload.ts';

/** Times from the start of a change until a copy had it, one for each copy, ms, sorted. */
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

/** Thrown if copies did not appear in time. */
export class OverdueError extends Error {
  override readonly name = 'OverdueError';
}

interface Expectation {
  readonly remaining: Set<string>;
  /** The generation that each copy must get; `undefined` if it must be deleted. */
  readonly generation: string | undefined;
  readonly since: number;
  readonly arrived: number[];
  readonly done: PromiseWithResolvers<void>;
}

/** Which objects are watched, and how an object shows the key and the generation of its copy. */
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
   * Resolves when each of `keys` had `generation` (`undefined`: was deleted) at some moment after `since`. Call it
   * before the change: earlier events are not recorded.
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
