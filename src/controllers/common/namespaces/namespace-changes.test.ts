import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asKey } from '../../../../test/support/keys.ts';
import { ManualClock } from '../../../../test/support/manual-clock.ts';
import { userCause } from '../../../copy/model/cause.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import type { OutOfReach } from '../../../copy/model/rule-set.ts';
import { type Changes, NamespaceChanges } from './namespace-changes.ts';

/**
 * The name of a namespace lists the rules that select it: a change of the namespace `ab` concerns the rules `a` and
 * `b`.
 */
class Scene {
  readonly clock = new ManualClock();
  readonly ended = new AbortController();
  /** Called during each search. */
  during = (): void => undefined;
  readonly enqueued: string[] = [];
  /** The namespaces of all searches; `(labels)`: only their labels have changed. */
  readonly searched: string[] = [];
  /** For each rule: the namespaces that the rule must not copy into, by its last evaluation. */
  readonly outOfReach = new Map<string, OutOfReach>();
  /** A namespace whose last change the watch has not reported yet. */
  late: string | undefined;
  /** The namespaces that were read from the server. */
  readonly read: string[] = [];
  readonly errors: string[] = [];
  /** Whether the next search throws an error. */
  fails = false;
  counts = 0;
  readonly changes = new NamespaceChanges({
    engine: {
      enqueueRule: (rule: RuleKey) => this.enqueued.push(rule),
      claims: { findingsOf: (rule) => ({ outOfReach: this.outOfReach.get(rule) }) },
    },
    cluster: {
      watchNamespaces: () => undefined,
      isCurrent: async (namespace) => {
        this.read.push(namespace);
        return await Promise.resolve(namespace !== this.late);
      },
    },
    clock: this.clock,
    signal: this.ended.signal,
    log: { error: (text, fields) => this.errors.push(`${text} ${JSON.stringify(fields)}`) },
  });

  constructor() {
    this.changes.serve({
      name: 'test',
      rulesFor: (changes) => this.#rulesFor(changes),
      readsLabels: (rule) => rule === 'test:home/selects',
    });
  }

  async #rulesFor({ any, exceptLabels }: Changes): Promise<Iterable<RuleKey>> {
    this.counts += 1;
    this.during();
    const found = new Set<RuleKey>();
    for (const namespace of any) {
      this.searched.push(exceptLabels.includes(namespace) ? namespace : `${namespace} (labels)`);
      for (const rule of namespace) found.add(asKey<RuleKey>(rule));
      await Promise.resolve();
    }
    if (!this.fails) return found;
    this.fails = false;
    throw new Error('a mistake in the search');
  }

  async add(...namespaces: readonly string[]): Promise<void> {
    for (const namespace of namespaces) this.changes.add(namespace, 'all');
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
  }

  /** The rules that were enqueued since the last call. */
  take(): string[] {
    return this.enqueued.splice(0);
  }

  async isOutdated(rule: string, namespace = ''): Promise<boolean> {
    const key = rule.includes(':') ? rule : `test:${rule}`;
    return await this.changes.isOutdated(asKey(key), namespace, new AbortController().signal);
  }
}

test('the rules for the first changed namespaces are enqueued at once, and those for the next 50 changes together after 1 s', async () => {
  const scene = new Scene();
  scene.changes.add('ab', 'all');
  await scene.add('c');
  assert.deepEqual(scene.take(), ['a', 'b', 'c'], 'a list brings several namespaces at once');
  for (let change = 0; change < 50; change += 1) await scene.add('bc');
  await scene.clock.advance(999);
  assert.deepEqual(scene.take(), []);
  await scene.clock.advance(1);
  assert.deepEqual(scene.take(), ['b', 'c']);
  await scene.clock.advance(1000);
  await scene.add('d');
  assert.deepEqual(scene.take(), ['d']);
  assert.equal(scene.counts, 3, 'the 50 changes share one search');
  await scene.add('e');
  scene.ended.abort();
  await scene.clock.advance(1000);
  await scene.add('f');
  assert.deepEqual([scene.take(), scene.counts], [[], 3]);
});

