import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asKey } from '../../../../test/support/keys.ts';
import { ManualClock } from '../../../../test/support/manual-clock.ts';
import { userCause } from '../../../copy/model/cause.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import type { OutOfReach } from '../../../copy/model/rule-set.ts';
import { NamespaceChanges } from './namespace-changes.ts';
import type { Changes } from './reach.ts';

/**
 * The name of a namespace lists the rules that select it: a change of the namespace `ab` concerns the rules `a` and
 * `b`.
 */
class Scene {
  readonly clock = new ManualClock();
  readonly enqueued: string[] = [];
  /** The namespaces of all searches, each with its changed labels. */
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
    log: { error: (text, fields) => this.errors.push(`${text} ${JSON.stringify(fields)}`) },
  });

  constructor() {
    this.changes.serve({
      name: 'test',
      rulesFor: (changes) => this.#rulesFor(changes),
      readsLabels: (rule) => rule === 'test:home/selects',
    });
  }

  async #rulesFor(changes: Changes): Promise<readonly RuleKey[]> {
    this.counts += 1;
    const found = new Set<RuleKey>();
    for (const [namespace, changed] of changes) {
      this.searched.push([namespace, ...(changed === 'existence' ? [] : changed)].join(' '));
      for (const rule of namespace) found.add(asKey<RuleKey>(rule));
      await Promise.resolve();
    }
    if (!this.fails) return [...found];
    this.fails = false;
    throw new Error('a mistake in the search');
  }

  async add(...namespaces: readonly string[]): Promise<void> {
    for (const namespace of namespaces) this.changes.add(namespace, 'existence');
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

test('the rules for the first changed namespace are enqueued immediately, and the rules for the next 50 changes together after 250 ms', async () => {
  const scene = new Scene();
  await scene.add('ab');
  assert.deepEqual(scene.take(), ['a', 'b']);
  for (let event = 0; event < 50; event += 1) await scene.add('bc');
  assert.deepEqual(scene.take(), []);
  await scene.clock.advance(250);
  assert.deepEqual(scene.take(), ['b', 'c']);
  await scene.add('a');
  assert.deepEqual(scene.take(), []);
  await scene.clock.advance(250);
  assert.deepEqual(scene.take(), ['a']);
  await scene.clock.advance(250);
  await scene.add('d');
  assert.deepEqual(scene.take(), ['d']);
  assert.equal(scene.counts, 4, '4 searches: the 50 changes share one');
  await scene.add('e');
  scene.changes.stop();
  await scene.clock.advance(1000);
  await scene.add('f');
  assert.deepEqual(scene.take(), []);
});

test('after the event of a namespace, the evaluation of its rule counts as outdated until the rule is enqueued', async () => {
  const scene = new Scene();
  assert.equal(await scene.isOutdated('a', 'a'), false);
  scene.changes.add('a', 'existence');
  const during = scene.isOutdated('c', 'a');
  assert.equal(await during, true, 'the search is under way, so any rule may be found');
  await scene.add();
  assert.deepEqual([scene.take(), await scene.isOutdated('a', 'a')], [['a'], false]);
  await scene.add('b');
  assert.deepEqual(
    [scene.take(), await scene.isOutdated('b', 'a'), await scene.isOutdated('b', 'b')],
    [[], false, true],
  );
  await scene.clock.advance(250);
  assert.deepEqual([scene.take(), await scene.isOutdated('b', 'b')], [['b'], false]);
});

test('if a list contains new namespaces, their rules are enqueued immediately', async () => {
  const scene = new Scene();
  scene.changes.add('ab', 'existence');
  scene.changes.add('c', 'existence');
  await scene.add();
  assert.deepEqual(scene.take(), ['a', 'b', 'c']);
});

test('when a label changes 51 times in a row, the rules are enqueued immediately for the first change, and 1 s later for all others', async () => {
  const scene = new Scene();
  const flip = async (key = 'tier'): Promise<void> => {
    scene.changes.add('ab', new Set([key]));
    await scene.add();
  };
  await flip();
  assert.deepEqual(scene.take(), ['a', 'b']);
  for (let change = 0; change < 50; change += 1) await flip(change === 25 ? 'team' : 'tier');
  await scene.add('c');
  assert.equal(scene.counts, 1);
  assert.equal(await scene.isOutdated('a', 'ab'), true, 'a change of this namespace still waits');
  assert.equal(await scene.isOutdated('a', 'other'), false);
  await scene.clock.advance(999);
  assert.deepEqual(scene.take(), []);
  await scene.clock.advance(1);
  assert.deepEqual(scene.take(), ['a', 'b', 'c']);
  assert.deepEqual(scene.searched, ['ab tier', 'ab tier team', 'c'], 'the later search has all changed labels');
  assert.equal(await scene.isOutdated('a', 'ab'), false);
  await scene.clock.advance(1000);
  await flip();
  assert.deepEqual(scene.take(), ['a', 'b']);
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
    scene.changes.add('home', new Set(['team']));
    await scene.add();
  }
  assert.equal(await scene.isOutdated('test:home/a', 'x'), true);
});

test('if the search for the rules of a namespace fails, the error is logged, and 1 s later one search is for all changes', async () => {
  for (const changed of ['existence', new Set(['tier'])] as const) {
    const scene = new Scene();
    scene.fails = true;
    scene.changes.add('a', changed);
    await scene.add();
    await scene.add('b');
    assert.deepEqual(scene.take(), []);
    assert.match(scene.errors.join(), /cannot find the rules .*"namespace":"a"/);
    assert.equal(await scene.isOutdated('c', 'a'), true, 'any rule may select the namespace');
    assert.equal(await scene.isOutdated('c', 'd'), false);
    scene.changes.add('a', new Set(['team']));
    await scene.clock.advance(1000);
    assert.deepEqual(scene.take(), ['a', 'b']);
    assert.deepEqual(scene.searched.slice(-2), [changed === 'existence' ? 'a' : 'a tier team', 'b']);
    assert.deepEqual([await scene.isOutdated('c', 'a'), scene.errors.length], [false, 1]);
  }
});
