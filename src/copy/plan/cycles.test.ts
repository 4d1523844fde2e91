import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import * as fc from 'fast-check';
import { userCause } from '../model/cause.ts';
import { type Claim, type Claimed, type ClaimMode, targetKeyOfSource, type Shape } from '../model/claim.ts';
import { ClaimBook } from '../book/claim-book.ts';
import { Cycles } from './cycles.ts';
import type { ResourceKey, RuleKey } from '../model/keys.ts';
import { asKey, asKeys } from '../../../test/support/keys.ts';
import { observedObject } from '../../../test/support/observed-object.ts';

const SHAPE: Shape = {
  id: 'shape',
  desiredState: ({ state }) =>
    state === 'present'
      ? { kind: 'be', labels: {}, annotations: {}, bookkeeping: {}, data: 'source' }
      : { kind: 'wait', for: 'source', ...userCause('', '') },
  heldVersion: () => undefined,
};
const FILL: Shape = {
  ...SHAPE,
  desiredState: (view, observed, now) =>
    SHAPE.desiredState(observed === undefined ? { state: 'unknown' } : view, observed, now),
};
const REFUSING: Shape = {
  ...FILL,
  desiredState: (...given) => {
    const desired = FILL.desiredState(...given);
    return desired.kind === 'be' ? { ...desired, refusesLoops: true } : desired;
  },
};

const claim = (rule: RuleKey, source: ResourceKey, target: ResourceKey, more: Partial<Claim> = {}): Claimed => ({
  target,
  claim: {
    owner: { key: rule, title: rule, rank: rule },
    mode: 'own',
    source,
    shape: more.mode === 'fill' ? REFUSING : SHAPE,
    ...more,
  },
});

/** A name that is the same for a claim and for the book's entry of this claim. */
function nameOf({ target, claim: { owner, mode, source } }: Claimed): string {
  return [owner.key, mode, source, target].join(' ');
}

/** What a key names: a copy with the mark of a rule, an object of a user, an entry in Vault, or nothing. */
type Thing = { readonly copyOf: RuleKey } | 'user' | 'entry' | 'nothing';

/** A claim book with its cycles. As the engine does, it decides a target again when its claims or its object change. */
class World {
  readonly book = new ClaimBook();
  /** Default: a copy of the first rule that claims it, or else the object of a user. */
  readonly things = new Map<ResourceKey, Thing>();
  /** The names of claims whose source forbids the copy. */
  readonly denied = new Set<string>();
  /** The names of claims whose source is not known yet. */
  readonly unknown = new Set<string>();
  /** The targets that were decided after a test last cleared this set. */
  readonly decided = new Set<ResourceKey>();
  readonly #queue = new Set<ResourceKey>();
  queries = 0;
  readonly cycles = new Cycles({
    book: this.book,
    contestOf: (target) => {
      this.queries += 1;
      const thing = this.thingAt(target);
      const isCopy = typeof thing === 'object';
      return {
        entries: this.book.on(target),
        observed: isCopy || thing === 'user' ? observedObject() : undefined,
        markedBy: isCopy ? thing.copyOf : undefined,
        leftBy: [],
        viewOf: (one) => {
          const name = nameOf({ target, claim: one });
          if (this.unknown.has(name)) return { state: 'unknown' };
          if (this.denied.has(name)) return { state: 'failed', ...userCause('Denied', '') };
          const from = targetKeyOfSource(one);
          if (from === undefined || this.thingAt(from) === 'nothing') return { state: 'missing', ...userCause('', '') };
          return { state: 'present', version: '1', labels: {}, annotations: {} };
        },
        now: 0,
      };
    },
    onChange: (targets) => {
      for (const target of targets) this.#queue.add(target);
    },
  });

  thingAt(place: ResourceKey): Thing {
    const [first] = this.rulesOwning(place).toSorted();
    return this.things.get(place) ?? (first === undefined ? 'user' : { copyOf: first });
  }

  rulesOwning(place: ResourceKey): RuleKey[] {
    return this.book.on(place).flatMap(({ claim: { mode, owner } }) => (mode === 'own' ? owner.key : []));
  }

  set(rule: RuleKey, ...claims: readonly Claimed[]): void {
    for (const target of this.book.replace(rule, claims, []).targets) this.#queue.add(target);
  }

  put(place: ResourceKey, thing: Thing): void {
    this.things.set(place, thing);
    this.objectChanged(place);
  }

