/** Tests the limit of targets and patterns for all rules in one namespace. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { MAX_TARGETS, RuleLimits, type RuleSize } from './rule-limits.ts';
import { namespaceOf, type RuleKey } from '../../../copy/model/keys.ts';
import { asKey } from '../../../../test/support/keys.ts';

const MAX_PATTERNS = 1_000_000;
const A = asKey<RuleKey>('m:a/a');
const B = asKey<RuleKey>('m:a/b');
const C = asKey<RuleKey>('m:a/c');
const OTHER = asKey<RuleKey>('m:b/a');

/** Evaluates each rule again for which there may be room, as the engine does. */
class World {
  readonly wanted = new Map<RuleKey, RuleSize>();
  /** What each rule has: it keeps this while it is refused. */
  readonly granted = new Map<RuleKey, RuleSize>();
  readonly refused = new Set<RuleKey>();
  readonly size: number;
  readonly limits: RuleLimits;
  readonly #woken = new Set<RuleKey>();

  constructor(namespaces = 10) {
    this.size = namespaces;
    this.limits = new RuleLimits('the rules', this, (rule) => this.#woken.add(rule));
  }

  get maxTargets(): number {
    return Math.max(MAX_TARGETS, 50 * this.size);
  }

  set(rule: RuleKey, targets: number | undefined, patterns = 0): void {
    if (targets === undefined) this.wanted.delete(rule);
    else this.wanted.set(rule, { targets, patterns });
    this.#evaluate(rule);
    for (const woken of this.#woken) {
      this.#woken.delete(woken);
      this.#evaluate(woken);
    }
  }

  #evaluate(rule: RuleKey): void {
    const wanted = this.wanted.get(rule);
    this.refused.delete(rule);
    if (wanted === undefined) {
      this.limits.leave(rule);
      this.granted.delete(rule);
    } else if (this.limits.take(rule, wanted) === undefined) this.granted.set(rule, wanted);
    else this.refused.add(rule);
  }

  /** The size of all rules in the namespace of this rule, except this rule. */
  beside(rule: RuleKey): RuleSize {
    const sum = { targets: 0, patterns: 0 };
    for (const [other, { targets, patterns }] of this.granted) {
      if (other === rule || namespaceOf(other) !== namespaceOf(rule)) continue;
      sum.targets += targets;
      sum.patterns += patterns;
    }
    return sum;
  }
}

test('after any history, all rules of a namespace together stay within the limits, and no rule waits for which there is room', () => {
  const step = fc.record({
    rule: fc.constantFrom(A, B, C, OTHER),
    targets: fc.option(fc.constantFrom(0, 1, 3000, 5000, 7000, 10_000), { nil: undefined }),
    patterns: fc.constantFrom(0, 20, 600_000, 1_000_000),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), fc.constantFrom(10, 300), (steps, namespaces) => {
      const world = new World(namespaces);
      for (const { rule, targets, patterns } of steps) {
        world.set(rule, targets, patterns);
        for (const [one, size] of world.wanted) {
          const beside = world.beside(one);
          const before = world.granted.get(one) ?? { targets: 0, patterns: 0 };
          assert.ok(beside.targets + before.targets <= world.maxTargets);
          assert.ok(beside.patterns + before.patterns <= MAX_PATTERNS);
          const isRoom =
            beside.targets + size.targets <= world.maxTargets && beside.patterns + size.patterns <= MAX_PATTERNS;
          assert.equal(world.refused.has(one), !isRoom, `${one} ${JSON.stringify([...world.wanted])}`);
        }
      }
    }),
  );
});

test('who comes when the namespace is full is refused with the numbers, and fits when another rule shrinks or goes', () => {
  const world = new World();
  world.set(A, 6000);
  world.set(B, 6000);
  assert.deepEqual([...world.refused], [B]);
  assert.deepEqual(world.limits.take(B, { targets: 6000, patterns: 0 }), {
    reason: 'TooManyTargets',
    message: 'the rules in namespace a may have 10000 targets in total, and with this one they would have 12000',
    fault: 'user',
    publicMessage: 'the rules in namespace a may have 10000 targets in total, and with this one they would have 12000',
  });
  world.set(OTHER, 10_000);
  world.set(A, 4000);
  assert.deepEqual([...world.refused], []);
  world.set(C, 1);
  world.set(A, undefined);
  assert.deepEqual([...world.refused], []);
  assert.match(
    world.limits.take(C, { targets: 1, patterns: 1_000_001 })?.message ?? '',
    /patterns of a size of 1000000/,
  );
});

test('a rule that grows above the limit counts as before, because its copies stay', () => {
  const world = new World();
  world.set(A, 5000);
  world.set(B, 4000);
  world.set(A, 7000);
  assert.deepEqual([...world.refused], [A]);
  world.set(C, 1001);
  assert.deepEqual([...world.refused], [A, C]);
  world.set(C, 1000);
  assert.deepEqual([...world.refused], [A]);
});

test('if the cluster has fewer namespaces than before, a rule that does not grow still fits', () => {
  const namespaces = { size: 400 };
  const limits = new RuleLimits('the rules', namespaces, () => undefined);
  const size = { targets: 10_000, patterns: 0 };
  assert.deepEqual([limits.take(A, size), limits.take(B, size)], [undefined, undefined]);
  namespaces.size = 10;
  assert.deepEqual([limits.take(B, size), limits.take(B, { ...size, targets: 9000 })], [undefined, undefined]);
  assert.equal(limits.take(C, { ...size, targets: 1 })?.reason, 'TooManyTargets');
});

test('in a cluster of 5,000 namespaces, 50 of 60 rules in one namespace may copy into all namespaces', () => {
  const world = new World(5000);
  for (let index = 0; index < 60; index += 1) world.set(asKey(`m:a/r${index}`), 5000);
  assert.equal(world.granted.size, 50);
});
