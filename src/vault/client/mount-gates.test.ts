/** What the calls of one mount take and give back, and how many mounts of one identity are remembered. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';

import { ManualClock } from '../../../test/support/manual-clock.ts';
import { MountGates, MountGate, serverSlots } from './mount-gates.ts';

const never = new AbortController().signal;

/** Whether a call of the gate may be sent now. Gives back what it took. */
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
    it(`gives back all that it has, ${proven ? 'proven' : 'unproven'}`, async () => {
      const server = serverSlots(1);
      const gate = new MountGate(server, { clock: new ManualClock() });
      gate.recordCall(proven);
      const busy = await server.all.take(never);
      // As many as the gate may have at once: each waits for the server.
      for (let call = 0; call < 20; call++) assert.equal(await isFree(gate), false);
      busy[Symbol.dispose]();
      assert.equal(await isFree(gate), true);
    });
  }
});

test('an unproven gate has one call at a time, and all unproven gates half of the slots', async () => {
  const server = serverSlots(4);
  const gates = Array.from({ length: 3 }, () => new MountGate(server, { clock: new ManualClock() }));
  const [one, two, three] = gates as [MountGate, MountGate, MountGate];
  const first = await one.enter(never);
  assert.equal(await isFree(one), false);
  const second = await two.enter(never);
  assert.equal(await isFree(three), false);
  three.recordCall(true);
  assert.equal(await isFree(three), true);
  three.recordCall(false);
  for (const held of [first, second]) held[Symbol.dispose]();
  for (const gate of gates) assert.equal(await isFree(gate), true);
});

test('mounts that users name are not all kept, but the used ones are', () => {
  let made = 0;
  const slots = serverSlots(4);
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
