import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import * as fc from 'fast-check';
import { type Claim, type ClaimMode, placeOf, type Shape } from '../model/claim.ts';
import { ClaimBook } from './claim-book.ts';
import { components } from './components.ts';
import { Cycles } from './cycles.ts';
import type { ResourceKey, RuleKey } from '../model/keys.ts';

const SHAPE: Shape = {
  id: 'shape',
  desiredState: () => ({ kind: 'wait', for: 'source', reason: '', message: '' }),
  heldVersion: () => undefined,
};

const claim = (rule: RuleKey, source: ResourceKey, target: ResourceKey, more: Partial<Claim> = {}): Claim => ({
  owner: { key: rule, title: rule, rank: rule },
  target,
  mode: 'own',
  source,
  shape: SHAPE,
  ...more,
});

/** A book and what is told of its cycles. */
class World {
  readonly book = new ClaimBook();
  readonly stopped = new Set<Claim>();
  /** Claims whose source has not been looked up yet. */
  readonly unknown = new Set<Claim>();
  /** Targets that were told to be looked at. */
  readonly touched = new Set<ResourceKey>();
  asked = 0;
  readonly cycles = new Cycles({
    book: this.book,
    flowOf: (one) => {
      this.asked += 1;
      if (this.unknown.has(one)) return 'unknown';
      return this.stopped.has(one) ? 'inactive' : 'active';
    },
    onChange: (targets) => {
      for (const target of targets) this.touched.add(target);
    },
  });

  set(rule: RuleKey, ...claims: readonly Claim[]): void {
    this.cycles.changed(this.book.replace(rule, claims, []));
  }

  /** What is said of each claim that is part of a cycle. */
  said(rules: Iterable<RuleKey>): Map<Claim, string> {
    const said = new Map<Claim, string>();
    for (const rule of rules) {
      for (const { claim: one } of this.book.of(rule)) {
        const view = this.cycles.of(one);
        if (view !== undefined) said.set(one, view.state === 'failed' ? view.message : view.state);
      }
    }
    return said;
  }
}

/** Of the definition: a claim is part of a cycle if its target leads back to its source; those that all fill are left alone. */
function byDefinition(world: World, rules: Iterable<RuleKey>): Set<Claim> {
  const claims = [...rules].flatMap((rule) => [...world.book.of(rule)].map((entry) => entry.claim));
  const edges = claims.filter((one) => placeOf(one) !== undefined && !world.stopped.has(one));
  const reach = (from: ResourceKey): Set<ResourceKey> => {
    const reached = new Set([from]);
    for (const place of reached) for (const edge of edges) if (placeOf(edge) === place) reached.add(edge.target);
    return reached;
  };
  const circling = edges.filter((one) => reach(one.target).has(placeOf(one) ?? ''));
  return new Set(
    circling.filter((one) => {
      const there = reach(one.target);
      const together = circling.filter((other) => there.has(other.target) && reach(other.target).has(one.target));
      return together.some(({ mode }) => mode !== 'fill');
    }),
  );
}

const place = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f');
const rule = fc.constantFrom('r1', 'r2', 'r3', 'r4');
const RULES = ['r1', 'r2', 'r3', 'r4'];
const edge = fc.record({
  source: place,
  target: place,
  mode: fc.constantFrom<ClaimMode[]>('own', 'own', 'own', 'fill', 'release'),
  /** The source has another key than as a target. */
  alias: fc.boolean(),
});
const steps = fc.array(
  fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({ do: fc.constant('rule' as const), rule, edges: fc.array(edge, { maxLength: 4 }) }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('flow' as const), rule, nth: fc.nat({ max: 3 }) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('ask' as const) }) },
  ),
  { maxLength: 25, size: 'max' },
);

