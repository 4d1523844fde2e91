/**
 * Runs the engine with real rules through random histories: labels, consent, limits and rules change, watches are late,
 * and a standby replaces a killed leader. At the end, the copies must be those that the last settings allow. Meanwhile,
 * no copy may be deleted that was always allowed, and no copy of a suspended rule may be written.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';

import {
  allowedCopies,
  destinationOf,
  type LimitsState,
  type NamespaceState,
  type RuleState,
} from '../../../../test/support/reach-oracle.ts';
import { ReachCluster, ReachProcess, secretKey, WATCHES } from '../../../../test/support/reach-world.ts';
import type { SecretMirrorSpec } from '../../mirrors/api.ts';
import { type ObjectKey, parseRuleKey, type ResourceKey, type RuleKey } from '../../../copy/model/keys.ts';

const HOMES = ['home', 'other'];
const NAMESPACES = [...HOMES, 't-a', 't-b', 'x'];
const PUSHES = ['other/p0', 'home/p1'];
/** The last mirror keeps its copies when it no longer selects their namespaces (deletePolicy retain). */
const MIRRORS = ['home/m0', 'home/m1', 'other/m2'];
const RETAINING = 'other/m2';

type Spec = Partial<Omit<RuleState, 'home' | 'source'>> & { readonly namespaces: readonly string[] };
interface Rule {
  readonly spec: Spec;
  readonly isSuspended: boolean;
}

class History {
  readonly cluster = new ReachCluster();
  readonly rules = new Map<string, Rule>();
  limits: LimitsState = {};
  /** Copies that have existed and were allowed without a break since the last `settle`. */
  readonly #steady = new Set<ObjectKey>();
  /** Rules that have been suspended without a break since the last `settle`. */
  readonly #frozen = new Set<string>();
  readonly #problems: string[] = [];
  #leader: ReachProcess | undefined;
  #standby: ReachProcess | undefined;

  constructor() {
    for (const name of NAMESPACES) this.cluster.putNamespace(name, { labels: {} });
    for (const path of [...MIRRORS, ...PUSHES]) this.cluster.putObject(keyOf(path), {});
  }

  async start(limits: LimitsState): Promise<void> {
    await this.end();
    this.limits = limits;
    this.changed();
    this.#standby = this.#open();
    await this.takeOver();
  }

  /** Kills the leader. The standby becomes the leader, with the state that its watches have reported so far. */
  async takeOver(): Promise<void> {
    await this.#leader?.kill();
    this.#leader = this.standby;
    this.#standby = this.#open();
    await this.#leader.start();
  }