  /** Queues the targets that a changed object concerns: the object itself, and all targets with it as their source. */
  objectChanged(place: ResourceKey): void {
    this.#queue.add(place);
    for (const one of this.book.from(place)) this.#queue.add(one.target);
  }

  settle(): void {
    for (const target of this.#queue) {
      this.#queue.delete(target);
      this.decided.add(target);
      this.cycles.visited(target);
    }
  }

  of(one: Claimed): ReturnType<ReturnType<Cycles['viewsOn']>> {
    const booked = this.book.on(one.target).find((entry) => nameOf(entry) === nameOf(one));
    return this.cycles.viewsOn(one.target)((booked ?? one).claim);
  }

  /** For each of the rules' claims that is in a cycle: the message of its failure, or else the state of its view. */
  views(rules: Iterable<RuleKey>): Map<Claimed, string> {
    this.settle();
    const views = new Map<Claimed, string>();
    for (const rule of rules) {
      for (const one of this.book.of(rule)) {
        const view = this.of(one);
        if (view !== undefined) views.set(one, view.state === 'failed' ? view.message : view.state);
      }
    }
    return views;
  }
}

/** Whether a claim would copy its source into its target now. */
function flows(world: World, one: Claimed): boolean {
  const { mode, owner } = one.claim;
  const from = targetKeyOfSource(one.claim);
  if (from === undefined || world.thingAt(from) === 'nothing' || world.denied.has(nameOf(one))) return false;
  const there = world.thingAt(one.target);
  if (mode === 'fill') return there !== 'nothing' && there !== 'entry';
  if (typeof there === 'object') return there.copyOf === owner.key;
  if (there === 'user') return false;
  // It is free. The first rule that can make it now gets it.
  const able = world.book.on(one.target).filter((other) => {
    const source = targetKeyOfSource(other.claim);
    const exists = source !== undefined && world.thingAt(source) !== 'nothing';
    return other.claim.mode === 'own' && exists && !world.denied.has(nameOf(other));
  });
  return able.every((other) => owner.key <= other.claim.owner.key);
}

/**
 * Finds claims in cycles by the definition: a claim is in a cycle if it would copy now, and a path of such claims leads
 * from its target to its source. A cycle of only `fill` claims does not count.
 */
function byDefinition(world: World, rules: Iterable<RuleKey>): Set<Claimed> {
  const claims = [...rules].flatMap((rule) => Array.from(world.book.of(rule)));
  const edges = claims.filter((one) => flows(world, one));
  const reach = (from: ResourceKey): Set<ResourceKey> => {
    const reached = new Set([from]);
    for (const place of reached)
      for (const edge of edges) if (targetKeyOfSource(edge.claim) === place) reached.add(edge.target);
    return reached;
  };
  const circling = edges.filter((one) => reach(one.target).has(targetKeyOfSource(one.claim) ?? one.target));
  return new Set(
    circling.filter((one) => {
      const there = reach(one.target);
      const together = circling.filter((other) => there.has(other.target) && reach(other.target).has(one.target));
      return together.some((other) => other.claim.mode !== 'fill');
    }),
  );
}

const place = fc.constantFrom(...asKeys<ResourceKey>(['a', 'b', 'c', 'd', 'e', 'f']));
const RULES = asKeys<RuleKey>(['r1', 'r2', 'r3', 'r4']);
const rule = fc.constantFrom(...RULES);
const edge = fc.record({
  source: place,
  target: place,
  mode: fc.constantFrom<ClaimMode[]>('own', 'own', 'own', 'fill', 'release'),
  /** Whether the source has another key as a target than as a source. */
  alias: fc.boolean(),
});
const steps = fc.array(
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({ do: fc.constant('rule' as const), rule, edges: fc.array(edge, { maxLength: 4 }) }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant('object' as const),
        place,
        thing: fc.oneof(fc.constantFrom<Thing[]>('user', 'entry', 'nothing'), fc.record({ copyOf: rule })),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('deny' as const), rule, nth: fc.nat({ max: 3 }) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('query' as const) }) },
  ),
  { maxLength: 25, size: 'max' },
);

