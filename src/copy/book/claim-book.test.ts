import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { userCause } from '../model/cause.ts';
import { byRank, ClaimBook, type Entry } from './claim-book.ts';
import { type Claimed, type ClaimMode, type Outcome, PENDING, type Shape, SYNCED } from '../model/claim.ts';
import { asKey, asKeys } from '../../../test/support/keys.ts';
import type { RuleKey, ResourceKey } from '../model/keys.ts';

const R: RuleKey = asKey('r');
const TWO_RULES: readonly RuleKey[] = asKeys(['r1', 'r2']);
const A: ResourceKey = asKey('a');
const B: ResourceKey = asKey('b');
const TARGETS: readonly ResourceKey[] = [A, B, asKey('c')];
const S: ResourceKey = asKey('s');
const T: ResourceKey = asKey('t');
const SOURCES: readonly ResourceKey[] = [S, T];

const shape = (id: string): Shape => ({
  id,
  desiredState: () => ({ kind: 'wait', for: 'source', ...userCause('', '') }),
  heldVersion: () => undefined,
});

function claim(rule: RuleKey, target: ResourceKey, mode: ClaimMode, source: ResourceKey, id = 'shape'): Claimed {
  return { target, claim: { owner: { key: rule, title: rule, rank: rule }, mode, source, shape: shape(id) } };
}

const arbitraryClaims = fc.array(
  fc.record({
    target: fc.constantFrom(...TARGETS),
    mode: fc.constantFrom<ClaimMode[]>('own', 'fill', 'release'),
    source: fc.constantFrom(...SOURCES),
    id: fc.constantFrom('x', 'y'),
  }),
  { maxLength: 8 },
);

test('after any changes, each index of the claim book has exactly the claims that each rule set last', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ rule: fc.constantFrom(...asKeys<RuleKey>(['r1', 'r2', 'r3'])), claims: arbitraryClaims }), {
        size: 'max',
        maxLength: 20,
      }),
      (changes) => {
        const book = new ClaimBook();
        const model = new Map<RuleKey, Map<string, Claimed>>();
        const follows = new Map<string, readonly string[]>();
        for (const { rule, claims } of changes) {
          const made = claims.map(({ target, mode, source, id }) => claim(rule, target, mode, source, id));
          const before = model.get(rule) ?? new Map<string, Claimed>();
          const after = new Map<string, Claimed>();
          for (const one of made) {
            const key = `${one.claim.mode} ${one.target}`;
            if (!after.has(key)) after.set(key, one);
          }
          const sources = [...new Set(claims.map(({ source }) => source))];
          const sourcesBefore = new Set([...follows.values()].flat());
          model.set(rule, after);
          follows.set(rule, sources);
          const change = book.replace(rule, made, sources);
          assert.deepEqual(new Set(change.targets), differing(before, after));
          const sourcesAfter = new Set([...follows.values()].flat());
          assert.deepEqual(
            new Set(change.addedSources),
            new Set([...sourcesAfter].filter((source) => !sourcesBefore.has(source))),
          );
          assert.deepEqual(
            new Set(change.droppedSources),
            new Set([...sourcesBefore].filter((source) => !sourcesAfter.has(source))),
          );
        }
        const all = Array.from(model.values(), (claims) => Array.from(claims.values())).flat();
        for (const target of TARGETS) {
          const expected = all.filter((one) => one.target === target);
          assert.deepEqual(names(book.on(target)), names(expected));
        }
        for (const source of SOURCES) {
          const expected = all.filter((one) => one.claim.source === source).map(({ target }) => target);
          assert.deepEqual([...book.targetsOf(source)].sort(), expected.sort());
        }
        for (const [rule, claims] of model) {
          assert.deepEqual(names([...book.of(rule)]), names([...claims.values()]));
        }
      },
    ),
  );
});

