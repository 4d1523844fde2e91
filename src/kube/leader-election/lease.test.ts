import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { nextStep, type Lease, type LeaseSpec, microTime, heldLease, releasedLease, observe } from './lease.ts';

const NOW = Date.UTC(2026, 10, 21, 9, 30, 15, 42);

function lease(spec: LeaseSpec | undefined, resourceVersion = '1'): Lease {
  const metadata = { name: 'keyferry', uid: 'u', resourceVersion, creationTimestamp: '', labels: { team: 'a' } };
  return { metadata, ...(spec && { spec }) };
}

const other: LeaseSpec = { holderIdentity: 'other', leaseDurationSeconds: 15, renewTime: microTime(NOW) };

test('the next step of an election follows from the holder, the duration and the last change of the Lease', () => {
  const cases: [string, Lease | undefined, number, string][] = [
    ['none', undefined, 0, 'create'],
    ['no spec', lease(undefined), 0, 'take'],
    ['released', lease({ holderIdentity: '', leaseDurationSeconds: 1 }), 0, 'take'],
    ['null holder', lease({ holderIdentity: null }), 0, 'take'],
    ['ours', lease({ ...other, holderIdentity: 'me' }), 0, 'renew'],
    ['ours, long run out', lease({ ...other, holderIdentity: 'me' }), 99_000, 'renew'],
    ['just seen', lease(other), 0, 'wait'],
    ['nearly run out', lease(other), 14_999, 'wait'],
    ['run out', lease(other), 15_000, 'take'],
    ['no duration', lease({ holderIdentity: 'other' }), 19_999, 'wait'],
    ['no duration, run out', lease({ holderIdentity: 'other' }), 20_000, 'take'],
    [
      'renewed in the far past by its own clock',
      lease({ ...other, renewTime: '1970-01-01T00:00:00.000000Z' }),
      0,
      'wait',
    ],
    [
      'renewed in the far future by its own clock',
      lease({ ...other, renewTime: '2999-01-01T00:00:00.000000Z' }),
      15_000,
      'take',
    ],
  ];
  for (const [name, seen, ago, expected] of cases) {
    const observation = seen && observe(seen, undefined, 1000);
    const input = { lease: seen, observation, identity: 'me', defaultDurationMs: 20_000, now: 1000 + ago };
    const step = nextStep(input);
    assert.equal(step.do, expected, name);
    if (step.do === 'wait') assert.equal(step.holder, 'other');
  }
});

test("only a change of a Lease's spec or UID counts as a renewal; a new resourceVersion alone does not", () => {
  const first = observe(lease(other, '1'), undefined, 100);
  assert.equal(observe(lease(other, '2'), first, 200), first, 'an annotation is no renewal');
  const renewed = observe(lease({ ...other, renewTime: microTime(NOW + 1) }), first, 300);
  assert.equal(renewed.at, 300);
  assert.equal(observe({ ...lease(other), metadata: { ...lease(other).metadata, uid: 'v' } }, first, 400).at, 400);
});

test('a written Lease has holder, duration, times and the number of changes of the holder', () => {
  const holder = { namespace: 'ns', name: 'keyferry', identity: 'me', durationMs: 15_000 };
  assert.deepEqual(heldLease({ do: 'create' }, holder, NOW), {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { namespace: 'ns', name: 'keyferry' },
    spec: {
      holderIdentity: 'me',
      leaseDurationSeconds: 15,
      acquireTime: '2026-11-21T09:30:15.042000Z',
      renewTime: '2026-11-21T09:30:15.042000Z',
      leaseTransitions: 0,
    },
  });
  const acquireTime = microTime(NOW - 60_000);
  const ours = lease({ ...other, holderIdentity: 'me', acquireTime, leaseTransitions: 4 });
  const renewTime = microTime(NOW);
  const spec = { holderIdentity: 'me', leaseDurationSeconds: 10, renewTime };
  assert.deepEqual(heldLease({ do: 'renew', lease: ours }, { ...holder, durationMs: 10_000 }, NOW), {
    ...ours,
    spec: { ...spec, acquireTime, leaseTransitions: 4 },
  });
  assert.deepEqual(heldLease({ do: 'take', lease: ours }, { ...holder, identity: 'you', durationMs: 10_000 }, NOW), {
    ...ours,
    spec: { ...spec, holderIdentity: 'you', acquireTime: renewTime, leaseTransitions: 5 },
  });
  assert.deepEqual(releasedLease(ours, NOW), {
    ...ours,
    spec: { holderIdentity: '', leaseDurationSeconds: 1, acquireTime: renewTime, renewTime, leaseTransitions: 4 },
  });
});

/**
 * Simulates elections without a server. Each replica has a clock with its own offset, and reads the Lease at random
 * times. Its write fails if another replica wrote after the read. A write may be carried out although its answer is
 * lost.
 */
test('property: two replicas never lead at the same time, and one leads if all keep trying', () => {
  const DURATION = 15_000;
  const DEADLINE = 10_000;
  const step = fc.record({
    who: fc.integer({ min: 0, max: 2 }),
    wait: fc.integer({ min: 0, max: 6000 }),
    outcome: fc.constantFrom('answered', 'answered', 'answered', 'answer lost', 'not sent'),
    latency: fc.integer({ min: 0, max: 5000 }),
  });
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 80, size: 'max' }),
      fc.array(fc.integer({ min: -1e9, max: 1e9 }), { minLength: 3, maxLength: 3 }),
      (steps, offsets) => {
        let time = 0;
        let stored: Lease | undefined;
        let version = 0;
        const members = offsets.map((offset, index) => ({
          identity: `m${index}`,
          offset,
          observation: undefined as ReturnType<typeof observe> | undefined,
          heldUntil: -Infinity,
        }));
        const play = (who: number, outcome: string, latency: number): void => {
          const member = members[who]!;
          const read = stored;
          if (read !== undefined) member.observation = observe(read, member.observation, time + member.offset);
          const startedAt = time;
          const input = {
            lease: read,
            observation: member.observation,
            identity: member.identity,
            defaultDurationMs: DURATION,
            now: time + member.offset,
          };
          const step = nextStep(input);
          if (step.do === 'wait' || outcome === 'not sent') return;
          time += latency;
          const holder = { namespace: 'ns', name: 'l', identity: member.identity, durationMs: DURATION };
          const body = heldLease(step, holder, time) as Lease;
          stored = { ...body, metadata: { ...lease(undefined).metadata, resourceVersion: String(++version) } };
          if (outcome === 'answered') member.heldUntil = startedAt + DEADLINE;
        };
        for (const { who, wait, outcome, latency } of steps) {
          time += wait;
          play(who, outcome, latency);
          assert.ok(members.filter((member) => member.heldUntil > time).length <= 1, 'two lead');
        }
        for (let round = 0; round < 20; round++) {
          for (const who of [0, 1, 2]) {
            time += 700;
            play(who, 'answered', 0);
          }
        }
        assert.equal(members.filter((member) => member.heldUntil > time).length, 1);
      },
    ),
    { numRuns: 300 },
  );
});
