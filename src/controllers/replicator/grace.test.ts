/** When a copy is deleted or emptied because its source is gone: real rules, claims and decisions on objects in memory. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { ruleScope } from '../../../test/support/rule-scope.ts';
import { Claims } from '../../copy/book/claims.ts';
import { sourceView } from '../../copy/model/claim.ts';
import type { Fingerprint } from '../../copy/model/content.ts';
import { parseResourceKey, resourceKey, type ObjectKey, ruleKeyOfKind } from '../../copy/model/keys.ts';
import { contentVersion, observe, type Observed } from '../../copy/model/observed.ts';
import { outcomeOf, outcomesOf } from '../../copy/plan/contest.ts';
import { decide, type Decision, type FactSource } from '../../copy/plan/decide.ts';
import type { RuleState } from '../../copy/model/rule-set.ts';
import { ReplicatorRules } from './rules.ts';
import { NO_CYCLES } from '../../../test/support/no-cycles.ts';

type Annotations = Readonly<Record<string, string>>;

const GRACE_MS = 5000;
const CONTENT: Fingerprint = { digest: 'd', keys: 'k', type: 'Opaque' };
const ALLOWED = { 'replication-allowed': 'true' };
const PUSHES = { 'replicate-to': 'team/copy' };
const FILLED = { 'replicated-from-version': '1', 'replicated-from-allowed': '.*', 'replicated-from-origin': 'home/a' };
const DELETING = { deletionTimestamp: '2026-01-01T00:00:00Z' };
/** The target keeps its data, or gets those of its source. */
const KEPT = /^(nothing|update (source|keep))$/;
const { signal } = new AbortController();

const key = (path: string): ObjectKey => {
  const [namespace = '', name = ''] = path.split('/');
  return resourceKey('c', 'Secret', namespace, name);
};

/** A cluster, and a process that watches it. */
class World {
  readonly server = new Map<ObjectKey, Observed>();
  /** What the watches have shown. */
  readonly index = new Map<ObjectKey, Observed>();
  readonly #rules: ReplicatorRules;
  #claims: Claims;
  reads = 0;
  nowMs = 0;
  #version = 0;

  constructor(graceMs = GRACE_MS) {
    const observed = (_kind: unknown, namespace: string, name: string): Observed | undefined =>
      this.index.get(key(`${namespace}/${name}`));
    const scope = ruleScope();
    for (const name of ['home', 'team', 'more']) scope.namespaces.assume(name);
    this.#rules = new ReplicatorRules(scope, observed, { graceMs });
    this.#claims = this.#newClaims();
  }

  #newClaims(): Claims {
    const claims = new Claims(() => this.nowMs);
    claims.add(this.#rules);
    return claims;
  }

  /** Starts the process again: the new one has only what the watches show. */
  async restart(): Promise<void> {
    this.#claims = this.#newClaims();
    for (const [path, object] of this.index) this.#claims.objectChanged(path, undefined, object);
    for (const path of this.index.keys()) await this.#evaluate(path);
  }

  /** Writes an object. `undefined`: deletes it. @param isSeen whether a watch shows the change now */
  async put(
    path: string,
    annotations: Annotations | undefined,
    isSeen = true,
    more: { readonly deletionTimestamp?: string } = {},
  ): Promise<void> {
    const at = key(path);
    const { namespace, name } = parseResourceKey(at);
    const prefixed = Object.entries(annotations ?? {}).map(([one, value]) => {
      return [one.startsWith('keyferry.dev/') ? one : `k8s-replicator/${one}`, value] as const;
    });
    const resourceVersion = String((this.#version += 1));
    const meta = { name, namespace, uid: path, resourceVersion, creationTimestamp: '', ...more };
    if (annotations === undefined) this.server.delete(at);
    else this.server.set(at, observe({ ...meta, annotations: Object.fromEntries(prefixed) }));
    if (isSeen) await this.#see(at);
  }

  async #see(at: ObjectKey): Promise<void> {
    const [before, after] = [this.index.get(at), this.server.get(at)];
    if (after === undefined) this.index.delete(at);
    else this.index.set(at, after);
    this.#claims.objectChanged(at, before, after);
    await this.#evaluate(at);
  }

  async #evaluate(at: ObjectKey): Promise<void> {
    const { namespace, name } = parseResourceKey(at);
    const rule = ruleKeyOfKind('replicator', 'Secret', namespace, name);
    this.#claims.put(rule, await this.#rules.evaluate(rule, this.#claims));
  }