/** The targets on which a claim was added, removed or changed. */
function differing(before: ReadonlyMap<string, Claimed>, after: ReadonlyMap<string, Claimed>): Set<string> {
  const targets = new Set<string>();
  for (const [key, one] of [...before, ...after]) {
    const [old, now] = [before.get(key), after.get(key)];
    if (old?.claim.source !== now?.claim.source || old?.claim.shape.id !== now?.claim.shape.id) targets.add(one.target);
  }
  return targets;
}

function names(claims: readonly Claimed[]): string[] {
  return claims
    .map(({ target, claim: { owner, mode, source, shape } }) => [owner.key, mode, target, source, shape.id].join(' '))
    .sort();
}

test('when a rule sets its claims again, an unchanged claim keeps its outcome, and a changed claim is pending again', () => {
  const book = new ClaimBook();
  book.replace(R, [claim(R, A, 'own', S), claim(R, B, 'own', S)], [S]);
  for (const entry of book.of(R)) book.settle(entry, { state: 'synced', ...userCause('Synced', '') });
  book.replace(R, [claim(R, A, 'own', S), claim(R, B, 'own', T)], [S, T]);
  assert.deepEqual(
    [...book.of(R)].map(({ target, outcome }) => [target, outcome.state]),
    [
      ['a', 'synced'],
      ['b', 'pending'],
    ],
  );
});

test("if a claim's source is the rule's own object, each new generation of the rule makes the claim pending again", () => {
  const book = new ClaimBook();
  const own = { ...claim(R, A, 'own', S).claim, isRuleSource: true } as const;
  const replace = (sourceGeneration: number): readonly string[] => {
    const { targets, unusedSources } = book.replace(R, [{ target: A, claim: { ...own, sourceGeneration } }], []);
    assert.deepEqual(unusedSources, []);
    return targets;
  };
  replace(1);
  for (const entry of book.of(R)) book.settle(entry, SYNCED);
  assert.deepEqual(replace(1), []);
  assert.equal(book.isUnderWay(R), false);
  assert.deepEqual(replace(2), ['a']);
  assert.equal(book.isUnderWay(R), true);
});

test('when a rule was deleted and created again, its targets count as changed, because the rule has another age', () => {
  const book = new ClaimBook();
  const aged = (rank: string): Claimed => ({
    target: T,
    claim: { owner: { key: R, title: 'a', rank }, mode: 'own', source: S, shape: shape('x') },
  });
  book.replace(R, [aged('2020')], []);
  assert.deepEqual(book.replace(R, [aged('2020')], []).targets, []);
  assert.deepEqual(book.replace(R, [aged('2030')], []).targets, ['t']);
  assert.deepEqual(
    Array.from(book.on(T), ({ claim: { owner } }) => owner.rank),
    ['2030'],
  );
});

test('all claims of a rule that ask for the same are one object, also on targets that come before and after the others', () => {
  const book = new ClaimBook();
  let targets: readonly ResourceKey[] = [B];
  for (const more of [B, A, asKey<ResourceKey>('c')]) {
    targets = [...new Set([more, ...targets])].toSorted();
    const { claim: shared } = claim(R, A, 'own', S);
    book.replace(
      R,
      targets.map((target) => ({ target, claim: shared })),
      [],
    );
  }
  const claims = Array.from(book.of(R), (entry) => entry.claim);
  assert.equal(claims.length, 3);
  assert.equal(new Set(claims).size, 1);
});

test('settle() returns true only if the outcome of the claim changed', () => {
  const book = new ClaimBook();
  book.replace(R, [claim(R, A, 'own', S)], []);
  const [entry] = book.on(A);
  assert.ok(entry);
  const outcome = { state: 'error' as const, ...userCause('Forbidden', 'no') };
  assert.equal(book.settle(entry, outcome), true);
  assert.equal(book.settle(entry, { ...outcome }), false);
  assert.equal(book.settle(entry, { ...outcome, message: 'still no' }), true);
  assert.equal(book.settle(entry, { ...outcome, message: 'still no', fault: 'operator' }), true);
});