test('after any history the found cycles match the definition and those found after a restart, and the targets concerned were decided again', () => {
  let found = 0;
  fc.assert(
    fc.property(steps, (history) => {
      const world = new World();
      let before = new Map<Claimed, string>();
      for (const step of history) {
        if (step.do === 'rule') {
          const claims = step.edges.map(({ source, target, mode, alias }) =>
            claim(step.rule, alias ? asKey(`as source ${source}`) : source, target, {
              mode,
              ...(alias ? { sourcePlace: source } : {}),
            }),
          );
          world.set(step.rule, ...claims);
        } else if (step.do === 'object') {
          world.put(step.place, step.thing);
        } else if (step.do === 'deny') {
          const entry = [...world.book.of(step.rule)][step.nth];
          if (entry === undefined) continue;
          if (!world.denied.delete(nameOf(entry))) world.denied.add(nameOf(entry));
          world.objectChanged(entry.target);
        } else {
          world.decided.clear();
          const views = world.views(RULES);
          const expected = byDefinition(world, RULES);
          assert.deepEqual(new Set(views.keys()), expected);
          found += expected.size;
          for (const [one, message] of views) {
            if (before.get(one) !== message)
              assert.ok(world.decided.has(one.target), `${one.target} was not decided again`);
          }
          for (const one of before.keys()) {
            if (!views.has(one)) assert.ok(world.decided.has(one.target), `${one.target} was not decided again`);
          }
          before = views;
          const fresh = new World();
          for (const one of world.denied) fresh.denied.add(one);
          for (const [at, thing] of world.things) fresh.things.set(at, thing);
          for (const key of RULES) fresh.set(key, ...world.book.of(key));
          const named = (all: Map<Claimed, string>) =>
            new Map(Array.from(all, ([one, message]) => [nameOf(one), message]));
          assert.deepEqual(named(fresh.views(RULES)), named(views), 'a fresh start finds other cycles');
        }
      }
    }),
    { numRuns: 2000 },
  );
  assert.ok(found > 1000, `only ${found} claims of cycles were seen`);
});

describe('a ring of rules', () => {
  const ring = (length: number): readonly (readonly [RuleKey, Claimed])[] =>
    Array.from(
      { length },
      (_, n) =>
        [asKey<RuleKey>(`r${n}`), claim(asKey(`r${n}`), asKey(`s${n}`), asKey(`s${(n + 1) % length}`))] as const,
    );

  it('the message of a cycle lists its rules in the order of copying, and the cycle ends if one of its rules ends', () => {
    const world = new World();
    for (const [key, one] of ring(3)) world.set(key, one);
    const message = 'nothing is written, because these rules copy in a cycle: r0 → r1 → r2';
    assert.deepEqual([...world.views(asKeys(['r0', 'r1', 'r2'])).values()], [message, message, message]);
    world.decided.clear();
    world.set(asKey('r1'));
    assert.equal(world.views(asKeys(['r0', 'r1', 'r2'])).size, 0);
    assert.deepEqual(world.decided, new Set(['s1', 's2', 's0']));
  });

  it('the message of a cycle is the same whichever claim is checked first, even if a rule is in the cycle twice', () => {
    const rules: readonly (readonly [RuleKey, readonly Claimed[]])[] = [
      [asKey('r4'), [claim(asKey('r4'), asKey('d'), asKey('a'))]],
      [asKey('r3'), [claim(asKey('r3'), asKey('c'), asKey('f'))]],
      [asKey('r1'), [claim(asKey('r1'), asKey('a'), asKey('c')), claim(asKey('r1'), asKey('f'), asKey('d'))]],
    ];
    const messages = [rules, rules.toReversed()].map((order) => {
      const world = new World();
      for (const [key, claims] of order) world.set(key, ...claims);
      return new Set(world.views(asKeys(['r1', 'r3', 'r4'])).values());
    });
    const message = 'nothing is written, because these rules copy in a cycle: r1 → r3 → r4';
    assert.deepEqual(messages, [new Set([message]), new Set([message])]);
  });

  it('the message of a cycle names at most ten rules', () => {
    const world = new World();
    for (const [key, one] of ring(12)) world.set(key, one);
    const [message] = world.views(asKeys(['r0'])).values();
    assert.match(message ?? '', /r0 → r1 → .* and 2 more$/);
  });

  it('a ring that has only fill claims is not reported if their shapes refuse loops themselves; else it is a loop', () => {
    const filling = (shape: Shape): World => {
      const world = new World();
      for (const [key, one] of ring(3)) world.set(key, { ...one, claim: { ...one.claim, mode: 'fill', shape } });
      return world;
    };
    const loop = filling(FILL);
    const entries = asKeys<RuleKey>(['r0', 'r1', 'r2']).flatMap((rule) => Array.from(loop.book.of(rule)));
    assert.deepEqual(
      entries.map((entry) => {
        const view = loop.of(entry);
        return view?.state === 'failed' ? view.reason : view?.state;
      }),
      ['Loop', 'Loop', 'Loop'],
    );
    const world = filling(REFUSING);
    assert.equal(world.views(asKeys(['r0', 'r1', 'r2'])).size, 0);
    world.set(asKey('r1'), claim(asKey('r1'), asKey('s1'), asKey('s2')));
    assert.equal(world.views(asKeys(['r0', 'r1', 'r2'])).size, 3);
  });
});