test('a namespace whose labels change many times is searched for once a second; with another change it concerns all rules', async () => {
  const scene = new Scene();
  for (let change = 0; change < 50; change += 1) {
    scene.changes.add('ab', 'labels');
    if (change === 25) scene.changes.add('c', 'all');
    scene.changes.add('c', 'labels');
    await scene.clock.advance(100);
  }
  assert.equal(scene.counts, 6, 'in 5 s');
  const both = ['ab (labels)', 'c (labels)'];
  assert.deepEqual(scene.searched, [...both, ...both, ...both, 'ab (labels)', 'c', ...both, ...both]);
});

test('from the event of a namespace until its rules are enqueued, the evaluation of every rule counts as outdated', async () => {
  const scene = new Scene();
  assert.equal(await scene.isOutdated('a', 'a'), false);
  scene.changes.add('a', 'all');
  assert.equal(await scene.isOutdated('c', 'a'), true, 'any rule may be found');
  await scene.add();
  assert.deepEqual([scene.take(), await scene.isOutdated('a', 'a')], [['a'], false]);
  await scene.add('b');
  assert.deepEqual([await scene.isOutdated('b', 'a'), await scene.isOutdated('b', 'b')], [false, true]);
  await scene.clock.advance(1000);
  assert.deepEqual([scene.take(), await scene.isOutdated('b', 'b')], [['b'], false]);
});

test('a namespace that changes again during the search stays outdated, and is searched for again', async () => {
  const scene = new Scene();
  scene.during = () => {
    scene.during = () => undefined;
    scene.changes.add('a', 'labels');
  };
  scene.changes.add('a', 'labels');
  await scene.add();
  assert.deepEqual([scene.take(), await scene.isOutdated('a', 'a')], [['a'], true]);
  await scene.clock.advance(1000);
  assert.deepEqual([scene.take(), await scene.isOutdated('a', 'a')], [['a'], false]);
});

test('if labels or consent of a namespace decide on a rule, the evaluation counts as outdated while the watch of namespaces is behind the server', async () => {
  const refused = (part: OutOfReach['part']): OutOfReach => ({ ...userCause('NotAccepted', ''), part });
  const scene = new Scene();
  scene.outOfReach.set('test:home/named', refused('named')).set('test:home/all', refused('all'));
  scene.late = 'x';
  for (const [rule, namespace, read, isOutdated] of [
    ['test:home/plain', 'x', [], false],
    ['test:home/selects', 'x', ['x'], true],
    ['test:home/selects', 'y', ['y'], false],
    ['test:home/named', 'x', ['x'], true],
    ['test:home/all', 'x', ['home'], false],
  ] as const) {
    assert.equal(await scene.isOutdated(rule, namespace), isOutdated, `${rule} in ${namespace}`);
    assert.deepEqual(scene.read.splice(0), read);
  }
});

test('if a limit of sources forbids all copies of a rule, its evaluation counts as outdated while a label change of its own namespace waits', async () => {
  const scene = new Scene();
  scene.outOfReach.set('test:home/a', { ...userCause('NotPermitted', ''), part: 'all' });
  for (let change = 0; change < 2; change += 1) {
    scene.changes.add('home', 'labels');
    await scene.add();
  }
  assert.equal(await scene.isOutdated('test:home/a', 'x'), true);
});

test('if the search for the rules of a namespace fails, the error is logged, and 1 s later one search is for all changes', async () => {
  for (const change of ['all', 'labels'] as const) {
    const scene = new Scene();
    scene.fails = true;
    scene.changes.add('a', change);
    await scene.add();
    await scene.add('b');
    assert.deepEqual(scene.take(), []);
    assert.match(scene.errors.join(), /cannot find the rules .*"namespace":"a"/);
    assert.equal(await scene.isOutdated('c', 'a'), true, 'any rule may select the namespace');
    assert.equal(await scene.isOutdated('c', 'd'), false);
    scene.changes.add('a', 'labels');
    await scene.clock.advance(1000);
    assert.deepEqual(scene.take(), ['a', 'b']);
    assert.deepEqual(scene.searched.slice(-2), [change === 'all' ? 'a' : 'a (labels)', 'b']);
    assert.deepEqual([await scene.isOutdated('c', 'a'), scene.errors.length], [false, 1]);
  }
});
