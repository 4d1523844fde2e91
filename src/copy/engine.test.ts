/** The start of backends, the decision about orphans, and the failures of rules. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { stubBackend } from '../../test/support/stub-backend.ts';
import { Engine } from './engine.ts';
import type { Cause } from './model/claim.ts';
import { LeaveShape } from './model/leave-shape.ts';
import { observe } from './model/observed.ts';
import type { RuleReconciler } from './rule-reconciler.ts';

const RULE = 'rules:a/rule';
const TARGET = 'c:Secret/b/copy';
const COPY = observe({
  uid: 'u',
  name: 'copy',
  namespace: 'b',
  resourceVersion: '1',
  creationTimestamp: '2026-01-01T00:00:00Z',
});

test('a backend that is not synced delays no other', async () => {
  const synced = Promise.withResolvers<void>();
  const [late, other] = [stubBackend('late', synced.promise), stubBackend('other')];
  const engine = new Engine({ onError: (_loop, _key, error) => assert.fail(String(error)) });
  engine.addBackend(late);
  engine.addBackend(other);
  engine.enqueueTarget('late:Secret/a/b');
  engine.enqueueTarget('other:Secret/a/b');
  try {
    await engine.start(new AbortController().signal);
    await waitFor(() => other.reconciled.length > 0, { message: 'the targets of the other backend to start' });
    assert.deepEqual(late.reconciled, []);
    synced.resolve();
    await waitFor(() => late.reconciled.length > 0, { message: 'its targets to start when it is synced' });
  } finally {
    await engine.stop();
  }
});

test('targets of rules in different namespaces take turns, whatever namespace the targets are in', async () => {
  const backend = stubBackend('c', Promise.resolve(), { takesTurns: true });
  const engine = new Engine({ onError: (_loop, _key, error) => assert.fail(String(error)) });
  engine.addBackend(backend);
  const claim = (namespace: string, name: string): string => {
    const owner = { key: `rules:${namespace}/${name}`, title: name, rank: '' };
    const target = `c:Secret/all/${namespace}-${name}`;
    const shape = new LeaveShape(owner.key, '');
    engine.claims.put(owner.key, {
      owner,
      version: '1',
      claims: [{ owner, target, mode: 'own', source: undefined, shape }],
      sources: [],
    });
    engine.enqueueTarget(target);
    return target;
  };
  const noisy = Array.from({ length: 100 }, (_, index) => claim('noisy', String(index)));
  const quiet = claim('quiet', 'one');
  try {
    await engine.start(new AbortController().signal);
    await waitFor(() => backend.reconciled.length === 101);
    assert.deepEqual(backend.reconciled, [noisy[0], quiet, ...noisy.slice(1)]);
  } finally {
    await engine.stop();
  }
});

test('a stop before a backend is synced causes no error', async () => {
  const synced = Promise.withResolvers<void>();
  const engine = new Engine({ onError: (_loop, _key, error) => assert.fail(String(error)) });
  engine.addBackend(stubBackend('late', synced.promise));
  await engine.start(new AbortController().signal);
  await engine.stop();
  synced.reject(new Error('the watch was stopped'));
  // An unhandled rejection fails the test.
  await setImmediate();
});

test('a copy is an orphan only if its rule was evaluated after its last change', async () => {
  const gates: PromiseWithResolvers<void>[] = [];
  const evaluated: string[] = [];
  const reconciler: RuleReconciler = {
    name: 'rules',
    prepare: async () => await gates.at(-1)?.promise,
    // oxlint-disable-next-line require-yield -- one step is enough
    *evaluate(rule) {
      evaluated.push(rule);
      return { owner: { key: rule, title: rule, rank: '' }, version: '1', claims: [], sources: [] };
    },
    ownerOf: () => RULE,
    getLive: async () => await Promise.resolve({ state: 'there', version: '1' }),
    orphanPolicy: () => 'delete',
    updateStatus: async () => await Promise.resolve(undefined),
  };
  const engine = new Engine({ onError: (_loop, _key, error) => assert.fail(String(error)) });
  const { signal } = new AbortController();
  const orphanAction = async (): Promise<string> => await engine.orphanActionOf(RULE, TARGET, COPY, signal);
  engine.claims.add(reconciler);
  engine.enqueueRule(RULE);
  try {
    await engine.start(signal);
    assert.equal(await orphanAction(), 'delete');
    const gate = Promise.withResolvers<void>();
    gates.push(gate);
    engine.enqueueRule(RULE);
    assert.equal(await orphanAction(), 'later', 'it is still to be evaluated');
    gate.resolve();
    const [rules] = engine.queues;
    await rules?.queue.idle(signal);
    assert.equal(evaluated.length, 2);
    assert.equal(await orphanAction(), 'delete');
  } finally {
    await engine.stop();
  }
});

test('a rule that cannot be prepared is not read from the server for each of its copies', async () => {
  let liveGets = 0;
  const tried = Promise.withResolvers<void>();
  const reconciler: RuleReconciler = {
    name: 'rules',
    prepare: async () => await Promise.reject(new Error('refused')),
    evaluate: () => assert.fail('it was not prepared'),
    ownerOf: () => RULE,
    getLive: async () => {
      liveGets += 1;
      return await Promise.resolve({ state: 'there', version: '1' });
    },
    orphanPolicy: () => 'delete',
    updateStatus: async () => await Promise.resolve(undefined),
  };
  const engine = new Engine({ onError: () => tried.resolve() });
  const { signal } = new AbortController();
  engine.claims.add(reconciler);
  engine.enqueueRule(RULE);
  try {
    await engine.start(signal);
    await tried.promise;
    assert.equal(await engine.orphanActionOf(RULE, TARGET, COPY, signal), 'later');
    assert.equal(liveGets, 0);
  } finally {
    await engine.stop();
  }
});

test('while a rule is evaluated in steps none of its copies is an orphan, and a change during the evaluation is not lost', async () => {
  let evaluations = 0;
  let during: Promise<string> | undefined;
  const reconciler: RuleReconciler = {
    name: 'rules',
    *evaluate(rule) {
      evaluations += 1;
      const until = performance.now() + 12;
      if (evaluations === 2) {
        during = engine.orphanActionOf(RULE, TARGET, COPY, signal);
        engine.enqueueRule(RULE);
      }
      while (performance.now() < until) yield;
      return { owner: { key: rule, title: rule, rank: '' }, version: '1', claims: [], sources: [] };
    },
    ownerOf: () => RULE,
    getLive: async () => await Promise.resolve({ state: 'there', version: '1' }),
    orphanPolicy: () => 'delete',
    updateStatus: async () => await Promise.resolve(undefined),
  };
  const engine = new Engine({ onError: (_loop, _key, error) => assert.fail(String(error)) });
  const { signal } = new AbortController();
  engine.claims.add(reconciler);
  engine.enqueueRule(RULE);
  try {
    await engine.start(signal);
    engine.enqueueRule(RULE);
    await waitFor(() => evaluations >= 3, { message: 'the third evaluation: it was touched in the second' });
    for (const { queue } of engine.queues) await queue.idle(signal);
    assert.equal(await during, 'later');
    assert.equal(await engine.orphanActionOf(RULE, TARGET, COPY, signal), 'delete');
  } finally {
    await engine.stop();
  }
});

test('a heavy rule delays neither other rules nor the start, and none of its copies is an orphan until it is evaluated', async () => {
  const gate = { open: false };
  let done = false;
  const reconciler: RuleReconciler = {
    name: 'rules',
    *evaluate(rule) {
      const until = performance.now() + 60;
      if (rule === RULE) while (performance.now() < until || !gate.open) yield;
      if (rule === RULE) done = true;
      return { owner: { key: rule, title: rule, rank: '' }, version: '1', claims: [], sources: [] };
    },
    ownerOf: () => RULE,
    getLive: async () => await Promise.resolve({ state: 'there', version: '1' }),
    orphanPolicy: () => 'delete',
    updateStatus: async () => await Promise.resolve(undefined),
  };
  const engine = new Engine({ onError: (_loop, _key, error) => assert.fail(String(error)) });
  const { signal } = new AbortController();
  engine.claims.add(reconciler);
  engine.enqueueRule(RULE);
  engine.enqueueRule('rules:n/quick');
  try {
    await engine.start(signal);
    assert.equal(done, false);
    assert.equal(await engine.orphanActionOf(RULE, TARGET, COPY, signal), 'later');
    gate.open = true;
    const heavy = engine.queues.find(({ name }) => name === 'rules heavy');
    await heavy?.queue.idle(signal);
    assert.equal(done, true);
    assert.equal(await engine.orphanActionOf(RULE, TARGET, COPY, signal), 'delete');
  } finally {
    await engine.stop();
  }
});

test('a copy that its rule claims is never an orphan', async () => {
  const target = TARGET;
  const reconciler: RuleReconciler = {
    name: 'rules',
    // oxlint-disable-next-line require-yield -- one step is enough
    *evaluate(rule) {
      const owner = { key: rule, title: rule, rank: '' };
      const claim = { owner, target, mode: 'own', source: undefined, shape: new LeaveShape('Left', '') } as const;
      return { owner, version: '1', claims: [claim], sources: [] };
    },
    ownerOf: () => RULE,
    getLive: async () => await Promise.resolve({ state: 'there', version: '1' }),
    orphanPolicy: () => 'delete',
    updateStatus: async () => await Promise.resolve(undefined),
  };
  const engine = new Engine({ onError: (_loop, _key, error) => assert.fail(String(error)) });
  const { signal } = new AbortController();
  engine.claims.add(reconciler);
  engine.addBackend(stubBackend('c'));
  engine.enqueueRule(RULE);
  try {
    await engine.start(signal);
    assert.equal(await engine.orphanActionOf(RULE, TARGET, COPY, signal), 'later');
    assert.equal(await engine.orphanActionOf(RULE, 'c:Secret/b/other', COPY, signal), 'delete');
  } finally {
    await engine.stop();
  }
});

test('the failure of a rule is reported until a run of it succeeds', async () => {
  const reported: (string | undefined)[] = [];
  let isRefused = true;
  const reconciler: RuleReconciler = {
    name: 'rules',
    prepare: async () => {
      await Promise.resolve();
      if (isRefused) throw new Error('refused');
    },
    // oxlint-disable-next-line require-yield -- one step is enough
    *evaluate(rule) {
      return { owner: { key: rule, title: rule, rank: '' }, version: '1', claims: [], sources: [] };
    },
    ownerOf: () => RULE,
    getLive: async () => await Promise.resolve({ state: 'there', version: '1' }),
    orphanPolicy: () => 'delete',
    updateStatus: async (_rule, _entries, { failure }) => {
      reported.push(failure?.message);
      return await Promise.resolve(undefined);
    },
  };
  const engine = new Engine({ onError: () => undefined });
  engine.claims.add(reconciler);
  engine.enqueueRule(RULE);
  try {
    await engine.start(new AbortController().signal);
    await waitFor(() => reported.length > 0, { message: 'the report of the failure' });
    assert.deepEqual(reported, ['refused']);
    isRefused = false;
    engine.enqueueRule(RULE);
    await waitFor(() => reported.length > 1, { message: 'the report of the success' });
    assert.deepEqual(reported, ['refused', undefined]);
  } finally {
    await engine.stop();
  }
});

test('a rule is ready when it was evaluated and nothing is wrong; a failure, a problem of the rule, and its claims say what is', async () => {
  const problems = new Map<string, Cause>();
  let isRefused = true;
  const reconciler: RuleReconciler = {
    name: 'rules',
    prepare: async (rule) => {
      await Promise.resolve();
      if (isRefused && rule === RULE) throw new Error('refused');
    },
    // oxlint-disable-next-line require-yield -- one step is enough
    *evaluate(rule) {
      const owner = { key: rule, title: rule, rank: '' };
      const claim = {
        owner,
        target: TARGET,
        mode: 'own',
        source: undefined,
        shape: new LeaveShape('Left', ''),
      } as const;
      return { owner, version: '1', claims: rule === 'rules:a/claims' ? [claim] : [], sources: [] };
    },
    problemOf: (rule) => problems.get(rule),
    ownerOf: () => undefined,
    getLive: async () => await Promise.resolve({ state: 'there', version: '1' }),
    orphanPolicy: () => 'keep',
    updateStatus: async () => await Promise.resolve(undefined),
  };
  const engine = new Engine({ onError: () => undefined });
  engine.claims.add(reconciler);
  engine.addBackend(stubBackend('c'));
  for (const rule of [RULE, 'rules:a/claims', 'rules:a/empty']) engine.enqueueRule(rule);
  const state = (): Record<string, string | undefined> =>
    Object.fromEntries(Array.from(engine.readiness(), ({ rule, cause }) => [rule, cause?.reason]));
  try {
    await engine.start(new AbortController().signal);
    assert.deepEqual(state(), { [RULE]: 'ConnectionError', 'rules:a/claims': 'Pending', 'rules:a/empty': undefined });
    isRefused = false;
    problems.set('rules:a/claims', { reason: 'InvalidSpec', message: '' });
    await waitFor(() => state()[RULE] === undefined, { message: 'the rule to be ready after its failure' });
    assert.deepEqual(state(), { [RULE]: undefined, 'rules:a/claims': 'InvalidSpec', 'rules:a/empty': undefined });
  } finally {
    await engine.stop();
  }
});

test('the latency of a write counts from the request, also over failed runs', async () => {
  const clock = new ManualClock();
  const written: [string, number][] = [];
  const owner = { key: RULE, title: RULE, rank: '' };
  const claim = { owner, target: TARGET, mode: 'own', source: undefined, shape: new LeaveShape('Left', '') } as const;
  let fails = 1;
  const backend = stubBackend('c');
  const writer = backend.targetsOf(TARGET);
  const engine = new Engine({ clock, onError: () => undefined, onWritten: (...args) => written.push(args) });
  engine.addBackend({
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
  engine.claims.put(RULE, { owner, version: '1', claims: [claim], sources: [] });
  engine.enqueueTarget(TARGET);
  try {
    await engine.start(new AbortController().signal);
    for (let ms = 0; ms < 1000 && written.length === 0; ms += 10) await clock.advance(10);
    assert.equal(written[0]?.[0], RULE);
    const ms = written[0]?.[1] ?? 0;
    assert.ok(ms >= 50 && ms <= 200, `the first back-off is part of it: ${ms} ms`);
    const [entry] = engine.book.on(TARGET);
    if (entry !== undefined) engine.outcomeChanged(entry, true);
    assert.equal(written.length, 1, 'without a run there is no latency');
  } finally {
    await engine.stop();
  }
});