test('owners are sorted by age (the oldest first), then by uid, then by key', () => {
  const owned = (key: RuleKey, rank: string) => ({ claim: { owner: { key, title: key, rank } } });
  const [young, old, twin] = [owned(asKey('a'), '2026 u1'), owned(asKey('b'), '2025 u2'), owned(asKey('c'), '2025 u2')];
  assert.deepEqual([young, twin, old].sort(byRank), [old, twin, young]);
});

test('a source is reported as unused only when no rule makes copies from it any more, even if rules still depend on it', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ rule: fc.constantFrom(...TWO_RULES), claims: arbitraryClaims, depends: fc.boolean() })),
      (changes) => {
        const book = new ClaimBook();
        const used = (): ResourceKey[] => SOURCES.filter((source) => book.userOf(source) !== undefined);
        for (const { rule, claims, depends } of changes) {
          const made = claims.map(({ target, mode, source, id }) => claim(rule, target, mode, source, id));
          const before = used();
          const sources = depends ? [...new Set(claims.map(({ source }) => source))] : [];
          const { unusedSources } = book.replace(rule, made, sources);
          const after = used();
          for (const source of before) assert.ok(after.includes(source) || unusedSources.includes(source), source);
          for (const source of unusedSources) assert.ok(!after.includes(source), source);
        }
      },
    ),
  );
});

test("isUnderWay() is true as long as one of the rule's claims is pending or waits for a watch", () => {
  const looking: Outcome = { state: 'waiting', for: 'watch', ...userCause('Pending', 'not looked up yet') };
  const missing: Outcome = { state: 'waiting', for: 'source', ...userCause('NoSecret', '') };
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          fc.record({ rule: fc.constantFrom(...TWO_RULES), claims: arbitraryClaims }),
          fc.record({ pick: fc.nat(), outcome: fc.constantFrom(PENDING, looking, missing, SYNCED) }),
        ),
      ),
      (steps) => {
        const book = new ClaimBook();
        // A run may end after its claim has left the book. So such claims get outcomes, too.
        const seen = new Set<Entry>();
        for (const step of steps) {
          if ('rule' in step) {
            const { rule, claims } = step;
            book.replace(
              rule,
              claims.map(({ target, mode, source, id }) => claim(rule, target, mode, source, id)),
              [],
            );
            for (const entry of book.of(rule)) seen.add(entry);
          } else {
            const entry = [...seen][step.pick % Math.max(1, seen.size)];
            if (entry !== undefined) book.settle(entry, step.outcome);
          }
          for (const rule of TWO_RULES) {
            const pending = [...book.of(rule)].some(({ outcome }) => outcome === PENDING || outcome === looking);
            assert.equal(book.isUnderWay(rule), pending);
          }
        }
      },
    ),
  );
});

test('the time for thousands of rules on one target, or of sources of one rule, grows only in proportion to their number', () => {
  /** Returns the CPU time in ms, because it does not include the time of other processes. */
  const fill = (count: number): number => {
    const book = new ClaimBook();
    const from = process.cpuUsage();
    for (let rule = 0; rule < count; rule += 1)
      book.replace(asKey(`r${rule}`), [claim(asKey(`r${rule}`), A, 'own', S)], [S]);
    for (const entry of book.on(A)) book.settle(entry, { state: 'synced', ...userCause('Synced', '') });
    for (let rule = 0; rule < count; rule += 1) book.replace(asKey(`r${rule}`), [], []);
    const sources = Array.from({ length: count }, (_, index) => asKey<ResourceKey>(`s${index}`));
    book.replace(asKey('wide'), [], sources);
    book.replace(asKey('wide'), [], sources.toReversed());
    assert.equal(book.isClaimed(A), false);
    const { user, system } = process.cpuUsage(from);
    return (user + system) / 1000;
  };
  fill(1000);
  // Thirty times as many claims take about thirty times as long. If each step looked at all claims, it would be 900
  // times.
  const few = Math.max(0.5, ...Array.from({ length: 5 }, () => fill(1000)));
  const all = Math.min(...Array.from({ length: 3 }, () => fill(30_000)));
  assert.ok(all < 300 * few, `${all.toFixed(1)} ms for 30,000, ${few.toFixed(1)} ms for 1,000`);
});