test('the claims of cycles are those of the definition after any history, whoever is concerned is told, and a fresh start says the same', () => {
  let found = 0;
  fc.assert(
    fc.property(steps, (history) => {
      const world = new World();
      let before = new Map<Claim, string>();
      for (const step of history) {
        if (step.do === 'rule') {
          const claims = step.edges.map(({ source, target, mode, alias }) =>
            claim(step.rule, alias ? `as source ${source}` : source, target, {
              mode,
              ...(alias ? { sourcePlace: source } : {}),
            }),
          );
          world.set(step.rule, ...claims);
        } else if (step.do === 'flow') {
          const entry = [...world.book.of(step.rule)][step.nth];
          if (entry === undefined) continue;
          if (!world.stopped.delete(entry.claim)) world.stopped.add(entry.claim);
          world.cycles.objectChanged(entry.claim.target);
        } else {
          world.touched.clear();
          world.cycles.refresh();
          const said = world.said(RULES);
          const expected = byDefinition(world, RULES);
          assert.deepEqual(new Set(said.keys()), expected);
          found += expected.size;
          for (const [one, message] of said) {
            if (before.get(one) !== message) assert.ok(world.touched.has(one.target), `${one.target} was not touched`);
          }
          for (const one of before.keys()) {
            if (!said.has(one)) assert.ok(world.touched.has(one.target), `${one.target} was not touched`);
          }
          before = said;
          const fresh = new World();
          for (const one of world.stopped) fresh.stopped.add(one);
          for (const key of RULES) fresh.set(key, ...[...world.book.of(key)].map((entry) => entry.claim));
          const anew = fresh.said(RULES);
          assert.deepEqual(anew, said, 'a fresh start says something else');
        }
      }
    }),
    { numRuns: 2000 },
  );
  assert.ok(found > 1000, `only ${found} claims of cycles were seen`);
});

describe('a ring of rules', () => {
  const ring = (length: number): readonly (readonly [RuleKey, Claim])[] =>
    Array.from({ length }, (_, n) => [`r${n}`, claim(`r${n}`, `s${n}`, `s${(n + 1) % length}`)] as const);

  it('is named along its way, and opened by any of them', () => {
    const world = new World();
    for (const [key, one] of ring(3)) world.set(key, one);
    const message = 'nothing is written, because these rules copy in a cycle: r0 → r1 → r2';
    assert.deepEqual([...world.said(['r0', 'r1', 'r2']).values()], [message, message, message]);
    world.touched.clear();
    world.set('r1');
    world.cycles.refresh();
    assert.deepEqual(world.touched, new Set(['s1', 's2', 's0']));
    assert.equal(world.said(['r0', 'r1', 'r2']).size, 0);
  });

  it('is named alike wherever the search begins, also where a rule is part of it twice', () => {
    const rules: readonly (readonly [RuleKey, readonly Claim[]])[] = [
      ['r4', [claim('r4', 'd', 'a')]],
      ['r3', [claim('r3', 'c', 'f')]],
      ['r1', [claim('r1', 'a', 'c'), claim('r1', 'f', 'd')]],
    ];
    const messages = [rules, rules.toReversed()].map((order) => {
      const world = new World();
      for (const [key, claims] of order) world.set(key, ...claims);
      return new Set(world.said(['r1', 'r3', 'r4']).values());
    });
    const message = 'nothing is written, because these rules copy in a cycle: r1 → r3 → r4';
    assert.deepEqual(messages, [new Set([message]), new Set([message])]);
  });

  it('names ten of many', () => {
    const world = new World();
    for (const [key, one] of ring(12)) world.set(key, one);
    const [message] = world.said(['r0']).values();
    assert.match(message ?? '', /r0 → r1 → .* and 2 more$/);
  });

  it('leaves other claims of its rules alone, and chains and diamonds beside it', () => {
    const world = new World();
    for (const [key, one] of ring(3)) world.set(key, one, claim(key, one.source ?? '', `other-${key}`));
    world.set('chain', claim('chain', 'other-r0', 'end-1'), claim('chain', 'other-r1', 'end-1b'));
    world.set('into', claim('into', 'origin', 's0', { mode: 'fill' }));
    assert.deepEqual([...world.said(['r0', 'r1', 'r2', 'chain', 'into']).keys()].map(({ target }) => target).sort(), [
      's0',
      's1',
      's2',
    ]);
    const diamond = new World();
    diamond.set('r', claim('r', 'top', 'left'), claim('r', 'top', 'right'));
    diamond.set('l', claim('l', 'left', 'bottom'));
    diamond.set('m', claim('m', 'right', 'bottom'));
    assert.equal(diamond.said(['r', 'l', 'm']).size, 0);
  });

  it('is open where a rule that is being deleted releases its target', () => {
    const world = new World();
    world.set('r1', claim('r1', 'as source b', 'c', { mode: 'release', sourcePlace: 'b' }));
    world.set('r2', claim('r2', 'c', 'b'));
    assert.equal(world.said(['r1', 'r2']).size, 0);
  });

  it('that only fills is left to its own guard', () => {
    const world = new World();
    for (const [key, one] of ring(3)) world.set(key, { ...one, mode: 'fill' });
    assert.equal(world.said(['r0', 'r1', 'r2']).size, 0);
    world.set('r1', claim('r1', 's1', 's2'));
    assert.equal(world.said(['r0', 'r1', 'r2']).size, 3);
  });
});