  /** What the process does with an object now: `later 5000`, `delete`, `update minimal`, … */
  async decided(path: string): Promise<string> {
    const { plan, facts } = await this.#decide(key(path));
    if (plan.do === 'later') return `later ${plan.graceMs}`;
    const remarks = 'remarks' in plan ? plan.remarks : undefined;
    const outcome = 'claim' in plan ? undefined : outcomeOf(plan);
    for (const [entry, own] of outcomesOf(facts, outcome, remarks)) this.#claims.book.settle(entry, own);
    return 'claim' in plan ? `${plan.do} ${plan.desired.data}` : plan.do;
  }

  async #decide(target: ObjectKey): Promise<Decision> {
    const claims = this.#claims;
    const source: FactSource = {
      claims,
      cycles: NO_CYCLES,
      sources: {
        view: (from) => sourceView(from ?? target, from && this.index.get(from as ObjectKey), () => true),
        fingerprint: () => CONTENT,
        load: async (from) => {
          this.reads += 1;
          if (this.index.get(from as ObjectKey) !== this.server.get(from as ObjectKey))
            await this.#see(from as ObjectKey);
          return CONTENT;
        },
      },
      hasNamespace: () => true,
      orphanActionOf: async (owner, orphan, observed) => {
        this.reads += 1;
        const { place } = this.#rules.objectOf(owner);
        const there = this.server.get(key(`${place.namespace}/${place.name}`));
        const version = there && this.#rules.versionOf(there);
        const live: RuleState = version === undefined ? { state: 'gone' } : { state: 'there', version };
        const getLive = async (): Promise<RuleState> => await Promise.resolve(live);
        return await claims.orphanActionOf(owner, orphan, observed, { isOutdated: () => false, getLive });
      },
      now: () => 0,
    };
    const observed = this.index.get(target);
    const state = {
      presence: observed ? 'present' : 'absent',
      observed,
      goingAway: false,
      cannotUpdate: false,
    } as const;
    const held = observed && { version: contentVersion(observed), fingerprint: CONTENT };
    const reader = {
      state: () => ({ ...state, held, type: CONTENT.type }),
      read: async () => await Promise.reject(new Error('the target is not read')),
    };
    return await decide(target, source, reader, signal);
  }
}

const MARKED = { 'replicated-by': 'home/a', 'replicated-from-version': '1', 'keyferry.dev/target': 'team/copy' };

/** A source with a copy that it has pushed. */
async function pushed(graceMs?: number, annotations: Annotations = PUSHES): Promise<World> {
  const world = new World(graceMs);
  await world.put('home/a', annotations);
  await world.put('team/copy', MARKED);
  await world.decided('team/copy');
  return world;
}

/** A source, and an object that was filled from it: in this process, or before its start. */
async function pulled(graceMs?: number, inThisProcess = true): Promise<World> {
  const world = new World(graceMs);
  await world.put('home/a', ALLOWED);
  await world.put('team/b', { 'replicate-from': 'home/a', ...ALLOWED, ...FILLED });
  if (inThisProcess) assert.match(await world.decided('team/b'), KEPT);
  return world;
}

