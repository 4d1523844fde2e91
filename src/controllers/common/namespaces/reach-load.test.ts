/** Tests the cost of label changes of many namespaces with many rules: the number of evaluations, and memory. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { ManualClock } from '../../../../test/support/manual-clock.ts';
import { Namespaces } from '../../../copy/cluster/watch/namespaces.ts';
import { type RuleKey } from '../../../copy/model/keys.ts';
import type { KubeObject } from '../../../kube/api.ts';
import type { SecretMirror } from '../../mirrors/api.ts';
import { createMirrorStore } from '../../mirrors/rules/mirror-store.ts';
import { MirrorRules } from '../../mirrors/rules/rule-set.ts';
import { parseSelector } from '../../../runtime/text/label-selector.ts';
import { NamespaceChanges } from './namespace-changes.ts';
import { reachOf } from './reach.ts';
import { ruleScope } from '../../../../test/support/rule-scope.ts';

const NAMESPACES = 10_000;
/** Number of mirrors that select by the label `tier`, which changes. The `IDLE` mirrors select by other labels. */
const SELECTING = 20;
const IDLE = 480;
/** Longest time that a search waits for more changed namespaces, ms. */
const BATCH_MS = 1000;

class Scene {
  readonly clock = new ManualClock();
  readonly namespaces = new Namespaces();
  /** How often each rule was enqueued. */
  readonly enqueued = new Map<RuleKey, number>();
  #version = 0;

  static async open(limitKeys?: string): Promise<Scene> {
    const scene = new Scene();
    await scene.#open(limitKeys);
    return scene;
  }

  async #open(limitKeys: string | undefined): Promise<void> {
    const reach = reachOf({
      sourceNamespaces: undefined,
      destinationNamespaces: limitKeys === undefined ? undefined : { selector: limitKeys },
      excludedNamespaces: undefined,
      requireConsent: false,
    });
    const mirrors = createMirrorStore();
    for (let index = 0; index < SELECTING + IDLE; index += 1) {
      const [name, key] = index < SELECTING ? [`selecting-${index}`, 'tier'] : [`idle-${index}`, `key-${index}`];
      const destination = { namespaceSelector: { matchLabels: { [key]: 'prod' } } };
      const metadata = { name, namespace: 'home', uid: name, resourceVersion: '1', creationTimestamp: '' };
      const mirror: SecretMirror = { metadata, spec: { source: { name }, destination } };
      mirrors.put(mirror);
    }
    const scope = ruleScope({ namespaces: this.namespaces, reach });
    const rules = new MirrorRules(scope, { mirrors, viewOf: () => ({ state: 'unknown' }) });
    for (const [rule] of mirrors.all()) await rules.evaluate(rule, { ownedBy: () => [] });
    const engine = {
      enqueueRule: (rule: RuleKey) => void this.enqueued.set(rule, (this.enqueued.get(rule) ?? 0) + 1),
      claims: { findingsOf: () => ({}) },
    };
    const log = { error: () => assert.fail('no search fails') };
    const isCurrent = async (): Promise<boolean> => await Promise.resolve(true);
    const cluster = { namespaces: this.namespaces, isCurrent, watchNamespaces: () => undefined };
    const changes = new NamespaceChanges({ engine, cluster, clock: this.clock, log });
    changes.serve(rules.targets);
    for (let index = 0; index < NAMESPACES; index += 1) this.label(`n-${index}`, {});
    this.namespaces.onChange((...change) => changes.add(...change));
  }

  label(name: string, labels: Record<string, string>): void {
    this.#version += 1;
    this.namespaces.sink.upsert(namespaceObject(name, labels, String(this.#version)));
  }

  /** Lets a search end. It does at least one step in each turn of the event loop. */
  async search(): Promise<void> {
    for (let turn = 0; turn < NAMESPACES + SELECTING + IDLE; turn += 1) await setImmediate();
  }

  /** Waits until the searches enqueue no more rules. */
  async searched(): Promise<void> {
    for (let seen = -1; seen !== this.#total;) {
      seen = this.#total;
      await this.search();
      await this.clock.advance(BATCH_MS);
      await this.search();
    }
  }

  get #total(): number {
    let sum = 0;
    for (const count of this.enqueued.values()) sum += count;
    return sum;
  }

  /**
   * How often a rule of each group was enqueued at most: `selecting 2`. The group is the first part of the rule's name.
   */
  get result(): string[] {
    const most = new Map<string, number>();
    for (const [rule, count] of this.enqueued) {
      const kind = rule.replace(/^.*\/|-.*$/g, '');
      most.set(kind, Math.max(most.get(kind) ?? 0, count));
    }
    return [...most].map(([kind, count]) => `${kind} ${count}`);
  }
}

function namespaceObject(name: string, labels: Record<string, string>, resourceVersion: string): KubeObject {
  return { metadata: { name, uid: name, resourceVersion, creationTimestamp: '', labels } };
}

test('when a label of 10,000 namespaces changes, only the rules that select by this label are enqueued: one time for the first namespace, one time for all others', async () => {
  const scene = await Scene.open();
  scene.label('n-0', { tier: 'prod' });
  await scene.search();
  assert.deepEqual(scene.result, ['selecting 1']);
  for (let index = 1; index < NAMESPACES; index += 1) scene.label(`n-${index}`, { tier: 'prod' });
  await scene.searched();
  assert.deepEqual(scene.result, ['selecting 2']);
  assert.equal(scene.enqueued.size, SELECTING);
});

test('after a change of a label by which a limit decides, all rules are enqueued', async () => {
  const scene = await Scene.open('zone');
  scene.label('n-0', { zone: 'a' });
  await scene.searched();
  assert.equal(scene.enqueued.size, SELECTING + IDLE);
});

test('while a label changes 50 times a second, a rule is enqueued at most once a second', async () => {
  const scene = await Scene.open();
  const seconds = 5;
  for (let flip = 0; flip < 50 * seconds; flip += 1) {
    scene.label('n-0', flip % 2 === 0 ? { tier: 'prod' } : {});
    await scene.clock.advance(20);
  }
  await scene.searched();
  assert.match(scene.result.join(), new RegExp(`^selecting [2-${seconds + 1}]$`));
});

test('two labels of a namespace take at most 512 bytes of memory, including the index by label', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const used = (): number => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const namespaces = new Namespaces();
  const fill = (labels: (index: number) => string): void => {
    for (let index = 0; index < NAMESPACES; index += 1)
      namespaces.sink.upsert(JSON.parse(`{"metadata":{"name":"n-${index}","uid":"u-${index}",${labels(index)}}}`));
  };
  fill(() => '"labels":{}');
  const before = used();
  fill((index) => `"labels":{"tier":"prod","team":"team-${index}"}`);
  const bytes = (used() - before) / NAMESPACES;
  assert.deepEqual([...namespaces.names(parseSelector('tier=prod,team=team-1'))], ['n-1']);
  assert.ok(bytes > 0 && bytes <= 512, `${bytes} bytes`);
});
