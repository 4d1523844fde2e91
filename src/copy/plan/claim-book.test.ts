import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { userCause } from '../model/cause.ts';
import { byRank, ClaimBook, type Entry } from './claim-book.ts';
import { type Claim, type ClaimMode, type Outcome, PENDING, type Shape, SYNCED } from '../model/claim.ts';

const shape = (id: string): Shape => ({
  id,
  desiredState: () => ({ kind: 'wait', for: 'source', ...userCause('', '') }),
  heldVersion: () => undefined,
});

function claim(rule: string, target: string, mode: ClaimMode, source: string, id = 'shape'): Claim {
  return { owner: { key: rule, title: rule, rank: rule }, target, mode, source, shape: shape(id) };
}

const arbitraryClaims = fc.array(
  fc.record({
    target: fc.constantFrom('a', 'b', 'c'),
    mode: fc.constantFrom<ClaimMode[]>('own', 'fill', 'release'),
    source: fc.constantFrom('s', 't'),
    id: fc.constantFrom('x', 'y'),
  }),
  { maxLength: 8 },
);

test('after any changes all indexes have the claims of the last change of each rule', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ rule: fc.constantFrom('r1', 'r2', 'r3'), claims: arbitraryClaims }), {
        size: 'max',
        maxLength: 20,
      }),
      (changes) => {
        const book = new ClaimBook();
        const model = new Map<string, Map<string, Claim>>();
        const follows = new Map<string, readonly string[]>();
        for (const { rule, claims } of changes) {
          const made = claims.map(({ target, mode, source, id }) => claim(rule, target, mode, source, id));
          const before = model.get(rule) ?? new Map<string, Claim>();
          const after = new Map<string, Claim>();
          for (const one of made) {
            const key = `${one.mode} ${one.target}`;
            if (!after.has(key)) after.set(key, one);
          }
          const sources = [...new Set(made.map(({ source }) => source ?? ''))];
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
        for (const target of ['a', 'b', 'c']) {
          const expected = all.filter((one) => one.target === target);
          assert.deepEqual(names(book.on(target).map((entry) => entry.claim)), names(expected));
        }
        for (const source of ['s', 't']) {
          const expected = all.filter((one) => one.source === source).map(({ target }) => target);
          assert.deepEqual([...book.targetsOf(source)].sort(), expected.sort());
        }
        for (const [rule, claims] of model) {
          assert.deepEqual(names([...book.of(rule)].map((entry) => entry.claim)), names([...claims.values()]));
        }
      },
    ),
  );
});

/** Targets on which a claim was added, removed or changed. */
function differing(before: ReadonlyMap<string, Claim>, after: ReadonlyMap<string, Claim>): Set<string> {
  const targets = new Set<string>();
  for (const [key, one] of [...before, ...after]) {
    const [old, now] = [before.get(key), after.get(key)];
    if (old?.source !== now?.source || old?.shape.id !== now?.shape.id) targets.add(one.target);
  }
  return targets;
}

function names(claims: readonly Claim[]): string[] {
  return claims.map((one) => `${one.owner.key} ${one.mode} ${one.target} ${one.source} ${one.shape.id}`).sort();
}

test('an unchanged claim keeps its outcome, a changed one is pending again', () => {
  const book = new ClaimBook();
  book.replace('r', [claim('r', 'a', 'own', 's'), claim('r', 'b', 'own', 's')], ['s']);
  for (const entry of book.of('r')) book.settle(entry, { state: 'synced', ...userCause('Synced', '') });
  book.replace('r', [claim('r', 'a', 'own', 's'), claim('r', 'b', 'own', 't')], ['s', 't']);
  assert.deepEqual(
    [...book.of('r')].map(({ claim, outcome }) => [claim.target, outcome.state]),
    [
      ['a', 'synced'],
      ['b', 'pending'],
    ],
  );
});

test('a claim on the content of its own rule is pending again with each generation', () => {
  const book = new ClaimBook();
  const own = { ...claim('r', 'a', 'own', 's'), isRuleSource: true } as const;
  const replace = (sourceGeneration: number): readonly string[] => {
    const { targets, unusedSources } = book.replace('r', [{ ...own, sourceGeneration }], []);
    assert.deepEqual(unusedSources, []);
    return targets;
  };
  replace(1);
  for (const entry of book.of('r')) book.settle(entry, SYNCED);
  assert.deepEqual(replace(1), []);
  assert.equal(book.isUnderWay('r'), false);
  assert.deepEqual(replace(2), ['a']);
  assert.equal(book.isUnderWay('r'), true);
});

