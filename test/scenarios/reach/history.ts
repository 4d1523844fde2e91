/**
 * Makes random changes of labels, consent, exclusions, limits, rules and suspensions, and kills the operator from time
 * to time. In the end there must be exactly the copies that the settings permit, and a copy that was permitted all the
 * time must be the same object. The test's name has the seed of the changes.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { Random } from '../../support/random.ts';
import {
  allowedCopies,
  destinationOf,
  type LimitsState,
  type NamespaceState,
  type RuleState,
} from '../../support/reach-oracle.ts';
import { waitFor } from '../../support/wait-for.ts';
import { annotations, COPY_LABEL, labels, mirrorPath, MirrorScene, OWNED_BY, secretPath } from '../mirrors/support.ts';

const STEPS = 40;
/** Every UPTIME steps, a history restarts the operator. It kills the operator DOWNTIME steps before. */
const UPTIME = 14;
const DOWNTIME = 3;
const MIRRORS = ['m0', 'm1', 'm2'];
const PUSHES = ['p0', 'p1'];
const PUSHED_BY = 'k8s-replicator/replicated-by';

interface Copy {
  readonly uid: string;
  readonly resourceVersion: string;
}

/**
 * One random history: its settings, and the copies that its checks saw. The names of all its objects begin with the
 * seed.
 */
class History {
  readonly #scene: MirrorScene;
  readonly #random: Random;
  readonly #prefix: string;
  readonly #home: string;
  readonly #namespaces = new Map<string, NamespaceState>();
  readonly #rules = new Map<string, RuleState>();
  readonly #suspended = new Set<string>();
  /** Copies that have been permitted since a check saw them. Each of these must stay the same object. */
  readonly #steady = new Map<string, Copy>();
  /** The copies of each suspended mirror at the first check after its suspension. They must not change. */
  readonly #frozen = new Map<string, ReadonlyMap<string, Copy>>();
  #limits: LimitsState = {};

  constructor(scene: MirrorScene, seed: number) {
    this.#scene = scene;
    this.#random = new Random(seed);
    this.#prefix = `s${seed}-`;
    this.#home = `${this.#prefix}home`;
    for (const name of ['home', 'a', 'b', 'c']) this.#namespaces.set(`${this.#prefix}${name}`, { labels: {} });
  }

  async begin(): Promise<void> {
    await this.#scene.namespaces(...this.#namespaces.keys());
    for (const name of [...MIRRORS, ...PUSHES]) await this.#scene.secret(this.#home, name, { password: 'x' });
    for (const name of MIRRORS) {
      const rule = this.#newRule(name);
      this.#rules.set(name, rule);
      await this.#scene.mirror(name, rule.namespaces, { destination: destinationOf(rule) }, this.#home);
    }
    await this.#restart();
    await this.#settle();
  }

  async run(): Promise<void> {
    for (let step = 1; step <= STEPS; step += 1) {
      await this.#random.pick(this.#changes)();
      this.#changed();
      if (step % UPTIME === UPTIME - DOWNTIME) await this.#scene.operators.at(-1)?.kill9();
      if (step % UPTIME === 0) {
        await this.#restart();
        await this.#settle();
      }
    }
    await this.#restart();
    await this.#settle();
    for (const name of this.#suspended) await this.#suspend(name, false);
    this.#changed();
    await this.#settle();
  }

  /**
   * The kinds of change. Each makes its random choices before its first request, so that a seed always gives the same
   * history.
   */
  readonly #changes: readonly (() => Promise<unknown>)[] = [
    async () =>
      await this.#label(this.#random.pick(['tier', 'tier', 'team']), this.#random.pick(['prod', 'test', null])),
    async () => await this.#label('tier', this.#random.pick(['prod', null])),
    async () => {
      const [name, text] = [this.#namespace(), this.#random.pick(['', this.#home, `x,${this.#prefix}h.*`, '(', null])];
      const { labels: present = {} } = this.#namespaces.get(name) ?? {};
      this.#namespaces.set(name, { labels: present, acceptFrom: text ?? undefined });
      await this.#scene.api.patch(`/api/v1/namespaces/${name}`, annotations({ 'keyferry.dev/accept-from': text }));
    },
    async () => {
      const rule = this.#newRule(this.#random.pick(MIRRORS));
      this.#rules.set(rule.source, rule);
      const absent = { name: null, namespaceSelector: null, excludedNamespaces: null };
      const spec = { destination: { ...absent, ...destinationOf(rule) } };
      await this.#scene.api.patch(mirrorPath(rule.source, this.#home), { spec });
    },
    async () => {
      const rule = this.#newRule(this.#random.pick(PUSHES));
      const isGone = this.#random.next() < 0.2;
      if (isGone) this.#rules.delete(rule.source);
      else this.#rules.set(rule.source, { ...rule, name: rule.source, selector: undefined, excluded: undefined });
      const text = isGone ? null : rule.namespaces.join(',');
      await this.#annotate(rule.source, 'k8s-replicator/replicate-to-namespaces', text);
    },
    async () => await this.#suspend(this.#random.pick([...MIRRORS, ...PUSHES]), this.#random.next() < 0.5),
  ];

  #namespace(): string {
    return this.#random.pick([...this.#namespaces.keys()]);
  }