  #open(): ReachProcess {
    const { cluster, limits } = this;
    const process = new ReachProcess(cluster, { limits, onWrite: (...write) => this.#written(...write) });
    process.open();
    return process;
  }

  get process(): ReachProcess {
    return this.#leader ?? assert.fail('no process runs');
  }

  get standby(): ReachProcess {
    return this.#standby ?? assert.fail('no standby runs');
  }

  async end(): Promise<void> {
    await Promise.all([this.#leader?.kill(), this.#standby?.kill()]);
  }

  change(name: string, change: (state: NamespaceState) => NamespaceState | undefined): void {
    this.cluster.putNamespace(name, change(this.cluster.namespaces.get(name) ?? { labels: {} }));
  }

  putRule(path: string, rule: Rule | undefined): void {
    if (rule === undefined) this.rules.delete(path);
    else this.rules.set(path, rule);
    if (MIRRORS.includes(path)) this.cluster.putMirror(path, rule && mirrorSpec(path, rule));
    else this.cluster.putObject(keyOf(path), rule === undefined ? {} : pushAnnotations(rule));
  }

  allowed(path: string): ObjectKey[] {
    const rule = this.rules.get(path);
    const [home = '', source = ''] = path.split('/');
    const state = rule && { home, source, name: source, ...rule.spec };
    return state === undefined ? [] : allowedCopies(state, this.cluster.namespaces, this.limits).map(keyOf);
  }

  copies(path: string): ObjectKey[] {
    return [...this.cluster.objects].filter(([, { annotations }]) => ownerIn(annotations) === path).map(([key]) => key);
  }

  /** Call it after each change of the cluster. */
  changed(): void {
    const allowed = new Set([...this.rules.keys()].flatMap((path) => this.allowed(path)));
    for (const key of this.#steady) if (!allowed.has(key) || !this.cluster.objects.has(key)) this.#steady.delete(key);
    for (const path of this.#frozen) if (this.rules.get(path)?.isSuspended !== true) this.#frozen.delete(path);
  }

  async settle(): Promise<void> {
    await this.process.settle();
    // Before a standby becomes the leader, its watches of rules are current. Its watch of namespaces may be late.
    for (const watch of ['mirrors', 'objects'] as const) this.standby.deliver(watch);
    this.check();
    for (const [path, { isSuspended }] of this.rules) {
      if (isSuspended) this.#frozen.add(path);
      const owned = new Set(this.copies(path));
      const allowed = this.allowed(path);
      for (const key of allowed) if (owned.has(key)) this.#steady.add(key);
      if (!isSuspended) assert.deepEqual(missing(allowed, owned), [], `copies of ${path} are missing`);
    }
    for (const path of [...MIRRORS, ...PUSHES]) {
      const isKept = path === RETAINING || this.rules.get(path)?.isSuspended === true;
      if (!isKept)
        assert.deepEqual(missing(this.copies(path), new Set(this.allowed(path))), [], `${path} has too much`);
    }
  }

  check(): void {
    assert.deepEqual([...this.#problems, ...this.process.errors], []);
  }

  #written(target: ResourceKey, owner: RuleKey | undefined, action: string): void {
    const { namespace, name } = owner === undefined ? { namespace: '', name: '' } : parseRuleKey(owner);
    if (action === 'delete' && this.#steady.has(target as ObjectKey)) this.#problems.push(`${target} is deleted`);
    if (this.#frozen.has(`${namespace}/${name}`)) this.#problems.push(`${action} ${target} of a suspended rule`);
  }
}

function keyOf(path: string): ObjectKey {
  const [namespace = '', name = ''] = path.split('/');
  return secretKey(namespace, name);
}

function ownerIn(annotations: Readonly<Record<string, string>>): string | undefined {
  return annotations['mirrors.kts.studio/owned-by'] ?? annotations['k8s-replicator/replicated-by'];
}

function missing(wanted: readonly ObjectKey[], there: ReadonlySet<ObjectKey>): ObjectKey[] {
  return wanted.filter((key) => !there.has(key));
}

function mirrorSpec(path: string, { spec, isSuspended }: Rule): SecretMirrorSpec {
  const destination = destinationOf(spec);
  const deletePolicy = path === RETAINING ? 'retain' : 'delete';
  return { source: { name: path.split('/')[1] ?? '' }, destination, deletePolicy, suspend: isSuspended };
}

function pushAnnotations({ spec, isSuspended }: Rule): Record<string, string> {
  return {
    'k8s-replicator/replicate-to-namespaces': spec.namespaces.join(','),
    ...(isSuspended ? { 'keyferry.dev/suspend': 'true' } : {}),
  };
}

const namespace = fc.constantFrom(...NAMESPACES);
const patterns = fc.constantFrom(['.*'], ['t-.*'], ['t-a', 'x'], ['t-b', 'other']);
const optional = <T>(...values: readonly T[]): fc.Arbitrary<T | undefined> => fc.constantFrom(undefined, ...values);
const selector = optional<RuleState['selector']>(
  { key: 'tier', values: ['prod'] },
  { key: 'tier', values: ['test'], not: true },
  { key: 'team' },
);
const limits = fc.constantFrom<LimitsState[]>(
  {},
  {},
  { excluded: ['t-a'] },
  { destinations: ['t-.*', 'x'] },
  { destinationsWith: 'tier' },
  { sourcesWith: 'team' },
  { requireConsent: true },
);
const mirrorRule = fc.record({
  spec: fc.record({ namespaces: patterns, selector, excluded: optional(['t-a'], ['x', 't-.*']) }),
  isAlias: fc.boolean(),
});

const change = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ namespace, key: fc.constantFrom('tier', 'tier', 'team'), value: optional('prod', 'test') }),
  },
  { weight: 2, arbitrary: fc.record({ namespace, acceptFrom: optional('', 'home', 'x,oth.*', '(', '.*') }) },
  { weight: 1, arbitrary: fc.record({ namespace: fc.constantFrom('t-a', 'x'), isThere: fc.boolean() }) },
  {
    weight: 5,
    arbitrary: fc.record({
      mirror: fc.constantFrom(...MIRRORS),
      rule: fc.option(mirrorRule, { nil: undefined, freq: 6 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      push: fc.constantFrom(...PUSHES),
      namespaces: fc.option(patterns, { nil: undefined, freq: 4 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ path: fc.constantFrom(...MIRRORS, ...PUSHES), isSuspended: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ deleted: fc.nat({ max: 5 }) }) },
);
type Change = typeof change extends fc.Arbitrary<infer T> ? T : never;
/** One step: a user changes something, then some watches report their waiting events, and time passes. */
const step = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      change,
      watches: fc.subarray([...WATCHES]),
      standby: fc.subarray([...WATCHES]),
      ms: fc.constantFrom(undefined, 0, 300, 1500),
    }),
  },
  { weight: 2, arbitrary: fc.constant('settle' as const) },
  { weight: 2, arbitrary: fc.constant('take over' as const) },
  { weight: 1, arbitrary: fc.record({ limits }) },
);

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

function carryOut(history: History, one: Change): void {
  const isSuspended = (path: string): boolean => history.rules.get(path)?.isSuspended === true;
  if ('key' in one) {
    const { key, value } = one;
    history.change(one.namespace, (state) => {
      const { [key]: _, ...labels } = state.labels;
      return { ...state, labels: value === undefined ? labels : { ...labels, [key]: value } };
    });
  } else if ('isThere' in one) history.change(one.namespace, (state) => (one.isThere ? state : undefined));
  else if ('acceptFrom' in one) history.change(one.namespace, ({ labels }) => ({ labels, acceptFrom: one.acceptFrom }));
  else if ('mirror' in one) {
    const { mirror, rule } = one;
    const spec = rule && { ...rule.spec, ...(rule.isAlias ? { name: `alias-${mirror.slice(-2)}` } : {}) };
    history.putRule(mirror, spec && { spec, isSuspended: isSuspended(mirror) });
  } else if ('push' in one) {
    const { push, namespaces } = one;
    history.putRule(push, namespaces && { spec: { namespaces }, isSuspended: isSuspended(push) });
  } else if ('path' in one) {
    const rule = history.rules.get(one.path);
    if (rule !== undefined) history.putRule(one.path, { ...rule, isSuspended: one.isSuspended });
  } else {
    const copy = [...MIRRORS, ...PUSHES].flatMap((path) => history.copies(path))[one.deleted];
    if (copy !== undefined) history.cluster.putObject(copy, undefined);
  }
  history.changed();
}

async function replay(history: History, steps: readonly Step[]): Promise<void> {
  await history.start({});
  for (const one of steps) {
    if (one === 'settle') await history.settle();
    else if (one === 'take over') {
      await history.settle();
      await history.takeOver();
      await history.process.wait(1500);
    } else if ('limits' in one) await history.start(one.limits);
    else {
      carryOut(history, one.change);
      for (const watch of one.watches) history.process.deliver(watch);
      for (const watch of one.standby) history.standby.deliver(watch);
      if (one.ms !== undefined) await history.process.wait(one.ms);
    }
  }
  await history.settle();
  for (const [path, rule] of history.rules) history.putRule(path, { ...rule, isSuspended: false });
  history.changed();
  await history.settle();
}

test('after any history of changes, the copies are those that the last settings allow, and no copy was deleted that was always allowed', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 50, size: 'max' }), async (steps) => {
      const history = new History();
      try {
        await replay(history, steps);
      } finally {
        await history.end();
      }
    }),
    { numRuns: 150 },
  );
});

