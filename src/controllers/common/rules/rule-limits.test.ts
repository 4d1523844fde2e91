/** Tests the limit of targets for all rules in one namespace: older rules take precedence, in any order of demands. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { MAX_TARGETS, RuleLimits } from './rule-limits.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import { asKey, asKeys } from '../../../../test/support/keys.ts';

/** Evaluates each rule again for which `onChange` is called, as the engine does. */
class World {
  readonly wanted = new Map<RuleKey, { namespace: string; rank: string; count: number }>();
  readonly admitted = new Set<RuleKey>();
  /** The number of namespaces. */
  size = 10;
  readonly #changed = new Set<RuleKey>();
  readonly ledger = new RuleLimits(this, (rule) => this.#changed.add(rule));

  set(rule: RuleKey, wanted: { namespace: string; rank: string; count: number } | undefined): void {
    if (wanted === undefined) this.wanted.delete(rule);
    else this.wanted.set(rule, wanted);
    this.#evaluate(rule);
  }

  recount(namespaces: number): void {
    this.size = namespaces;
    this.ledger.recount();
    this.#settle();
  }

  #evaluate(rule: RuleKey): void {
    const wanted = this.wanted.get(rule);
    this.admitted.delete(rule);
    const demand = wanted && this.ledger.demand(rule, wanted.namespace, wanted.rank, wanted.count);
    if (demand?.isAdmitted === true) this.admitted.add(rule);
    this.ledger.record(rule, demand);
    this.#settle();
  }

  #settle(): void {
    for (const rule of this.#changed) {
      this.#changed.delete(rule);
      this.#evaluate(rule);
    }
  }
}

/** The admitted rules, computed from the present state only. */
function expected({ wanted, size: namespaces }: World): Set<string> {
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

test('after any history of demands, the limits admit rules from the oldest to the youngest, and refuse those that do not fit', () => {
  const wanted = fc.record({
    namespace: fc.constantFrom('a', 'b'),
    rank: fc.constantFrom('1', '2', '3', '4'),
    count: fc.constantFrom(0, 1, 3000, 5000, 7000, 10_000),
  });
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          fc.record({
            rule: fc.constantFrom(...asKeys<RuleKey>(['p', 'q', 'r', 's', 't'])),
            wanted: fc.option(wanted, { nil: undefined }),
          }),
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

test('in a cluster of 5,000 namespaces, 50 of 60 rules in one namespace may copy into all namespaces', () => {
  const world = new World();
  world.size = 5000;
  for (let index = 0; index < 60; index += 1)
    world.set(asKey(`r${index}`), { namespace: 'a', rank: String(index + 100), count: 5000 });
  assert.equal(world.admitted.size, 50);
});

test('if two rules are evaluated at the same time and only one fits the limit, the younger rule is evaluated again and refused', () => {
  const changed: RuleKey[] = [];
  const limits = new RuleLimits({ size: 1 }, (rule) => changed.push(rule));
  const [older, younger] = [asKey<RuleKey>('older'), asKey<RuleKey>('younger')];
  const demands = [limits.demand(younger, 'a', '2', 7000), limits.demand(older, 'a', '1', 7000)];
  assert.deepEqual(
    demands.map(({ isAdmitted }) => isAdmitted),
    [true, true],
  );
  limits.record(younger, demands[0]);
  limits.record(older, demands[1]);
  assert.deepEqual(changed.splice(0), [younger]);
  limits.record(younger, limits.demand(younger, 'a', '2', 7000));
  assert.deepEqual([changed.splice(0), limits.demandOf(younger)?.isAdmitted], [[], false]);
  limits.record(older, undefined);
  assert.deepEqual(changed, [younger], 'there is room now');
});