describe('what it costs', () => {
  it('is nothing for claims that can be part of no cycle, however many', () => {
    const world = new World();
    for (let n = 0; n < 20; n += 1) {
      const fan = Array.from({ length: 1000 }, (_, m) => claim(`r${n}`, `s${n}`, `t${m}-${n}`));
      world.set(`r${n}`, ...fan);
      for (const one of fan.slice(0, 10)) assert.equal(world.cycles.of(one), undefined);
    }
    assert.equal(world.asked, 0);
    assert.ok(world.cycles.isEmpty);
  });

  it('is one search for a chain of 20,000 rules that come in any order', () => {
    const world = new World();
    const length = 20_000;
    let searched = 0;
    const from = world.book.from.bind(world.book);
    world.book.from = (key) => {
      searched += 1;
      return from(key);
    };
    for (let n = 0; n < length; n += 1) {
      const at = (n * 7919) % length;
      world.set(`r${at}`, claim(`r${at}`, `s${at}`, `s${at + 1}`));
    }
    world.cycles.refresh();
    assert.ok(world.cycles.isEmpty);
    assert.ok(searched <= 2 * length, `${searched} places were looked at`);
    world.set('last', claim('last', `s${length}`, 's0'));
    assert.ok(world.cycles.of(claim('r0', 's0', 's1')) === undefined, 'a claim that is not in the book');
    const [{ claim: first } = { claim: undefined }] = world.book.of('r0');
    assert.ok(first !== undefined && world.cycles.of(first) !== undefined);
  });
});

test('components: a search without recursion finds those that hold a cycle', () => {
  const graph: Readonly<Record<string, readonly string[]>> = {
    a: ['b'],
    b: ['c', 'd'],
    c: ['a'],
    d: ['d', 'e'],
    e: [],
  };
  assert.deepEqual(
    components(['a'], (one) => graph[one] ?? []).map((one) => one.toSorted()),
    [['d'], ['a', 'b', 'c']],
  );
});

test('a claim waits while it is not known whether another one closes its cycle', () => {
  const world = new World();
  const there = claim('r1', 'a', 'b');
  const back = claim('r2', 'b', 'a');
  world.unknown.add(back);
  world.set('r1', there);
  world.set('r2', back);
  assert.deepEqual(world.cycles.of(there), { state: 'unknown' });

  world.touched.clear();
  world.unknown.delete(back);
  world.cycles.objectChanged('a');
  assert.equal(world.cycles.of(there)?.state, 'failed');
  assert.deepEqual(world.touched, new Set(['a', 'b']));

  world.touched.clear();
  world.stopped.add(back);
  world.cycles.objectChanged('a');
  assert.equal(world.cycles.of(there), undefined);
  assert.deepEqual(world.touched, new Set(['a', 'b']));
});