test('if a rule now selects by another label, its copy stays although the late watch of namespaces has not reported this label yet', async () => {
  const history = new History();
  const label = (labels: Record<string, string>): void => history.change('x', () => ({ labels }));
  const select = (path: string, key: string): void =>
    history.putRule(path, { spec: { namespaces: ['.*'], selector: { key } }, isSuspended: false });
  try {
    label({ tier: 'prod' });
    select('home/m0', 'tier');
    select('home/m1', 'team');
    await history.start({});
    await history.settle();
    assert.deepEqual(history.copies('home/m0'), [keyOf('x/m0')]);
    label({ tier: 'prod', team: 'a' });
    select('home/m0', 'team');
    history.process.deliver('mirrors');
    for (let second = 0; second < 5; second += 1) await history.process.wait(1000);
    await history.settle();
  } finally {
    await history.end();
  }
});

for (const [title, limits, before, after] of [
  ['the new consent of their namespace', {}, { acceptFrom: '' }, { acceptFrom: 'home' }],
  [
    'the new label of their namespace, by which a limit of destinations decides',
    { destinationsWith: 'team' },
    {},
    { team: 'a' },
  ],
  [
    "the new label of the rule's namespace, by which a limit of sources decides",
    { sourcesWith: 'team' },
    {},
    { team: 'a' },
  ],
] as const) {
  test(`after a change of the leader, copies stay while the new leader does not know ${title}`, async () => {
    const history = new History();
    const put = ({ acceptFrom, team }: { readonly acceptFrom?: string; readonly team?: string }): void => {
      const labels = { tier: 'prod', ...(team === undefined ? {} : { team }) };
      for (const name of ['home', 'x']) history.change(name, () => ({ labels, acceptFrom }));
    };
    try {
      put(before);
      for (const path of ['home/m0', 'home/p1'])
        history.putRule(path, { spec: { namespaces: ['x'] }, isSuspended: false });
      await history.start(limits);
      await history.settle();
      put(after);
      await history.settle();
      assert.deepEqual([...history.copies('home/m0'), ...history.copies('home/p1')], [keyOf('x/m0'), keyOf('x/p1')]);
      await history.takeOver();
      for (let second = 0; second < 5; second += 1) await history.process.wait(1000);
      await history.settle();
    } finally {
      await history.end();
    }
  });
}
