/** Tests the slots and refusals of one mount's lane, and the limit for the number of lanes. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';

import { Lane, Lanes, Semaphore, SharedSlots } from './lanes.ts';
import { AbortedError } from '../../runtime/abort.ts';

const never = new AbortController().signal;

/** Whether a call of the lane gets its slots at once. Frees these slots again. */
async function isFree(lane: Lane): Promise<boolean> {
  const controller = new AbortController();
  const entered = lane.enter(controller.signal).then(
    (held) => {
      held?.[Symbol.dispose]();
      return held !== undefined;
    },
    () => false,
  );
  await setImmediate();
  controller.abort();
  return await entered;
}

describe('a call that is aborted while it waits', () => {
  for (const proven of [false, true]) {
    it(`if a call to a mount that ${proven ? 'has answered' : 'has not yet answered'} is aborted while it waits, its slots are free again`, async () => {
      const server = new SharedSlots(1);
      const lane = new Lane(server);
      if (proven) lane.answered();
      const busy = await server.all.take(never);
      // More calls than the lane admits at a time. Each gets the slots of the lane and waits for a slot of the server.
      for (let call = 0; call < 20; call++) assert.equal(await isFree(lane), false);
      busy[Symbol.dispose]();
      assert.equal(await isFree(lane), true);
    });
  }
});

test('a Vault mount that has not yet answered gets one call at a time, and all such mounts together use at most half of the slots', async () => {
  const server = new SharedSlots(4);
  const lanes = Array.from({ length: 3 }, () => new Lane(server));
  const [one, two, three] = lanes as [Lane, Lane, Lane];
  const first = await one.enter(never);
  assert.equal(await isFree(one), false);
  const second = await two.enter(never);
  assert.equal(await isFree(three), false);
  three.answered();
  assert.equal(await isFree(three), true);
  three.failed();
  for (const held of [first, second]) held?.[Symbol.dispose]();
  for (const lane of lanes) assert.equal(await isFree(lane), true);
});

test('after two failures in a row a mount gets one call at a time, and others are refused until one is answered', async () => {
  const lane = new Lane(new SharedSlots(4));
  /** Whether a call gets its slots, waits or is refused while another call runs. */
  const beside = async (): Promise<string> => {
    const controller = new AbortController();
    const second = lane.enter(controller.signal).then((held) => {
      held?.[Symbol.dispose]();
      return held === undefined ? 'refused' : 'admitted';
    });
    const state = await Promise.race([second, setImmediate('waits')]);
    controller.abort();
    await second.catch(() => undefined);
    return state;
  };
  const steps: readonly [() => void, string][] = [
    [() => undefined, 'waits'],
    [() => lane.answered(), 'admitted'],
    [() => lane.failed(), 'waits'],
    [() => lane.answered(), 'admitted'],
    [() => lane.failed(), 'waits'],
    [() => lane.failed(), 'refused'],
    [() => lane.failed(), 'refused'],
    [() => lane.answered(), 'admitted'],
  ];
  for (const [step, expected] of steps) {
    step();
    const first = await lane.enter(never);
    assert.ok(first !== undefined);
    assert.equal(await beside(), expected);
    first[Symbol.dispose]();
  }
});

test('if an identity calls 1,000 mounts, the lanes of mounts that are used often are kept, and the oldest are dropped', () => {
  const lanes = new Lanes(new SharedSlots(4));
  const inUse = lanes.of('secret');
  const first = lanes.of('mount-0');
  for (let index = 1; index < 1000; index += 1) {
    lanes.of(`mount-${index}`);
    assert.equal(lanes.of('secret'), inUse);
  }
  assert.equal(lanes.of('mount-999'), lanes.of('mount-999'));
  assert.notEqual(lanes.of('mount-0'), first);
});

describe('Semaphore', () => {
  it('a Semaphore admits calls up to the limit; when a slot is free, the call that has waited longest gets it', async () => {
    const slots = new Semaphore(2);
    const [first, second] = [await slots.take(never), await slots.take(never)];
    const order: number[] = [];
    const waits = [1, 2].map(async (n) => {
      const slot = await slots.take(never);
      order.push(n);
      slot[Symbol.dispose]();
    });
    assert.deepEqual([slots.taken, slots.waiting, order.length], [2, 2, 0]);
    first[Symbol.dispose]();
    first[Symbol.dispose]();
    await Promise.all(waits);
    assert.deepEqual([order, slots.taken, slots.waiting], [[1, 2], 1, 0]);
    second[Symbol.dispose]();
    assert.equal(slots.taken, 0);
  });

  it('a call that is aborted while it waits gets no slot', async () => {
    const slots = new Semaphore(1);
    const held = await slots.take(never);
    const controller = new AbortController();
    const waiting = slots.take(controller.signal);
    controller.abort();
    await assert.rejects(waiting, AbortedError);
    assert.equal(slots.waiting, 0);
    held[Symbol.dispose]();
    assert.equal(slots.taken, 0);
    await assert.rejects(slots.take(AbortSignal.abort()), AbortedError);
  });
});
