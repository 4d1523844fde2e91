/**
 * Tests the time limits of a leader on a manual clock: two replicas must never write at the same time. Elections
 * between real processes are in test/scenarios/kube and test/faults.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { fixRandom } from '../../../test/support/fixed-random.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import type { KubeRequest, KubeResponse } from '../api.ts';
import { orAborted } from '../../runtime/abort.ts';
import { ApiError, ConnectionError } from '../errors.ts';
import { LeaderElector } from './elector.ts';

const RETRY_MS = 2000;
const DEADLINE_MS = 10_000;

/** An elector, and an API server whose answers the test sets and delays. */
class World {
  readonly clock = new ManualClock();
  readonly stop = new AbortController();
  readonly requests: string[] = [];
  /** The time until each answer, ms. `Infinity`: the request fails after its time limit. */
  answerMs = 0;
  isWorking = false;
  /** The holder of the stored Lease. */
  holder: string | undefined;
  /** `true`: another replica has changed the Lease after it was read, so the next write is refused. */
  isOutdated = false;
  endWork: () => void = () => undefined;
  #version = 1;
  readonly elector = new LeaderElector({
    api: { cluster: 'c', request: (request) => this.#answer(request), stream: () => assert.fail('not used') },
    namespace: 'default',
    name: 'keyferry',
    identity: 'us',
    retryMs: RETRY_MS,
    renewDeadlineMs: DEADLINE_MS,
    leaseDurationMs: 15_000,
    clock: this.clock,
    onError: () => undefined,
  });

  start(): Promise<void> {
    fixRandom(0);
    return this.elector.run({
      signal: this.stop.signal,
      onStartedLeading: async (signal) => {
        this.isWorking = true;
        signal.addEventListener('abort', () => {
          this.isWorking = false;
        });
        await new Promise<void>((resolve) => {
          this.endWork = resolve;
        });
      },
    });
  }

  /** As a real server, carries a request out even if the client aborts it meanwhile. */
  async #answer(request: KubeRequest): Promise<KubeResponse> {
    return await orAborted(this.#carriedOut(request), request.signal, request.method);
  }

  async #carriedOut({ method, body = '', timeoutMs = 0 }: KubeRequest): Promise<KubeResponse> {
    this.requests.push(method);
    const ms = this.answerMs;
    const isLate = ms > timeoutMs;
    await new Promise<void>((resolve) => {
      this.clock.setTimeout(resolve, isLate ? timeoutMs : ms);
    });
    if (isLate) throw new ConnectionError('ETIMEDOUT', 'no answer');
    if (method !== 'GET' && this.isOutdated) {
      this.isOutdated = false;
      throw new ApiError({ method, path: '' }, 409, {
        reason: 'Conflict',
        message: 'changed',
        causes: [],
      });
    }
    const read = { metadata: {}, spec: { holderIdentity: this.holder } };
    const lease = method === 'GET' ? read : (JSON.parse(String(body)) as typeof read);
    this.holder = lease.spec.holderIdentity;
    this.#version += 1;
    const stored = { ...lease, metadata: { ...lease.metadata, resourceVersion: String(this.#version) } };
    return { status: 200, body: Buffer.from(JSON.stringify(stored)) };
  }
}

describe('a leader', () => {
  it('a leader counts its time from the request of a renewal, so a slow answer does not prolong its time', async () => {
    const world = new World();
    const running = world.start();
    await world.clock.advance(0);
    assert.equal(world.isWorking, true);
    world.answerMs = 4000;
    // The renewal begins after 2 s and is answered after 6 s. The later renewals are never answered.
    await world.clock.advance(RETRY_MS + 1);
    world.answerMs = Infinity;
    const deadline = RETRY_MS + DEADLINE_MS;
    await world.clock.advance(deadline - world.clock.monotonic() - 1);
    assert.equal(world.isWorking, true);
    await world.clock.advance(1);
    assert.equal(world.isWorking, false, 'another replica may start 15 s after it saw the renewal');
    world.stop.abort();
    world.endWork();
    await world.clock.advance(DEADLINE_MS);
    await running;
  });

  it('a leader that lost the Lease sends no request for it until its work has ended', async () => {
    const world = new World();
    const running = world.start();
    await world.clock.advance(0);
    world.answerMs = Infinity;
    await world.clock.advance(DEADLINE_MS);
    assert.equal(world.isWorking, false);
    // A request was under way when the deadline passed. It ends now.
    await world.clock.advance(DEADLINE_MS);
    world.answerMs = 0;
    const before = world.requests.length;
    await world.clock.advance(60_000);
    assert.deepEqual(
      world.requests.slice(before),
      [],
      'a renewal would keep the Lease from the others, and start new work',
    );
    assert.equal(world.elector.isLeader, false);
    const lost = assert.rejects(running, /^Error: lost leadership/);
    world.endWork();
    await world.clock.advance(1);
    await lost;
  });

  it('if another replica may have held the Lease meanwhile, a leader ends its work before it takes the Lease again', async () => {
    const world = new World();
    const running = world.start();
    await world.clock.advance(0);
    world.isOutdated = true;
    world.holder = undefined;
    const lost = assert.rejects(running, /^Error: lost leadership/);
    // The renewal is refused, and the Lease has no holder.
    await world.clock.advance(RETRY_MS + 1);
    assert.deepEqual([world.isWorking, world.elector.isLeader], [false, false]);
    world.endWork();
    await world.clock.advance(1);
    await lost;
  });

  it('a leader that ends does not release the Lease if another replica holds it', async () => {
    const world = new World();
    const running = world.start();
    await world.clock.advance(0);
    world.holder = 'other';
    world.requests.length = 0;
    world.stop.abort();
    world.endWork();
    await world.clock.advance(1);
    await running;
    assert.deepEqual(world.requests, ['GET']);
  });
});

describe('a stop', () => {
  it('a stop while the Lease is taken waits for the answer and then releases the Lease', async () => {
    const world = new World();
    const running = world.start();
    world.answerMs = 1000;
    // The Lease is read at once. It has no holder, so it is taken.
    await world.clock.advance(500);
    assert.deepEqual(world.requests, ['GET', 'PUT']);
    // A release that did not wait would read the Lease before the write for it is carried out.
    world.answerMs = 0;
    world.stop.abort();
    await world.clock.advance(3000);
    await running;
    assert.deepEqual([world.isWorking, world.holder], [false, '']);
  });

  it('a stop waits for a request that has no answer at most 2 s, and then sends no other', async () => {
    const world = new World();
    const running = world.start();
    world.answerMs = Infinity;
    await world.clock.advance(0);
    world.stop.abort();
    await world.clock.advance(2000);
    await running;
    assert.deepEqual(world.requests, ['GET', 'PUT']);
  });
});