describe('a pushed copy whose source is gone', () => {
  it('is deleted after the grace, and the source is read from the server only then', async () => {
    const world = await pushed();
    await world.put('home/a', undefined);
    assert.equal(await world.decided('team/copy'), 'later 5000');
    world.nowMs = 4999;
    assert.equal(await world.decided('team/copy'), 'later 1');
    assert.equal(world.reads, 0);
    world.nowMs = 5000;
    assert.equal(await world.decided('team/copy'), 'delete');
    assert.equal(world.reads, 1);
    assert.equal(await world.decided('team/copy'), 'delete', 'a deletion that failed has no second grace');
  });

  it('keeps what replicate-once holds if the source is back in time, and the next absence has a whole grace', async () => {
    const once = { ...PUSHES, 'replicate-once': 'true' };
    const world = await pushed(GRACE_MS, once);
    await world.decided('team/copy');
    for (const start of [0, 4000, 100_000]) {
      world.nowMs = start;
      await world.put('home/a', undefined);
      assert.equal(await world.decided('team/copy'), 'later 5000');
      world.nowMs += 3000;
      await world.put('home/a', once);
      assert.match(await world.decided('team/copy'), /^(nothing|update keep)$/);
    }
  });

  it('is not deleted if the server has the source again, but no watch has shown it yet', async () => {
    const world = await pushed();
    await world.put('home/a', undefined);
    await world.decided('team/copy');
    await world.put('home/a', PUSHES, false);
    world.nowMs = 5000;
    assert.equal(await world.decided('team/copy'), 'later undefined');
  });

  it('is deleted half a second after a source that exists no longer lists it or has lost its annotation', async () => {
    for (const annotations of [{ 'replicate-to': 'team/other' }, { 'replication-allowed': 'true' }, {}]) {
      const world = await pushed();
      await world.put('home/a', annotations);
      assert.equal(await world.decided('team/copy'), 'later 500', JSON.stringify(annotations));
      world.nowMs = 500;
      assert.equal(await world.decided('team/copy'), 'delete', JSON.stringify(annotations));
    }
  });

  it('stays if two sources swap their targets one after the other, and is taken over at once', async () => {
    const world = await pushed();
    await world.put('home/z', { 'replicate-to': 'team/other' });
    await world.put('team/other', { ...MARKED, 'replicated-by': 'home/z', 'keyferry.dev/target': 'team/other' });
    await world.put('home/a', { 'replicate-to': 'team/other' });
    world.nowMs = 499;
    assert.equal(await world.decided('team/copy'), 'later 1');
    await world.put('home/z', PUSHES);
    for (const copy of ['team/copy', 'team/other']) assert.equal(await world.decided(copy), 'update source');
  });

  it('has another half second each time that a source lets it go', async () => {
    const world = await pushed();
    await world.put('home/a', {});
    assert.equal(await world.decided('team/copy'), 'later 500');
    world.nowMs = 400;
    await world.put('home/a', PUSHES);
    world.nowMs = 10_000;
    await world.put('home/a', {});
    assert.equal(await world.decided('team/copy'), 'later 500');
  });

  it('has no grace while its source is being deleted, because such a source exists', async () => {
    const world = await pushed();
    await world.put('home/a', PUSHES, true, DELETING);
    assert.match(await world.decided('team/copy'), KEPT);
    await world.put('home/a', {}, true, DELETING);
    world.nowMs = 500;
    assert.equal(await world.decided('team/copy'), 'delete');
  });

  it('has a new grace after a restart of the process', async () => {
    const world = await pushed();
    await world.put('home/a', undefined);
    await world.decided('team/copy');
    world.nowMs = 4000;
    await world.restart();
    assert.equal(await world.decided('team/copy'), 'later 5000');
  });

  it('is not taken over by another source during the grace', async () => {
    const world = await pushed();
    await world.put('home/z', PUSHES);
    assert.equal(await world.decided('team/copy'), 'nothing');
    await world.put('home/a', undefined);
    assert.equal(await world.decided('team/copy'), 'later 5000');
    world.nowMs = 5000;
    assert.equal(await world.decided('team/copy'), 'update source');
  });

  it('keeps its grace if another source that lists it, too, lets it go', async () => {
    const world = await pushed();
    await world.put('home/z', PUSHES);
    await world.put('home/a', undefined);
    assert.equal(await world.decided('team/copy'), 'later 5000');
    await world.put('home/z', { 'replicate-to': 'team/other' });
    assert.equal(await world.decided('team/copy'), 'later 5000');
  });

  it('is deleted after half a second if there is no grace', async () => {
    const world = await pushed(0);
    await world.put('home/a', undefined);
    assert.equal(await world.decided('team/copy'), 'later 500');
    world.nowMs = 500;
    assert.equal(await world.decided('team/copy'), 'delete');
  });
});

describe('a mark that names a source of another namespace', () => {
  it('does not show, by the time of the deletion, whether this source exists', async () => {
    for (const source of [undefined, {}, ALLOWED, { 'replicate-to': 'more/secret' }]) {
      const world = new World();
      if (source !== undefined) await world.put('home/a', source);
      await world.put('team/copy', MARKED);
      assert.equal(await world.decided('team/copy'), 'later 5000', JSON.stringify(source));
      world.nowMs = 5000;
      assert.equal(await world.decided('team/copy'), 'delete');
    }
  });
});

