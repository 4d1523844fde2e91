/** For tests of the queue: a queue with a manual clock, and a worker whose runs end only when the test ends them. */
import assert from 'node:assert/strict';
import { KeyedQueue, type KeyedQueueOptions, type OnError } from '../../src/runtime/queue/keyed-queue.ts';
import { fixRandom } from './fixed-random.ts';
import { ManualClock } from './manual-clock.ts';

const unexpected: OnError = (key, error) => {
  throw new Error(`unexpected failure of ${key}`, { cause: error });
};

export function makeQueue(options: Partial<KeyedQueueOptions> = {}): { clock: ManualClock; queue: KeyedQueue } {
  const clock = new ManualClock();
  // Each back-off lasts exactly half of its maximum.
  fixRandom(0);
  return { clock, queue: new KeyedQueue({ name: 'test', clock, onError: unexpected, ...options }) };
}

/** A worker for a queue. Each run lasts until the test ends it. */
export class ManualWorker {
  readonly ran: string[] = [];
  readonly open = new Map<string, PromiseWithResolvers<{ requeueAfterMs?: number } | undefined>>();
  mostAtOnce = 0;

  readonly worker = (key: string, signal: AbortSignal): Promise<{ requeueAfterMs?: number } | undefined> => {
    assert.equal(this.open.has(key), false, `${key} runs twice at once`);
    this.ran.push(key);
    const run = Promise.withResolvers<{ requeueAfterMs?: number } | undefined>();
    this.open.set(key, run);
    this.mostAtOnce = Math.max(this.mostAtOnce, this.open.size);
    signal.addEventListener('abort', () => {
      this.open.delete(key);
      run.reject(signal.reason);
    });
    return run.promise;
  };

  end(key: string, result?: { requeueAfterMs?: number }): void {
    const run = this.open.get(key);
    assert.ok(run, `${key} is not running`);
    this.open.delete(key);
    run.resolve(result);
  }

  fail(key: string, error: Error): void {
    const run = this.open.get(key);
    assert.ok(run, `${key} is not running`);
    this.open.delete(key);
    run.reject(error);
  }
}
