/** How many targets the rules of one namespace may have: the older rules first, whatever the order in which they ask. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { MAX_TARGETS, TargetLedger } from './target-ledger.ts';

/** Asks again for every rule that is told to, as the engine does. */
class World {
  readonly wanted = new Map<string, { namespace: string; rank: string; count: number }>();
  readonly admitted = new Set<string>();
  namespaces = 10;
  readonly #told = new Set<string>();
  readonly ledger = new TargetLedger({ namespaces: () => this.namespaces, onChange: (rule) => this.#told.add(rule) });

  set(rule: string, wanted: { namespace: string; rank: string; count: number } | undefined): void {
    if (wanted === undefined) this.wanted.delete(rule);
    else this.wanted.set(rule, wanted);
    this.#evaluate(rule);
  }

  recount(namespaces: number): void {
    this.namespaces = namespaces;
    this.ledger.recount();
    this.#settle();
  }

  #evaluate(rule: string): void {
    const wanted = this.wanted.get(rule);
    this.admitted.delete(rule);
    if (wanted === undefined) this.ledger.release(rule);
    else if (this.ledger.ask(rule, wanted.namespace, wanted.rank, wanted.count)) this.admitted.add(rule);
    this.#settle();
  }

  #settle(): void {
    for (const rule of this.#told) {
      this.#told.delete(rule);
      this.#evaluate(rule);
    }
  }
}

/** What is to come out, from the present state alone. */
function expected({ wanted, namespaces }: World): Set<string> {
  const limit = Math.max(MAX_TARGETS, 50 * namespaces);
  const sums = new Map<string, number>();
  const admitted = new Set<string>();
  const byAge = [...wanted].sort(([a, left], [b, right]) =>
    left.rank === right.rank ? (a < b ? -1 : 1) : left.rank < right.rank ? -1 : 1,
  );
  for (const [rule, { namespace, count }] of byAge) {
    const sum = (sums.get(namespace) ?? 0) + count;
    if (sum > limit) continue;
    sums.set(namespace, sum);
    admitted.add(rule);
  }
  return admitted;
}

test('after any history those are admitted that would be if all asked in the order of their age', () => {
  const wanted = fc.record({
    namespace: fc.constantFrom('a', 'b'),
    rank: fc.constantFrom('1', '2', '3', '4'),
    count: fc.constantFrom(0, 1, 3000, 5000, 7000, 10_000),
  });
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          fc.record({ rule: fc.constantFrom('p', 'q', 'r', 's', 't'), wanted: fc.option(wanted, { nil: undefined }) }),
          fc.record({ namespaces: fc.constantFrom(10, 300, 1000) }),
        ),
        { maxLength: 30 },
      ),
      (steps) => {
        const world = new World();
        for (const step of steps) {
          if ('namespaces' in step) world.recount(step.namespaces);
          else world.set(step.rule, step.wanted && { ...step.wanted, namespace: step.rule < 's' ? 'a' : 'b' });
          assert.deepEqual([...world.admitted].sort(), [...expected(world)].sort());
        }
      },
    ),
  );
});

test('one source to all of 5,000 namespaces fits, and so do fifty', () => {
  const world = new World();
  world.namespaces = 5000;
  for (let index = 0; index < 60; index += 1)
    world.set(`r${index}`, { namespace: 'a', rank: String(index + 100), count: 5000 });
  assert.equal(world.admitted.size, 50);
});
