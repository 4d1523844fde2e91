/** SecretMirrors that select namespaces by labels, and exclude some: both ways at once, after a restart, and after any history. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import { runProgram } from '../cli/program.ts';
import { annotations, labels, mirrorPath, MirrorScene, secretPath } from '../mirrors/support.ts';

const CONSENT = 'keyferry.dev/accept-from';
const VALUES = { password: 'x' };
const PROD = { matchLabels: { tier: 'prod' } };

describe('SecretMirrors by labels of namespaces', () => {
  let scene: MirrorScene;

  const patch = async (namespace: string, change: Json): Promise<Json> =>
    await scene.api.patch(`/api/v1/namespaces/${namespace}`, change);
  const label = async (namespace: string, values: Record<string, string | null>): Promise<Json> =>
    await patch(namespace, labels(values));

  before(async () => {
    scene = await MirrorScene.open();
    await scene.namespaces('one', 'two', 'three', 'four', 'flipping', 'calm');
    await scene.secret('default', 'db', VALUES);
    await label('one', { tier: 'prod', team: 'a' });
    await scene.operator();
  });

  after(async () => {
    await scene.close();
  });

  it('SecretMirrors by labels of namespaces copy where the label is, and follow a label that is put on, changed and taken away', async () => {
    await scene.mirror('db', [], { destination: { namespaceSelector: PROD, excludedNamespaces: ['four'] } });
    await scene.copied('one', 'db', VALUES);
    await label('four', { tier: 'prod' });
    await label('two', { tier: 'prod' });
    await scene.copied('two', 'db', VALUES, 1000);
    await scene.ready('db', 'Synced', /^2 copies are up to date$/);
    await label('two', { tier: 'test' });
    await scene.gone(secretPath('two', 'db'));
    assert.equal(await scene.find('four', 'db'), undefined, 'excluded');
    await label('two', { tier: 'prod' });
    await scene.copied('two', 'db', VALUES);
  });

  it('SecretMirrors by labels of namespaces learn a key that no rule had before, also of namespaces that are there', async () => {
    await scene.secret('default', 'late', VALUES);
    const namespaceSelector = { matchExpressions: [{ key: 'team', operator: 'Exists' }] };
    await scene.mirror('late', ['one', 'two', 'three'], { destination: { namespaceSelector } });
    await scene.copied('one', 'late', VALUES);
    await scene.ready('late', 'Synced', /^1 copy is up to date$/);
    await scene.api.patch(mirrorPath('late'), {
      spec: { destination: { namespaceSelector: { matchExpressions: [{ key: 'team', operator: 'DoesNotExist' }] } } },
    });
    await scene.gone(secretPath('one', 'late'));
    for (const namespace of ['two', 'three']) await scene.copied(namespace, 'late', VALUES);
  });

  it('SecretMirrors by labels of namespaces keep their copies when their selector gets a mistake that only the operator sees, and at a restart', async () => {
    const before = await Promise.all(['one', 'two'].map(async (namespace) => await scene.find(namespace, 'db')));
    const [first] = scene.operators;
    await first?.stop();
    await label('two', { tier: null });
    await scene.operator();
    await scene.gone(secretPath('two', 'db'));
    const again = await scene.find('one', 'db');
    assert.equal(again.metadata.resourceVersion, before[0].metadata.resourceVersion, 'not written');
  });

  it('SecretMirrors by labels of namespaces of a manifest are planned', async () => {
    const { stdout } = await runProgram(['status', '--kubeconfig', scene.plane.kubeconfigPath, '-o', 'wide']);
    assert.match(stdout, /selector:tier=prod/);
    await label('three', { tier: 'prod' });
    await scene.copied('three', 'db', VALUES);
    const explained = await runProgram(['explain', 'secret', 'three/db', '--kubeconfig', scene.plane.kubeconfigPath]);
    assert.match(explained.stdout, /is a copy of/);
  });

  it('SecretMirrors by labels of namespaces are not delayed by a label that flips 50 times a second, and end as its last value says', async () => {
    await scene.secret('default', 'calm', VALUES);
    let flips = 0;
    const until = Date.now() + 4000;
    const flipping = (async () => {
      while (Date.now() < until) {
        await label('flipping', { tier: flips % 2 === 0 ? 'prod' : null });
        flips += 1;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    })();
    await scene.mirror('calm', ['calm']);
    await scene.copied('calm', 'calm', VALUES, 2000);
    await scene.api.delete(mirrorPath('calm'));
    await scene.gone(secretPath('calm', 'calm'));
    await flipping;
    assert.ok(flips > 40, `${flips} flips`);
    await label('flipping', { tier: 'prod' });
    await scene.copied('flipping', 'db', VALUES);
    await label('flipping', { tier: null });
    await scene.gone(secretPath('flipping', 'db'));
  });

  it('SecretMirrors by labels of namespaces and all others end where the settings at the end allow, and no copy that was always allowed is made again', async () => {
    const random = randomOf(20_261_125);
    const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
    const names = ['h0', 'h1', 'h2', 'h3', 'h4'];
    const rules = ['r0', 'r1', 'r2'];
    await scene.namespaces(...names);
    for (const rule of rules) await scene.secret('default', rule, VALUES);
    const tiers = new Map<string, string | null>(names.map((name) => [name, null]));
    const consents = new Map<string, string | null>(names.map((name) => [name, null]));
    const specs = new Map<string, Json>();
    // Never changed, and always allowed.
    await scene.namespaces('steady');
    await label('steady', { tier: 'prod' });
    const isAllowed = (rule: string, name: string): boolean => {
      const spec = specs.get(rule);
      if (spec === undefined) return false;
      const tier = name === 'steady' ? 'prod' : (tiers.get(name) ?? null);
      const consent = name === 'steady' ? null : (consents.get(name) ?? null);
      const { namespaces, namespaceSelector, excludedNamespaces } = spec;
      const isNamed = namespaces.includes(name) || namespaces.includes('.*');
      const isLabelled = namespaceSelector === null || tier === namespaceSelector.matchLabels.tier;
      const isAccepted = consent === null || consent.split(',').includes('default');
      return isNamed && isLabelled && isAccepted && excludedNamespaces?.includes(name) !== true;
    };
    const steps: (() => Promise<unknown>)[] = [
      async () => {
        const [name, tier] = [pick(names), pick(['prod', 'test', null])];
        tiers.set(name, tier);
        await label(name, { tier });
      },
      async () => {
        const [name, consent] = [pick(names), pick(['', 'default', 'x,default', 'x', null])];
        consents.set(name, consent);
        await patch(name, annotations({ [CONSENT]: consent }));
      },
      async () => {
        const rule = pick(rules);
        const destination = {
          namespaces: pick([['.*'], [...names.slice(0, 3), 'steady']]),
          namespaceSelector: pick([null, PROD]),
          excludedNamespaces: pick([null, [pick(names)]]),
        };
        const isNew = !specs.has(rule);
        specs.set(rule, destination);
        if (isNew) await scene.mirror(rule, destination.namespaces, { destination: withoutNulls(destination) });
        else await scene.api.patch(mirrorPath(rule), { spec: { destination } });
      },
    ];
    for (const rule of rules) {
      specs.set(rule, { namespaces: ['.*'], namespaceSelector: PROD, excludedNamespaces: null });
      await scene.mirror(rule, ['.*'], { destination: { namespaceSelector: PROD } });
      await scene.copied('steady', rule, VALUES);
    }
    const steady = await Promise.all(rules.map(async (rule) => (await scene.find('steady', rule)).metadata.uid));
    for (let step = 0; step < 80; step += 1) await pick(steps)();
    const all = [...names, 'steady'];
    let wrong: string[] = [];
    await waitFor(
      async () => {
        wrong = [];
        for (const rule of rules) {
          for (const name of all) {
            const isThere = (await scene.find(name, rule)) !== undefined;
            if (isThere !== isAllowed(rule, name)) wrong.push(`${name}/${rule} ${isThere ? 'is there' : 'is missing'}`);
          }
        }
        return wrong.length === 0;
      },
      { message: () => wrong.join(', ') },
    );
    const after = await Promise.all(rules.map(async (rule) => (await scene.find('steady', rule)).metadata.uid));
    assert.deepEqual(after, steady);
  });
});

function withoutNulls(object: Json): Json {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null));
}

/** Numbers from 0 to 1 (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d_2b_79_f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
