/** Tests the engine: start of backends, turns of namespaces, orphans, failures and preparations (finalizers). */
import { namespaceOf, type ObjectKey, parseRuleKey, type ResourceKey, type RuleKey } from '../model/keys.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { userCause, type Cause } from '../model/cause.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { stubBackend } from '../../../test/support/stub-backend.ts';
import { Engine, type EngineOptions } from './engine.ts';
import { type Claim, claimAll, type Owner, LeaveShape, type SourceView } from '../model/claim.ts';
import type { Evaluation } from '../model/rule-set.ts';
import { observe } from '../model/observed.ts';
import { observedObject } from '../../../test/support/observed-object.ts';
import { lifeOf, type WholeLife } from '../../../test/support/life.ts';
import { asKey, asKeys } from '../../../test/support/keys.ts';

const RULE: RuleKey = asKey('rules:a/rule');
const TARGET: ResourceKey = asKey('c:Secret/b/copy');
/** The rules' copies carry their marks, and none is kept without a claim. */
const ORPHANED: Partial<WholeLife> = { markOn: () => ({ rule: RULE }), orphanPolicy: () => 'delete' };

class TestEngine extends Engine implements AsyncDisposable {
  constructor(options: Partial<EngineOptions> = {}) {
    super({ onError: (_loop, _key, error) => assert.fail(String(error)), ...options });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** Claims of a rule whose shape leaves the targets as they are. A test may evaluate a rule to it. */
function leaving(
  rule: RuleKey,
  targets: Iterable<ResourceKey>,
  {
    reason = 'Left',
    version = '1',
    ...more
  }: Partial<Claim> & { readonly reason?: string; readonly version?: string } = {},
): Evaluation {
  const owner: Owner = { key: rule, title: rule, rank: '' };
  const shape = new LeaveShape(userCause(reason, ''));
  const claim: Claim = { owner, mode: 'own', source: undefined, shape, ...more };
  return {
    owner,
    version,
    claims: claimAll(targets, claim),
    sources: claim.source === undefined ? [] : [claim.source],
  };
}

const COPY = observe({
  uid: 'u',
  name: 'copy',
  namespace: 'b',
  resourceVersion: '1',
  creationTimestamp: '2026-01-01T00:00:00Z',
});

test('if a backend is not synced, no other backend waits for it', async () => {
  const synced = Promise.withResolvers<void>();
  const [late, other] = [stubBackend('late', synced.promise), stubBackend('other')];
  await using engine = new TestEngine();
  engine.backends.add(late);
  engine.backends.add(other);
  engine.enqueueTarget(asKey('late:Secret/a/b'));
  engine.enqueueTarget(asKey('other:Secret/a/b'));
  await engine.start(new AbortController().signal);
  await waitFor(() => other.reconciled.length > 0, { message: 'the targets of the other backend to start' });
  assert.deepEqual(late.reconciled, []);
  synced.resolve();
  await waitFor(() => late.reconciled.length > 0, { message: 'its targets to start when it is synced' });
});

for (const shareBy of ['rule', 'target'] as const) {
  test(`namespaces of rules take turns, and orphans have one turn together, also where the namespaces of the ${shareBy}s share the workers`, async () => {
    const backend = stubBackend('c', Promise.resolve(), shareBy);
    await using engine = new TestEngine();
    engine.backends.add(backend);
    const claim = (rule: string, names: readonly string[]): ResourceKey[] => {
      const key: RuleKey = asKey(`rules:${rule}`);
      const targets = names.map((name): ResourceKey => asKey(`c:Secret/${name}`));
      engine.claims.put(key, leaving(key, targets));
      return targets;
    };
    const hundred = Array.from({ length: 100 }, (_, index) => String(index));
    const noisy = claim('noisy/a', [
      ...hundred.map((index) => `${index}/a`),
      ...hundred.map((index) => `same/${index}`),
    ]);
    const quiet = claim('quiet/b', ['0/b', 'same/b']);
    // In the namespace `forger` are 100 orphans. Another namespace has one.
    const orphans: readonly ResourceKey[] = [...hundred.map((index) => `forger/${index}`), 'victim/c'].map((name) =>
      asKey(`c:Secret/${name}`),
    );
    for (const target of [...noisy, ...quiet, ...orphans]) engine.enqueueTarget(target);
    await engine.start(new AbortController().signal);
    await waitFor(() => backend.reconciled.length === 303);
    const last = Math.max(...[...quiet, orphans.at(-1)!].map((target) => backend.reconciled.indexOf(target)));
    assert.ok(last < 6, `one of them came at place ${last}: ${backend.reconciled.slice(0, 10).join(', ')}`);
  });
}

for (const isLate of [false, true])
  test(`after a restart orphans take their turn beside the namespaces of the rules, ${isLate ? 'also in a cluster that is listed late' : 'however many copies these have'}`, async () => {
    const synced = Promise.withResolvers<void>();
    const backend = stubBackend('c', synced.promise);
    await using engine = new TestEngine();
    engine.backends.add(backend);
    /** The copies of each rule. One rule has more than one event gives normal priority. */
    const copies = new Map<RuleKey, readonly ResourceKey[]>(
      ['wide', ...Array.from({ length: 300 }, (_, index) => `rule-${index}`)].map((rule) => [
        asKey(`rules:team/${rule}`),
        Array.from({ length: rule === 'wide' ? 1000 : 1 }, (_, index): ResourceKey =>
          asKey(`c:Secret/ns-${index}/${rule}`),
        ),
      ]),
    );
    engine.add(
      lifeOf({
        evaluate: (key) => leaving(key, copies.get(key) ?? []),
        markOn: ({ annotations }) => ({ rule: asKey(annotations['owner'] ?? '') }),
        getLive: async () => await Promise.resolve({ state: 'gone' }),
        orphanPolicy: () => 'delete',
      }),
    );
    const listed = (copy: ResourceKey, owner: RuleKey): void => {
      const place = copy.slice('c:Secret/'.length);
      const annotations = { owner, 'keyferry.dev/target': place };
      engine.objectChanged(asKey(copy), undefined, observedObject({ annotations }));
    };
    const orphans = Array.from({ length: 5 }, (_, index): ResourceKey => asKey(`c:Secret/ns-${index}/orphan`));
    const list = (): void => {
      for (const [rule, targets] of copies) for (const target of targets) listed(target, rule);
      for (const orphan of orphans) listed(orphan, asKey(`rules:gone/${namespaceOf(orphan)}`));
    };
    if (!isLate) list();
    for (const rule of copies.keys()) engine.enqueueRule(rule);
    await engine.start(new AbortController().signal);
    if (isLate) list();
    synced.resolve();
    await waitFor(() => backend.reconciled.length === 1305);
    const last = Math.max(...orphans.map((orphan) => backend.reconciled.indexOf(orphan)));
    assert.ok(last < 2 * orphans.length, `the last one came at place ${last}`);
  });

test('objects that are filled from one source have the turn of its namespace, and those without a source that of orphans', async () => {
  const backend = stubBackend('c');
  await using engine = new TestEngine();
  const view = (source: ResourceKey): SourceView =>
    source.endsWith('gone') ? { state: 'unknown' } : { state: 'present', version: '1', labels: {}, annotations: {} };
  const sources = { ...backend.sourcesOf(asKey('c:Secret/a/b')), view };
  engine.backends.add({ ...backend, sourcesOf: () => sources });
  const fill = (source: string, name: string): ResourceKey => {
    const key: RuleKey = asKey(`rules:${name}`);
    const target: ResourceKey = asKey(`c:Secret/${name}`);
    engine.claims.put(key, leaving(key, [target], { mode: 'fill', source: asKey(`c:Secret/${source}`) }));
    return target;
  };
  const noisy = Array.from({ length: 100 }, (_, index) => [
    fill('noisy/source', `${index}/filled`),
    fill(`any-${index}/gone`, `${index}/empty`),
  ]).flat();
  const quiet = fill('quiet/source', '0/quiet');
  for (const target of [...noisy, quiet]) engine.enqueueTarget(target);
  await engine.start(new AbortController().signal);
  await waitFor(() => backend.reconciled.length === 201);
  const place = backend.reconciled.indexOf(quiet);
  assert.ok(place < 3, `it came at place ${place}: ${backend.reconciled.slice(0, 10).join(', ')}`);
});

test('if thousands of changed rules claim one target, the target is decided only a few times', async () => {
  const clock = new ManualClock();
  const backend = stubBackend('c');
  await using engine = new TestEngine({ clock });
  engine.backends.add(backend);
  let specs = 0;
  engine.add(
    lifeOf({
      evaluate: (rule) => leaving(rule, [asKey('c:Secret/all/one')], { reason: `${rule} ${(specs += 1)}` }),
    }),
  );
  const rules = Array.from({ length: 2000 }, (_, index) => asKey<RuleKey>(`rules:n/${index}`));
  const changeAll = async (): Promise<number> => {
    backend.reconciled.length = 0;
    for (const rule of rules) {
      engine.enqueueRule(rule);
      await clock.advance(1);
    }
    await clock.advance(5000);
    return backend.reconciled.length;
  };
  await engine.start(new AbortController().signal);
  await changeAll();
  const runs = await changeAll();
  assert.ok(runs >= 1 && runs <= 5, `${runs} decisions, each about 2,000 claims`);
});

test('if the engine is stopped before a backend is synced, there is no error', async () => {
  const synced = Promise.withResolvers<void>();
  await using engine = new TestEngine();
  engine.backends.add(stubBackend('late', synced.promise));
  await engine.start(new AbortController().signal);
  await engine.stop();
  synced.reject(new Error('the watch was stopped'));
  // If nothing handles this rejection, the test runner fails the test.
  await setImmediate();
});

test("a copy is an orphan only if its rule was evaluated after the rule's last change", async () => {
  const gates: PromiseWithResolvers<void>[] = [];
  const evaluated: string[] = [];
  const reconciler: Partial<WholeLife> = {
    listed: async () => await gates.at(-1)?.promise,
    evaluate(rule) {
      evaluated.push(rule);
      return leaving(rule, []);
    },
    ...ORPHANED,
  };
  await using engine = new TestEngine();
  const { signal } = new AbortController();
  const orphanAction = async (): Promise<unknown> => await engine.orphanActionOf(RULE, TARGET, COPY, signal);
  engine.add(lifeOf(reconciler));
  engine.enqueueRule(RULE);
  await engine.start(signal);
  assert.equal(await orphanAction(), 'delete');
  const gate = Promise.withResolvers<void>();
  gates.push(gate);
  engine.enqueueRule(RULE);
  assert.equal(await orphanAction(), 'later', 'it is still to be evaluated');
  gate.resolve();
  await waitFor(async () => (await orphanAction()) === 'delete', { message: 'the end of the evaluation' });
  assert.equal(evaluated.length, 2);
});

test('rules of a controller whose lists are not complete hold no worker: those of others are evaluated, and the start waits', async () => {
  const lists = Promise.withResolvers<void>();
  const evaluated: RuleKey[] = [];
  const evaluate: WholeLife['evaluate'] = (rule) => {
    evaluated.push(rule);
    return leaving(rule, []);
  };
  await using engine = new TestEngine();
  engine.add(lifeOf({ name: 'late', listed: async () => await lists.promise, evaluate }));
  engine.add(lifeOf({ evaluate }));
  // More namespaces than workers.
  const late = Array.from({ length: 20 }, (_, n): RuleKey => asKey(`late:namespace-${n}/rule`));
  for (const rule of [...late, RULE]) engine.enqueueRule(rule);
  const started = engine.start(new AbortController().signal);
  await waitFor(() => evaluated.length > 0, { message: 'the rule of the other controller' });
  assert.deepEqual(evaluated, [RULE]);
  lists.resolve();
  await started;
  assert.deepEqual(new Set(evaluated), new Set([RULE, ...late]));
});

test('if a copy of a rule is deleted, the status of the rule is updated, because a deleted rule waits for its last copy', async () => {
  const updated: string[] = [];
  const clock = new ManualClock();
  await using engine = new TestEngine({ clock });
  engine.backends.add(stubBackend('c'));
  engine.add(
    lifeOf({
      markOn: () => ({ rule: RULE }),
      report: async (rule) => {
        updated.push(rule);
        return await Promise.resolve(undefined);
      },
    }),
  );
  const copy: ObjectKey = asKey(TARGET);
  // A mark counts only in the namespace and name that this annotation contains.
  const marked = observedObject({ annotations: { 'keyferry.dev/target': 'b/copy' } });
  engine.objectChanged(copy, undefined, marked);
  engine.enqueueRule(RULE);
  await engine.start(new AbortController().signal);
  await clock.advance(5000);
  updated.length = 0;
  engine.objectChanged(copy, marked, undefined);
  await clock.advance(5000);
  assert.deepEqual(updated, [RULE]);
});

test('if a rule cannot be evaluated, it is not read from the server to decide on its copies', async () => {
  let liveGets = 0;
  const tried = Promise.withResolvers<void>();
  const reconciler: Partial<WholeLife> = {
    listed: async () => await Promise.reject(new Error('refused')),
    evaluate: () => assert.fail('the lists are not known'),
    markOn: () => ({ rule: RULE }),
    getLive: async () => {
      liveGets += 1;
      return await Promise.resolve({ state: 'there', version: '1' });
    },
    orphanPolicy: () => 'delete',
  };
  await using engine = new TestEngine({ onError: () => tried.resolve() });
  const { signal } = new AbortController();
  engine.add(lifeOf(reconciler));
  engine.enqueueRule(RULE);
  await engine.start(signal);
  await tried.promise;
  assert.equal(await engine.orphanActionOf(RULE, TARGET, COPY, signal), 'later');
  assert.equal(liveGets, 0);
});

test('while a rule is evaluated, none of its copies is an orphan; if it changes meanwhile, it is evaluated again', async () => {
  let evaluations = 0;
  let during: unknown;
  const reconciler: Partial<WholeLife> = {
    async evaluate(rule) {
      evaluations += 1;
      if (evaluations === 2) {
        during = await engine.orphanActionOf(RULE, TARGET, COPY, signal);
        engine.enqueueRule(RULE);
      }
      for (let turn = 0; turn < 10; turn += 1) await setImmediate();
      return leaving(rule, []);
    },
    ...ORPHANED,
  };
  await using engine = new TestEngine();
  const { signal } = new AbortController();
  engine.add(lifeOf(reconciler));
  engine.enqueueRule(RULE);
  await engine.start(signal);
  engine.enqueueRule(RULE);
  await waitFor(() => evaluations >= 3, { message: 'the third evaluation: it was touched in the second' });
  assert.equal(during, 'later');
  await waitFor(async () => (await engine.orphanActionOf(RULE, TARGET, COPY, signal)) === 'delete');
});

test('if a rule changes while it is evaluated, it gets no new target from this evaluation, and loses what it no longer claims', async () => {
  const results = ['b c', 'c'];
  const before: string[] = [];
  const targetsOf = (): string => [...engine.book.of(RULE)].map(({ target }) => target.at(-1)).join(' ');
  const reconciler: Partial<WholeLife> = {
    async evaluate(rule) {
      before.push(targetsOf());
      const [names = ''] = results.splice(0, 1);
      await setImmediate();
      if (results.length > 0) engine.enqueueRule(RULE);
      const targets = names.split(' ').map((name): ResourceKey => asKey(`c:Secret/b/${name}`));
      return leaving(rule, targets, { version: String(before.length) });
    },
    getLive: async () => await Promise.resolve({ state: 'gone' }),
    orphanPolicy: () => 'delete',
  };
  await using engine = new TestEngine();
  engine.backends.add(stubBackend('c'));
  engine.add(lifeOf(reconciler));
  engine.enqueueRule(RULE);
  engine.claims.put(RULE, leaving(RULE, asKeys(['c:Secret/b/a', 'c:Secret/b/b']), { version: '0' }));
  await engine.start(new AbortController().signal);
  assert.deepEqual(before, ['a b', 'b']);
  assert.equal(targetsOf(), 'c');
  assert.equal(engine.claims.versionOf(RULE), '2');
});

test('while the evaluation of a changed rule fails, none of its copies is an orphan', async () => {
  let fails = false;
  const failed = Promise.withResolvers<void>();
  const reconciler: Partial<WholeLife> = {
    async evaluate(rule) {
      await setImmediate();
      if (fails) throw new Error('refused');
      return leaving(rule, []);
    },
    ...ORPHANED,
  };
  await using engine = new TestEngine({ onError: () => failed.resolve() });
  const { signal } = new AbortController();
  engine.add(lifeOf(reconciler));
  engine.enqueueRule(RULE);
  await engine.start(signal);
  assert.equal(await engine.orphanActionOf(RULE, TARGET, COPY, signal), 'delete');
  fails = true;
  // As after a change of a namespace: the rule has the same version, but may claim the copy now.
  engine.enqueueRule(RULE);
  await failed.promise;
  assert.equal(await engine.orphanActionOf(RULE, TARGET, COPY, signal), 'later');
});

test('slow evaluations delay the start only for a while, and no rule of another namespace; what such a rule may want is not deleted', async () => {
  const gate = Promise.withResolvers<void>();
  const evaluated: string[] = [];
  const gone: RuleKey = asKey('rules:a/gone');
  const slow = Array.from({ length: 100 }, (_, index): RuleKey => asKey(`rules:slow/${index}`));
  const reconciler: Partial<WholeLife> = {
    async evaluate(rule) {
      if (rule === gone) return undefined;
      if (namespaceOf(rule) === 'slow') await gate.promise;
      evaluated.push(rule);
      return leaving(rule, []);
    },
    selects: (rule, target) => (rule === slow[99] && target === TARGET ? () => true : undefined),
    markOn: () => ({ rule: gone }),
    getLive: async () => await Promise.resolve({ state: 'gone' }),
    orphanPolicy: () => 'delete',
  };
  const clock = new ManualClock();
  await using engine = new TestEngine({ clock });
  const { signal } = new AbortController();
  engine.add(lifeOf(reconciler));
  for (const rule of [...slow, gone, asKey<RuleKey>('rules:n/quick')]) engine.enqueueRule(rule);
  let isStarted = false;
  const started = engine.start(signal).then(() => (isStarted = true));
  await waitFor(() => evaluated.length === 1, { message: 'the quick rule' });
  await clock.advance(10_000);
  assert.equal(isStarted, false, 'each rule has a little time');
  await clock.advance(1000);
  await started;
  assert.deepEqual(evaluated, ['rules:n/quick']);
  assert.equal(await engine.mayBeWanted(TARGET), true);
  assert.equal(await engine.mayBeWanted(asKey('c:Secret/b/other')), false);
  await clock.advance(59_000);
  assert.equal(await engine.mayBeWanted(TARGET), true);
  await clock.advance(1000);
  assert.equal(await engine.mayBeWanted(TARGET), false, 'it was unwanted for a minute');
  engine.claims.wanted(TARGET);
  assert.equal(await engine.mayBeWanted(TARGET), true, 'the time begins again');
  gate.resolve();
  await waitFor(() => evaluated.length === 101, { message: 'the slow rules' });
  await waitFor(async () => !(await engine.mayBeWanted(TARGET)), { message: 'the last of them' });
});

test('if a rule claims its copy, the copy is never an orphan', async () => {
  const reconciler: Partial<WholeLife> = { ...ORPHANED, evaluate: (rule) => leaving(rule, [TARGET]) };
  await using engine = new TestEngine();
  const { signal } = new AbortController();
  engine.add(lifeOf(reconciler));
  engine.backends.add(stubBackend('c'));
  engine.enqueueRule(RULE);
  await engine.start(signal);
  assert.equal(await engine.orphanActionOf(RULE, TARGET, COPY, signal), 'later');
  assert.equal(await engine.orphanActionOf(RULE, asKey('c:Secret/b/other'), COPY, signal), 'delete');
});

test('a rule reports its failed preparation until the preparation succeeds, even if the rule is evaluated meanwhile', async () => {
  const reported: (string | undefined)[] = [];
  let isRefused = true;
  let isPrepared = false;
  let tries = 0;
  const reconciler: Partial<WholeLife> = {
    isDue: () => !isPrepared,
    write: async () => {
      await Promise.resolve();
      tries += 1;
      if (isRefused) throw new Error('refused');
      isPrepared = true;
    },
    ...ORPHANED,
    report: async (_rule, _entries, { failure }) => {
      reported.push(failure?.message);
      return await Promise.resolve(undefined);
    },
  };
  await using engine = new TestEngine({ onError: () => undefined });
  engine.add(lifeOf(reconciler));
  engine.enqueueRule(RULE);
  await engine.start(new AbortController().signal);
  await waitFor(() => reported.at(-1) === 'refused', { message: 'the report of the failure' });
  const before = { tries, reports: reported.length };
  engine.enqueueRule(RULE);
  await waitFor(() => tries > before.tries && reported.length > before.reports, { message: 'another failure' });
  assert.equal(reported.at(-1), 'refused');
  isRefused = false;
  await waitFor(() => reported.at(-1) === undefined, { message: 'the report of the success' });
});

test('after its evaluation a rule is ready, except if it has a failure or a problem, or one of its claims is not done', async () => {
  const problems = new Map<string, Cause>();
  let isRefused = true;
  const reconciler: Partial<WholeLife> = {
    isDue: (rule) => isRefused && rule === RULE,
    write: async () => {
      await Promise.resolve();
      if (isRefused) throw new Error('refused');
    },
    evaluate: (rule) => leaving(rule, rule === 'rules:a/claims' ? [TARGET] : []),
    problemOf: (rule) => problems.get(rule),
  };
  await using engine = new TestEngine({ onError: () => undefined });
  engine.add(lifeOf(reconciler));
  engine.backends.add(stubBackend('c'));
  for (const rule of [RULE, ...asKeys<RuleKey>(['rules:a/claims', 'rules:a/empty'])]) engine.enqueueRule(rule);
  const state = (): Record<string, string | undefined> =>
    Object.fromEntries(Array.from(engine.readiness(), ({ rule, cause }) => [rule, cause?.reason]));
  await engine.start(new AbortController().signal);
  await waitFor(() => state()[RULE] === 'ConnectionError', { message: 'the failure to be known' });
  assert.deepEqual(state(), { [RULE]: 'ConnectionError', 'rules:a/claims': 'Pending', 'rules:a/empty': undefined });
  isRefused = false;
  problems.set('rules:a/claims', userCause('InvalidSpec', ''));
  await waitFor(() => state()[RULE] === undefined, { message: 'the rule to be ready after its failure' });
  assert.deepEqual(state(), { [RULE]: undefined, 'rules:a/claims': 'InvalidSpec', 'rules:a/empty': undefined });
});

test('the latency of a write counts from the time when its target was enqueued, failed runs included', async () => {
  const clock = new ManualClock();
  const written: [string, number][] = [];
  let fails = 1;
  const backend = stubBackend('c');
  const writer = backend.targetsOf(TARGET);
  await using engine = new TestEngine({ clock, onError: () => undefined, onWritten: (...args) => written.push(args) });
  engine.backends.add({
    ...backend,
    targetsOf: () => ({
      ...writer,
      reconcile: async () => {
        await Promise.resolve();
        if (fails-- > 0) throw new Error('refused');
        const [entry] = engine.book.on(TARGET);
        if (entry !== undefined) engine.outcomeChanged(entry, true);
        return undefined;
      },
    }),
  });
  engine.claims.put(RULE, leaving(RULE, [TARGET]));
  engine.enqueueTarget(TARGET);
  await engine.start(new AbortController().signal);
  for (let ms = 0; ms < 1000 && written.length === 0; ms += 10) await clock.advance(10);
  assert.equal(written[0]?.[0], RULE);
  const ms = written[0]?.[1] ?? 0;
  assert.ok(ms >= 50 && ms <= 200, `the first back-off is part of it: ${ms} ms`);
  const [entry] = engine.book.on(TARGET);
  if (entry !== undefined) engine.outcomeChanged(entry, true);
  assert.equal(written.length, 1, 'without a run there is no latency');
});

test('if what a rule fills has another outcome, the targets that are filled from it are decided again', async () => {
  const backend = stubBackend('c');
  await using engine = new TestEngine();
  engine.backends.add(backend);
  const [first, next] = asKeys<ResourceKey>(['c:Secret/b/first', 'c:Secret/b/next']);
  const fill = (rule: RuleKey, target: ResourceKey, source: ResourceKey): void =>
    void engine.claims.put(rule, leaving(rule, [target], { mode: 'fill', source }));
  fill(asKey('rules:b/first'), first!, asKey('c:Secret/a/source'));
  fill(asKey('rules:b/next'), next!, first!);
  await engine.start(new AbortController().signal);
  const [entry] = engine.book.on(first!);
  engine.outcomeChanged(entry!, false);
  await waitFor(() => backend.reconciled.length > 0);
  assert.deepEqual(backend.reconciled, [next]);
});

test('if a rule no longer copies from an object, the object is decided again, because it may be an orphan that was kept', async () => {
  const backend = stubBackend('c');
  await using engine = new TestEngine();
  engine.backends.add(backend);
  const source: ResourceKey = asKey('c:Secret/a/source');
  let sources = [source];
  engine.add(
    lifeOf({
      evaluate: (rule) => ({ ...leaving(rule, []), sources }),
    }),
  );
  engine.enqueueRule(RULE);
  await engine.start(new AbortController().signal);
  assert.deepEqual(backend.reconciled, []);
  sources = [];
  engine.enqueueRule(RULE);
  await waitFor(() => backend.reconciled.length > 0);
  assert.deepEqual(backend.reconciled, [source]);
});

test('a write during a status update counts in the next update, and no write counts twice', async () => {
  const clock = new ManualClock();
  const counted: number[] = [];
  await using engine = new TestEngine({ clock });
  engine.backends.add(stubBackend('c'));
  const wrote = (): void => {
    for (const entry of engine.book.on(TARGET)) engine.outcomeChanged(entry, true);
  };
  engine.add(
    lifeOf({
      evaluate: (rule) => leaving(rule, [TARGET]),
      report: async (_rule, _entries, { writes }) => {
        counted.push(writes);
        if (counted.length === 2) wrote();
        return await Promise.resolve(undefined);
      },
    }),
  );
  engine.enqueueRule(RULE);
  await engine.start(new AbortController().signal);
  await clock.advance(5000);
  wrote();
  wrote();
  await clock.advance(10_000);
  engine.enqueueStatus(RULE);
  await clock.advance(5000);
  assert.deepEqual(counted, [0, 2, 1, 0]);
});

test('while claims of a rule are pending, only an urgent update of its status does not wait', async () => {
  const clock = new ManualClock();
  let updates = 0;
  await using engine = new TestEngine({ clock });
  engine.backends.add(stubBackend('c'));
  engine.add(
    lifeOf({
      // The stub backend records no outcomes, so the claim stays pending.
      evaluate: (rule) => leaving(rule, [TARGET]),
      report: async () => {
        updates++;
        return await Promise.resolve(undefined);
      },
    }),
  );
  engine.enqueueRule(RULE);
  await engine.start(new AbortController().signal);
  await clock.advance(10_000);
  updates = 0;
  engine.enqueueStatus(RULE);
  await clock.advance(1000);
  assert.equal(updates, 0);
  engine.enqueueStatus(RULE, 0);
  await clock.advance(1);
  assert.equal(updates, 1);
  await clock.advance(10_000);
  assert.equal(updates, 1, 'one update for both requests');
});

/** Rules whose preparation is missing until they are in `prepared`. Each rule claims the target with its own name. */
function unpreparedRules(prepare: (rule: RuleKey) => Promise<void>, prepared: ReadonlySet<string>): Partial<WholeLife> {
  return {
    isDue: (rule) => !prepared.has(rule),
    write: prepare,
    evaluate: (rule) =>
      leaving(rule, [asKey(`c:Secret/b/${parseRuleKey(rule).name}`)], { source: asKey('c:Secret/a/source') }),
    ...ORPHANED,
  };
}

test('the preparation of a rule begins before its target is tried, and neither the target nor the start waits for its end', async () => {
  const begun: string[] = [];
  const gate = Promise.withResolvers<void>();
  const reconciler = unpreparedRules(async (rule) => {
    begun.push(rule);
    await gate.promise;
  }, new Set());
  const backend = stubBackend('c');
  const targets = backend.targetsOf(TARGET);
  await using engine = new TestEngine();
  engine.backends.add({
    ...backend,
    targetsOf: () => ({
      ...targets,
      reconcile: async (target, signal) => {
        begun.push(target);
        return await targets.reconcile(target, signal);
      },
    }),
  });
  engine.add(lifeOf(reconciler));
  const rules = asKeys<RuleKey>(['rules:a/1', 'rules:b/2']);
  engine.enqueueRule(rules[0] ?? RULE);
  await engine.start(new AbortController().signal);
  await waitFor(() => begun.length === 2, { message: 'the rule of the start' });
  engine.enqueueRule(rules[1] ?? RULE);
  await waitFor(() => begun.length === 4, { message: 'the rule that came later' });
  assert.deepEqual(begun, ['rules:a/1', 'c:Secret/b/1', 'rules:b/2', 'c:Secret/b/2']);
  assert.deepEqual(engine.book.sourcesOf(asKey('rules:a/1')), ['c:Secret/a/source']);
  gate.resolve();
});

test('namespaces take turns in the preparation of their rules, so that one namespace cannot occupy all workers', async () => {
  const order: string[] = [];
  const prepared = new Set<string>();
  const gates = new Map<string, PromiseWithResolvers<void>>();
  const reconciler = unpreparedRules(async (rule) => {
    order.push(rule);
    const gate = Promise.withResolvers<void>();
    gates.set(rule, gate);
    await gate.promise;
    prepared.add(rule);
  }, prepared);
  await using engine = new TestEngine();
  engine.backends.add(stubBackend('c'));
  engine.add(lifeOf(reconciler));
  for (let index = 0; index < 100; index += 1) engine.enqueueRule(asKey(`rules:noisy/${index}`));
  engine.enqueueRule(asKey('rules:quiet/one'));
  await engine.start(new AbortController().signal);
  await waitFor(() => order.includes('rules:quiet/one'), {
    message: 'the rule of the other namespace, while all others hang',
  });
  assert.ok(order.length <= 10, `${order.length} at once`);
  for (const gate of gates.values()) gate.resolve();
});