test('a recreated rule has new claims: its targets are reported, because its age changed', () => {
  const book = new ClaimBook();
  const aged = (rank: string): Claim => ({
    owner: { key: 'r:a', title: 'a', rank },
    target: 't',
    mode: 'own',
    source: 's',
    shape: shape('x'),
  });
  book.replace('r:a', [aged('2020')], []);
  assert.deepEqual(book.replace('r:a', [aged('2020')], []).targets, []);
  assert.deepEqual(book.replace('r:a', [aged('2030')], []).targets, ['t']);
  assert.deepEqual(
    Array.from(book.on('t'), ({ claim: { owner } }) => owner.rank),
    ['2030'],
  );
});

test('settle returns whether the outcome changed', () => {
  const book = new ClaimBook();
  book.replace('r', [claim('r', 'a', 'own', 's')], []);
  const [entry] = book.on('a');
  assert.ok(entry);
  const outcome = { state: 'error' as const, ...userCause('Forbidden', 'no') };
  assert.equal(book.settle(entry, outcome), true);
  assert.equal(book.settle(entry, { ...outcome }), false);
  assert.equal(book.settle(entry, { ...outcome, message: 'still no' }), true);
  assert.equal(book.settle(entry, { ...outcome, message: 'still no', fault: 'operator' }), true);
});

test('the older owner comes first, then the smaller uid, then the smaller name', () => {
  const owned = (key: string, rank: string) => ({ claim: { owner: { key, title: key, rank } } });
  const [young, old, twin] = [owned('a', '2026 u1'), owned('b', '2025 u2'), owned('c', '2025 u2')];
  assert.deepEqual([young, twin, old].sort(byRank), [old, twin, young]);
});

test('an object is reported as unused when no rule makes copies from it any more, with any dependencies of the rules', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ rule: fc.constantFrom('r1', 'r2'), claims: arbitraryClaims, depends: fc.boolean() })),
      (changes) => {
        const book = new ClaimBook();
        const used = (): string[] => ['s', 't'].filter((source) => book.userOf(source) !== undefined);
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

test('a rule is under way as long as one of its claims is', () => {
  const looking: Outcome = { state: 'waiting', for: 'watch', ...userCause('Pending', 'not looked up yet') };
  const missing: Outcome = { state: 'waiting', for: 'source', ...userCause('NoSecret', '') };
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          fc.record({ rule: fc.constantFrom('r1', 'r2'), claims: arbitraryClaims }),
          fc.record({ pick: fc.nat(), outcome: fc.constantFrom(PENDING, looking, missing, SYNCED) }),
        ),
      ),
      (steps) => {
        const book = new ClaimBook();
        // Also claims that are no longer in the book: a run may end late.
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
          for (const rule of ['r1', 'r2']) {
            const pending = [...book.of(rule)].some(({ outcome }) => outcome === PENDING || outcome === looking);
            assert.equal(book.isUnderWay(rule), pending);
          }
        }
      },
    ),
  );
});

test('thousands of rules that claim one target, and one rule with thousands of sources, cost in proportion', () => {
  /** CPU time, which does not include other processes. */
  const fill = (count: number): number => {
    const book = new ClaimBook();
    const from = process.cpuUsage();
    for (let rule = 0; rule < count; rule += 1) book.replace(`r${rule}`, [claim(`r${rule}`, 'a', 'own', 's')], ['s']);
    for (const entry of book.on('a')) book.settle(entry, { state: 'synced', ...userCause('Synced', '') });
    for (let rule = 0; rule < count; rule += 1) book.replace(`r${rule}`, [], []);
    const sources = Array.from({ length: count }, (_, index) => `s${index}`);
    book.replace('wide', [], sources);
    book.replace('wide', [], sources.toReversed());
    assert.equal(book.isClaimed('a'), false);
    const { user, system } = process.cpuUsage(from);
    return (user + system) / 1000;
  };
  fill(1000);
  // Thirty times as many claims take about thirty times as long. If a step took time in proportion to all claims, it would be 900 times.
  const few = Math.max(0.5, ...Array.from({ length: 5 }, () => fill(1000)));
  const all = Math.min(...Array.from({ length: 3 }, () => fill(30_000)));
  assert.ok(all < 300 * few, `${all.toFixed(1)} ms for 30,000, ${few.toFixed(1)} ms for 1,000`);
});