  #newRule(source: string): RuleState {
    const pick = <T>(items: readonly T[]): T => this.#random.pick(items);
    const [all, a, b, c] = ['.*', 'a', 'b', 'c'].map((name) => `${this.#prefix}${name}`) as [
      string,
      string,
      string,
      string,
    ];
    return {
      home: this.#home,
      source,
      name: pick([source, source, `alias-${source}`]),
      namespaces: pick([[all], [a, b], [`${this.#prefix}[bc]`], [c, all]]),
      selector: pick([
        undefined,
        { key: 'tier', values: ['prod'] },
        { key: 'tier', values: ['test'], not: true },
        { key: 'team' },
      ]),
      excluded: pick([undefined, undefined, [a], [`${this.#prefix}[ab]`]]),
    };
  }

  async #label(key: string, value: string | null): Promise<void> {
    const name = this.#namespace();
    const state = this.#namespaces.get(name) ?? { labels: {} };
    const { [key]: _, ...others } = state.labels;
    this.#namespaces.set(name, { ...state, labels: value === null ? others : { ...others, [key]: value } });
    await this.#scene.api.patch(`/api/v1/namespaces/${name}`, labels({ [key]: value }));
  }

  async #annotate(source: string, key: string, value: string | null): Promise<void> {
    await this.#scene.api.patch(secretPath(this.#home, source), annotations({ [key]: value }));
  }

  async #suspend(name: string, isSuspended: boolean): Promise<void> {
    if (isSuspended) this.#suspended.add(name);
    else this.#suspended.delete(name);
    const path = mirrorPath(name, this.#home);
    if (MIRRORS.includes(name)) await this.#scene.api.patch(path, { spec: { suspend: isSuspended } });
    else await this.#annotate(name, 'keyferry.dev/suspend', isSuspended ? 'true' : null);
  }

  /** Kills the operator, and starts it with other limits. */
  async #restart(): Promise<void> {
    const [a, ab] = [`${this.#prefix}a`, `${this.#prefix}(a|b|home)`];
    const choices: readonly (readonly [LimitsState, string[]])[] = [
      [{}, []],
      [{ excluded: [a] }, [`--excluded-namespaces=${a}`]],
      [{ destinations: [ab] }, [`--destination-namespaces=${ab}`]],
      [{ destinationsWith: 'tier' }, ['--destination-namespaces=selector:tier']],
      [{ sourcesWith: 'team' }, ['--source-namespaces=selector:team']],
      [{ requireConsent: true }, ['--require-consent']],
    ];
    const [limits, args] = this.#random.pick(choices);
    await this.#scene.operators.at(-1)?.kill9();
    this.#limits = limits;
    this.#changed();
    await this.#scene.operator({ args });
  }

  #allowed(name: string): string[] {
    const rule = this.#rules.get(name);
    return rule === undefined ? [] : allowedCopies(rule, this.#namespaces, this.#limits);
  }

  /** Forgets copies that are no longer permitted and mirrors that are no longer suspended. Called after each change. */
  #changed(): void {
    const allowed = new Set([...this.#rules.keys()].flatMap((name) => this.#allowed(name)));
    for (const copy of this.#steady.keys()) if (!allowed.has(copy)) this.#steady.delete(copy);
    for (const name of this.#frozen.keys()) if (!this.#suspended.has(name)) this.#frozen.delete(name);
  }

  /** The copies in the cluster: for each rule, its copies by `namespace/name`. */
  async #copies(): Promise<Map<string, Map<string, Copy>>> {
    const copies = new Map([...MIRRORS, ...PUSHES].map((name) => [name, new Map<string, Copy>()]));
    for (const { metadata } of await this.#scene.api.list('/api/v1/secrets', { labelSelector: COPY_LABEL })) {
      const { namespace, name, uid, resourceVersion, annotations: marks } = metadata;
      const [home, rule = ''] = (marks?.[OWNED_BY] ?? marks?.[PUSHED_BY] ?? '').split('/');
      if (home === this.#home) copies.get(rule)?.set(`${namespace}/${name}`, { uid, resourceVersion });
    }
    return copies;
  }

  /** Compares the copies with the settings. @returns one line for each copy that is missing or should not exist */
  async #wrong(copies: ReadonlyMap<string, ReadonlyMap<string, Copy>>): Promise<string[]> {
    const wrong: string[] = [];
    for (const [name, there] of copies) {
      if (this.#suspended.has(name)) {
        if (MIRRORS.includes(name) && !(await this.#isSuspended(name))) wrong.push(`${name} is not suspended`);
        continue;
      }
      const allowed = new Set(this.#allowed(name));
      for (const copy of allowed) if (!there.has(copy)) wrong.push(`${copy} of ${name} is missing`);
      for (const copy of there.keys()) if (!allowed.has(copy)) wrong.push(`${copy} of ${name} is there`);
    }
    return wrong;
  }

  async #isSuspended(name: string): Promise<boolean> {
    const { metadata, status } = await this.#scene.api.get(mirrorPath(name, this.#home));
    const isReported = status?.observedGeneration === metadata.generation;
    return isReported && status.conditions.some(({ reason }: Json) => reason === 'Suspended');
  }

  async #settle(): Promise<void> {
    let wrong: string[] = [];
    let copies = new Map<string, Map<string, Copy>>();
    const look = async (): Promise<boolean> => {
      copies = await this.#copies();
      wrong = await this.#wrong(copies);
      return wrong.length === 0;
    };
    await waitFor(look, {
      message: () => `${wrong.join(', ')}\n${JSON.stringify(this.#limits)}\n${this.#scene.tail()}`,
    });
    const all = new Map<string, Copy>();
    for (const there of copies.values()) for (const [copy, seen] of there) all.set(copy, seen);
    for (const [copy, { uid }] of this.#steady) assert.equal(all.get(copy)?.uid, uid, `${copy} was made again`);
    for (const [name, before] of this.#frozen) assert.deepEqual(copies.get(name), before, `${name} is suspended`);
    for (const [name, there] of copies) {
      const allowed = this.#allowed(name);
      for (const [copy, seen] of there) if (allowed.includes(copy)) this.#steady.set(copy, seen);
      if (this.#suspended.has(name) && MIRRORS.includes(name)) this.#frozen.set(name, there);
    }
  }

  async end(): Promise<void> {
    const { api } = this.#scene;
    for (const name of MIRRORS) await api.delete(mirrorPath(name, this.#home));
    for (const name of PUSHES) await api.delete(secretPath(this.#home, name));
    await this.#scene.gone(...MIRRORS.map((name) => mirrorPath(name, this.#home)));
  }
}

/** Declares one test for each seed. */
export function testHistories(seeds: readonly number[]): void {
  describe('the copies after a random history', () => {
    let scene: MirrorScene;

    before(async () => {
      scene = await MirrorScene.open({ controllerManager: false });
    });

    after(async () => {
      await scene.close();
    });

    for (const seed of seeds) {
      it(`after random changes (seed ${seed}), there are exactly the copies that the settings permit, and those permitted all the time are the same objects`, async () => {
        const history = new History(scene, seed);
        await history.begin();
        await history.run();
        await history.end();
      });
    }
  });
}