test('after the cycle of a target ended, the target is decided again, even if the same rules form another cycle', () => {
  const [a, c, e, f] = asKeys<ResourceKey>(['a', 'c', 'e', 'f']) as [
    ResourceKey,
    ResourceKey,
    ResourceKey,
    ResourceKey,
  ];
  const [r1, r4] = asKeys<RuleKey>(['r1', 'r4']) as [RuleKey, RuleKey];
  const world = new World();
  world.set(r1, claim(r1, f, a));
  world.set(r4, claim(r4, e, a), claim(r4, a, f));
  const before = world.views([r1, r4]);
  world.decided.clear();
  world.set(r1, claim(r1, a, e), claim(r1, c, a));
  const after = world.views([r1, r4]);
  const changed = [...before.keys()].filter((one) => before.get(one) !== after.get(one));
  assert.ok(changed.some(({ target }) => target === f));
  assert.ok(world.decided.has(f));
});

describe('the cost', () => {
  it('for claims that cannot be in a cycle, no other target is visited, however many claims there are', () => {
    const world = new World();
    for (let n = 0; n < 20; n += 1) {
      const fan = Array.from({ length: 1000 }, (_, m) => claim(asKey(`r${n}`), asKey(`s${n}`), asKey(`t${m}-${n}`)));
      world.set(asKey(`r${n}`), ...fan);
      for (const one of fan.slice(0, 10)) assert.equal(world.of(one), undefined);
    }
    world.settle();
    assert.equal(world.queries, 0);
  });

  it('one decision visits a limited number of targets in rings and chains of any length, and their rules write nothing', () => {
    for (const last of ['s0', 'end']) {
      const world = new World();
      const length = 2000;
      for (let n = 0; n < length; n += 1) {
        const at = (n * 7919) % length;
        world.set(
          asKey(`r${at}`),
          claim(asKey(`r${at}`), asKey(`s${at}`), asKey(at === length - 1 ? last : `s${at + 1}`)),
        );
      }
      world.settle();
      for (const at of [100, 1000, length - 2]) {
        world.queries = 0;
        world.cycles.visited(asKey(`s${at + 1}`));
        const [view] = world.views(asKeys([`r${at}`])).values();
        assert.match(view ?? '', /more than 32 copies, one after the other/);
        assert.ok(world.queries <= 100, `${world.queries} places were looked at`);
      }
    }
  });

  it('after a change in a long ring, only a limited number of targets is decided again', () => {
    const world = new World();
    const length = 2000;
    for (let n = 0; n < length; n += 1)
      world.set(asKey(`r${n}`), claim(asKey(`r${n}`), asKey(`s${n}`), asKey(`s${(n + 1) % length}`)));
    world.settle();
    world.decided.clear();
    world.set(asKey('r7'));
    world.settle();
    assert.ok(world.decided.size <= 100, `${world.decided.size} targets were decided again`);
    assert.equal(world.views(asKeys(['r8'])).size, 0);
  });
});

test('a claim waits while it is unknown whether another claim closes a cycle with it', () => {
  const world = new World();
  const there = claim(asKey('r1'), asKey('a'), asKey('b'));
  const back = claim(asKey('r2'), asKey('b'), asKey('a'));
  world.unknown.add(nameOf(back));
  world.set(asKey('r1'), there);
  world.set(asKey('r2'), back);
  assert.deepEqual(world.of(there), { state: 'unknown' });

  world.settle();
  world.decided.clear();
  world.unknown.delete(nameOf(back));
  world.objectChanged(asKey('a'));
  world.settle();
  assert.equal(world.of(there)?.state, 'failed');
  assert.deepEqual(world.decided, new Set(['a', 'b']));

  world.decided.clear();
  world.denied.add(nameOf(back));
  world.objectChanged(asKey('a'));
  world.settle();
  assert.equal(world.of(there), undefined);
  assert.deepEqual(world.decided, new Set(['a', 'b']));
});