describe('an object that was filled from a source', () => {
  it('is emptied after the grace if the source is gone, also from the server', async () => {
    const world = await pulled();
    await world.put('home/a', undefined);
    assert.equal(await world.decided('team/b'), 'later 5000');
    world.nowMs = 5000;
    assert.equal(await world.decided('team/b'), 'update minimal');
    assert.equal(world.reads, 1);
  });

  it('keeps its data if the source is back on the server, whether a watch has shown this or not', async () => {
    for (const isSeen of [true, false]) {
      const world = await pulled();
      await world.put('home/a', undefined);
      assert.equal(await world.decided('team/b'), 'later 5000');
      await world.put('home/a', ALLOWED, isSeen);
      world.nowMs = 5000;
      assert.match(await world.decided('team/b'), KEPT);
      await world.put('home/a', undefined);
      assert.equal(await world.decided('team/b'), 'later 5000', 'a later absence has a whole grace');
    }
  });

  it('is emptied at once if the source exists and no longer allows it', async () => {
    for (const annotations of [{}, { 'replication-allowed': 'false' }]) {
      const world = await pulled();
      await world.put('home/a', annotations);
      assert.equal(await world.decided('team/b'), 'update minimal');
    }
  });

  it('is emptied at the same time whether the source is missing or forbids it, if this process has never filled it', async () => {
    for (const source of [undefined, {}]) {
      const world = await pulled(GRACE_MS, false);
      await world.put('home/a', source);
      for (const start of [0, 20_000]) {
        world.nowMs = start;
        assert.equal(await world.decided('team/b'), 'later 5000');
        world.nowMs += 5000;
        assert.equal(await world.decided('team/b'), 'update minimal');
        await world.put('team/b', { 'replicate-from': 'home/a' });
        assert.equal(await world.decided('team/b'), 'fail');
        // Its author pretends that it was filled again.
        await world.put('team/b', { 'replicate-from': 'home/a', ...FILLED });
      }
    }
  });

  it('is emptied at once if there is no grace', async () => {
    const world = await pulled(0);
    await world.put('home/a', undefined);
    assert.equal(await world.decided('team/b'), 'update minimal');
    assert.equal(world.reads, 0, 'its source is not looked up either');
  });
});

describe('a chain of objects, each filled from the one before', () => {
  async function chain(): Promise<World> {
    const world = await pulled();
    await world.put('more/c', { 'replicate-from': 'team/b', ...FILLED });
    assert.match(await world.decided('more/c'), KEPT);
    return world;
  }

  it('only the object whose source is gone waits; the next one is emptied as soon as the first has no data', async () => {
    const world = await chain();
    await world.put('home/a', undefined);
    assert.equal(await world.decided('team/b'), 'later 5000');
    assert.match(await world.decided('more/c'), KEPT);
    world.nowMs = 5000;
    assert.equal(await world.decided('team/b'), 'update minimal');
    await world.put('team/b', { 'replicate-from': 'home/a', ...ALLOWED });
    assert.equal(await world.decided('team/b'), 'fail');
    assert.equal(await world.decided('more/c'), 'update minimal');
  });

  it('if an object in the middle is made again and is still empty, the next one waits until it is filled', async () => {
    const world = await chain();
    await world.put('team/b', undefined);
    await world.put('team/b', { 'replicate-from': 'home/a', ...ALLOWED });
    assert.equal(await world.decided('more/c'), 'later 5000');
    assert.equal(await world.decided('team/b'), 'update source');
    await world.put('team/b', { 'replicate-from': 'home/a', ...ALLOWED, ...FILLED });
    assert.match(await world.decided('more/c'), KEPT);
  });

  it('if an object in the middle is empty and stays so, the next one is emptied after the grace', async () => {
    const world = await chain();
    await world.put('team/b', { 'replicate-from': 'home/a', ...ALLOWED });
    assert.equal(await world.decided('more/c'), 'later 5000');
    world.nowMs = 5000;
    assert.equal(await world.decided('more/c'), 'update minimal');
  });
});
