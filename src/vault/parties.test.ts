/** What the calls of one mount take and give back, and how many mounts of one identity are remembered. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';

import { ManualClock } from '../../test/support/manual-clock.ts';
import { Parties, Party, serverSlots } from './parties.ts';

const never = new AbortController().signal;

/** Whether a call of the party may be sent now. Gives back what it took. */
async function isFree(party: Party): Promise<boolean> {
  const controller = new AbortController();
  const entered = party.enter(controller.signal).then(
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
      const party = new Party(server, { clock: new ManualClock() });
      party.prove(proven);
      const busy = await server.all.take(never);
      // As many as the party may have at once: each waits for the server.
      for (let call = 0; call < 20; call++) assert.equal(await isFree(party), false);
      busy[Symbol.dispose]();
      assert.equal(await isFree(party), true);
    });
  }
});

test('an unproven party has one call at a time, and all unproven parties half of the slots', async () => {
  const server = serverSlots(4);
  const parties = Array.from({ length: 3 }, () => new Party(server, { clock: new ManualClock() }));
  const [one, two, three] = parties as [Party, Party, Party];
  const first = await one.enter(never);
  assert.equal(await isFree(one), false);
  const second = await two.enter(never);
  assert.equal(await isFree(three), false);
  three.prove(true);
  assert.equal(await isFree(three), true);
  three.prove(false);
  for (const held of [first, second]) held[Symbol.dispose]();
  for (const party of parties) assert.equal(await isFree(party), true);
});

test('mounts that users name are not all kept, but the used ones are', () => {
  let made = 0;
  const slots = serverSlots(4);
  const parties = new Parties(() => {
    made += 1;
    return new Party(slots, { clock: new ManualClock() });
  });
  const inUse = parties.of('secret');
  const first = parties.of('mount-0');
  for (let index = 1; index < 1000; index += 1) {
    parties.of(`mount-${index}`);
    assert.equal(parties.of('secret'), inUse);
  }
  assert.equal(made, 1001);
  assert.equal(parties.of('mount-999'), parties.of('mount-999'));
  assert.equal(made, 1001);
  assert.notEqual(parties.of('mount-0'), first);
});
