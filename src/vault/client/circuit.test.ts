import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { ManualClock } from '../../../test/support/manual-clock.ts';
import { Circuit, type Permit } from './circuit.ts';

function setUp(random = () => 0.999) {
  const clock = new ManualClock();
  const circuit = new Circuit({ clock, random, threshold: 3, maxMs: 4_000 });
  return { clock, circuit };
}

function enter(circuit: Circuit): Permit {
  const entry = circuit.tryEnter();
  assert.equal(entry.refused, undefined);
  return entry;
}

function fail(circuit: Circuit, times: number): void {
  for (let i = 0; i < times; i++) enter(circuit).failed();
}

function refusedFor(circuit: Circuit): number {
  const entry = circuit.tryEnter();
  assert.notEqual(entry.refused, undefined);
  return entry.refused === undefined ? 0 : entry.retryAfterMs;
}

describe('Circuit', () => {
  it('opens after so many failures in a row, not after failures with successes between', () => {
    const { circuit } = setUp();
    fail(circuit, 2);
    enter(circuit).succeeded();
    fail(circuit, 2);
    assert.equal(circuit.state, 'closed');
    fail(circuit, 1);
    assert.equal(circuit.state, 'open');
    assert.ok(refusedFor(circuit) > 900);
  });

  it('admits one call after the wait, and the others when it was answered', async () => {
    const { clock, circuit } = setUp();
    fail(circuit, 3);
    await clock.advance(1_000);
    const probe = enter(circuit);
    assert.ok(refusedFor(circuit) >= 500);
    probe.succeeded();
    enter(circuit).succeeded();
    assert.equal(circuit.state, 'closed');
  });

  it('doubles the wait after each failed probe, up to the limit, and starts over after a success', async () => {
    const { clock, circuit } = setUp();
    fail(circuit, 3);
    const waits: number[] = [];
    for (let i = 0; i < 4; i++) {
      const wait = refusedFor(circuit);
      waits.push(Math.round(wait / 1_000));
      await clock.advance(wait);
      enter(circuit).failed();
    }
    assert.deepEqual(waits, [1, 2, 4, 4]);
    await clock.advance(4_000);
    enter(circuit).succeeded();
    fail(circuit, 3);
    assert.ok(refusedFor(circuit) <= 1_000);
  });

  it('does not count failures of calls that began before it opened', () => {
    const { circuit } = setUp();
    const early = [enter(circuit), enter(circuit)];
    fail(circuit, 3);
    const wait = refusedFor(circuit);
    early.forEach((permit) => {
      permit.failed();
    });
    assert.equal(refusedFor(circuit), wait);
  });

  it('is closed by a late success', () => {
    const { circuit } = setUp();
    const early = enter(circuit);
    fail(circuit, 3);
    early.succeeded();
    assert.equal(circuit.state, 'closed');
  });

  it('gives the probe to the next caller when its caller aborts', async () => {
    const { clock, circuit } = setUp();
    fail(circuit, 3);
    await clock.advance(1_000);
    enter(circuit).dropped();
    enter(circuit).succeeded();
    assert.equal(circuit.state, 'closed');
  });

  it('pauses for a Retry-After, a minute at most', async () => {
    const { clock, circuit } = setUp();
    circuit.pause(2_000);
    assert.equal(refusedFor(circuit), 2_000);
    circuit.pause(1_000);
    assert.equal(refusedFor(circuit), 2_000);
    await clock.advance(2_000);
    enter(circuit).succeeded();
    circuit.pause(86_400_000);
    assert.equal(refusedFor(circuit), 60_000);
  });

  it('refuses an invalid threshold', () => {
    assert.throws(() => new Circuit({ clock: new ManualClock(), threshold: 0 }), /threshold.*0/);
  });
});
