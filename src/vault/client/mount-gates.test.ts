/** Tests the slots and refusals of one mount's gate, and the limit for the number of gates. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';

import { ManualClock } from '../../../test/support/manual-clock.ts';
import { MountGates, MountGate, SharedSlots, Slots } from './mount-gates.ts';
import { AbortedError } from '../../runtime/abort.ts';

const never = new AbortController().signal;

/** Whether a call of the gate gets its slots at once. Frees these slots again. */
async function isFree(gate: MountGate): Promise<boolean> {
  const controller = new AbortController();
  const entered = gate.enter(controller.signal).then(
    (held) => {
      held[Symbol.dispose]();
      return true;
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
      const gate = new MountGate(server, { clock: new ManualClock() });
      if (proven) gate.answered();
      const busy = await server.all.take(never);
      // More calls than the gate admits at a time. Each gets the slots of the gate and waits for a slot of the server.
      for (let call = 0; call < 20; call++) assert.equal(await isFree(gate), false);
      busy[Symbol.dispose]();
      assert.equal(await isFree(gate), true);
    });
  }
});

test('a Vault mount that has not yet answered gets one call at a time, and all such mounts together use at most half of the slots', async () => {
  const server = new SharedSlots(4);
  const gates = Array.from({ length: 3 }, () => new MountGate(server, { clock: new ManualClock() }));
  const [one, two, three] = gates as [MountGate, MountGate, MountGate];
  const first = await one.enter(never);
  assert.equal(await isFree(one), false);
  const second = await two.enter(never);
  assert.equal(await isFree(three), false);
  three.answered();
  assert.equal(await isFree(three), true);
  three.failed(0);
  for (const held of [first, second]) held[Symbol.dispose]();
  for (const gate of gates) assert.equal(await isFree(gate), true);
});

describe('a gate', () => {
  function setUp() {
    const clock = new ManualClock();
    const gate = new MountGate(new SharedSlots(4), { clock, random: () => 0.999 });
    /** Reports that `times` calls, sent now, got no answer. */
    const fail = (times: number): void => {
      for (let call = 0; call < times; call++) gate.failed(clock.monotonic());
    };
    const refusedFor = (): number => gate.refusal()?.retryAfterMs ?? 0;
    return { clock, gate, fail, refusedFor };
  }

  it('after two failures in a row a mount gets no calls for about 1 s, except if a response came between the failures', () => {
    const { gate, fail, refusedFor } = setUp();
    fail(1);
    gate.answered();
    fail(1);
    assert.equal(gate.refusal(), undefined);
    fail(1);
    assert.ok(refusedFor() > 900);
    assert.equal(gate.refusal()?.because, 'failed');
  });

  it('when the refusal of calls to a mount is over, one trial call is admitted; after its response, all calls are', async () => {
    const { clock, gate, fail } = setUp();
    fail(2);
    await clock.advance(1_000);
    assert.equal(gate.refusal(), undefined);
    const trial = await gate.enter(never);
    assert.equal(await isFree(gate), false);
    gate.answered();
    assert.equal(await isFree(gate), true);
    trial[Symbol.dispose]();
  });

  it('if the trial call to a mount ends without a result, the next call becomes the trial', async () => {
    const { clock, gate, fail } = setUp();
    fail(2);
    await clock.advance(1_000);
    (await gate.enter(never))[Symbol.dispose]();
    assert.equal(gate.refusal(), undefined);
    assert.equal(await isFree(gate), true);
  });

  it('each failed trial call doubles the refusal of calls to the mount, up to 30 s; a response resets it to 1 s', async () => {
    const { clock, gate, fail, refusedFor } = setUp();
    fail(2);
    const waits: number[] = [];
    for (let trial = 0; trial < 7; trial++) {
      const wait = refusedFor();
      waits.push(Math.round(wait / 1_000));
      await clock.advance(wait);
      fail(1);
    }
    assert.deepEqual(waits, [1, 2, 4, 8, 16, 30, 30]);
    gate.answered();
    assert.equal(gate.refusal(), undefined);
    fail(2);
    assert.ok(refusedFor() <= 1_000);
  });

  it('a failure of a call that was sent before the mount refused calls does not prolong the refusal', async () => {
    const { clock, gate, fail, refusedFor } = setUp();
    const early = clock.monotonic();
    await clock.advance(10);
    fail(2);
    const wait = refusedFor();
    gate.failed(early);
    gate.failed(early);
    gate.failed(clock.monotonic());
    assert.equal(refusedFor(), wait);
  });

  it('while a mount refuses calls, a late response to an earlier call ends the refusal', () => {
    const { gate, fail } = setUp();
    fail(2);
    gate.answered();
    assert.equal(gate.refusal(), undefined);
  });

  it('after several Retry-After the calls to a mount pause for the longest of them, but at most 60 s', async () => {
    const { clock, gate, refusedFor } = setUp();
    gate.pause(2_000);
    assert.deepEqual(gate.refusal(), { because: 'paused', retryAfterMs: 2_000 });
    gate.pause(1_000);
    assert.equal(refusedFor(), 2_000);
    await clock.advance(2_000);
    assert.equal(gate.refusal(), undefined);
    gate.pause(86_400_000);
    assert.equal(refusedFor(), 60_000);
  });
});

test('if an identity calls 1,000 mounts, the gates of mounts that are used often are kept, and the oldest are dropped', () => {
  let made = 0;
  const slots = new SharedSlots(4);
  const gates = new MountGates(() => {
    made += 1;
    return new MountGate(slots, { clock: new ManualClock() });
  });
  const inUse = gates.of('secret');
  const first = gates.of('mount-0');
  for (let index = 1; index < 1000; index += 1) {
    gates.of(`mount-${index}`);
    assert.equal(gates.of('secret'), inUse);
  }
  assert.equal(made, 1001);
  assert.equal(gates.of('mount-999'), gates.of('mount-999'));
  assert.equal(made, 1001);
  assert.notEqual(gates.of('mount-0'), first);
});

describe('Slots', () => {
  it('Slots admits calls up to the limit; when a slot is free, the call that has waited longest gets it', async () => {
    const slots = new Slots(2);
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

  it('a call that is aborted while it waits gets no slot from Slots', async () => {
    const slots = new Slots(1);
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
