/**
 * For each controller, all requests are counted. Objects that no rule selects or copies must cause no requests. Copies
 * must cause no requests except their writes.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';

import type { Keyferry } from '../support/keyferry.ts';
import { staysTrue, waitFor } from '../support/wait-for.ts';
import { assertWithin, Yardstick } from '../support/yardstick.ts';
import { FaultScene, NAMESPACES, namespaceNames, RECOVERY_MS } from './scene.ts';
import { RULES, CONTROLLERS } from './controllers.ts';

const QUIET_MS = 2000;
const CHURN_PARALLEL = 4;
const CHURN_ROUNDS = 20;
/** Limit of the operator's CPU time for each change, ms. */
const CPU_MS_A_CHANGE = 1.5;
const STUCK_MS = 4000;
/** How many unrelated Secrets are created. Each has 50 KiB. */
const UNRELATED = 60;
/** At most this much is read of the unrelated Secrets, bytes. Their values alone would be several times as much. */
const MOST_READ = 1024 * 1024;
/** How many namespaces no rule selects, and how many match. */
const OTHER = 30;
const MATCHING = 20;

interface Call {
  readonly method: string;
  readonly url: string;
}

const bigSecret = (name: string): object => ({
  apiVersion: 'v1',
  kind: 'Secret',
  type: 'helm.sh/release.v1',
  metadata: { name, namespace: 'unrelated', labels: { owner: 'helm' } },
  // Random, because the server compresses what it can.
  data: { release: randomBytes(50 * 1024).toString('base64') },
});

for (const controller of CONTROLLERS) {
  describe(controller.name, () => {
    let scene: FaultScene;
    let keyferry: Keyferry;
    before(async () => {
      scene = await FaultScene.open({ controller });
      keyferry = await scene.start();
      await scene.namespaces('unrelated');
      await waitUntilQuiet();
    });
    after(() => scene.close());

    const calls = (): Call[] =>
      scene.proxy.requests.filter(({ isWatch }) => !isWatch).map(({ method, url }) => ({ method, url }));
    /** Waits until no more requests arrive. Requests until then are not counted. */
    async function waitUntilQuiet(): Promise<void> {
      let count = -1;
      let since = performance.now();
      const isQuiet = (): boolean => {
        if (scene.proxy.requests.length !== count) since = performance.now();
        count = scene.proxy.requests.length;
        return performance.now() - since > QUIET_MS;
      };
      await waitFor(isQuiet, { message: 'the requests to stop' });
      scene.proxy.reset();
    }

    test(`${controller.name}: Secrets that no rule copies cause no requests, and almost no CPU time`, async (t) => {
      using yardstick = new Yardstick();
      const cpu = await keyferry.cpuSeconds();
      const before = await keyferry.memory();
      let changes = 0;
      const churn = async (worker: number): Promise<void> => {
        for (let n = 0; n < CHURN_ROUNDS; n += 1) {
          const path = `/api/v1/namespaces/unrelated/secrets/r-${worker}-${n}`;
          await scene.api.create(bigSecret(`r-${worker}-${n}`));
          await scene.api.patch(path, { metadata: { labels: { status: 'superseded' } } });
          // Every second Secret is deleted, the others stay.
          if (n % 2 === 0) await scene.api.delete(path);
          changes += n % 2 === 0 ? 3 : 2;
        }
      };
      await Promise.all(Array.from({ length: CHURN_PARALLEL }, async (_, worker) => await churn(worker)));
      const used = (await keyferry.cpuSeconds()) - cpu;
      const grown = (await keyferry.memory()).private - before.private;
      t.diagnostic(`${changes} changes, ${used.toFixed(2)} s of CPU, ${grown >> 10} KiB more`);
      assert.deepEqual(calls(), []);
      assertWithin(used * 1000, CPU_MS_A_CHANGE * changes, 'the CPU', yardstick.stretch);
      const { bytesIn } = scene.proxy.counters;
      assert.ok(bytesIn < MOST_READ, `${bytesIn >> 10} KiB were read`);
      assert.ok(grown < 6 * 1024 * 1024, `${grown >> 10} KiB for Secrets that no rule copies`);
      await waitUntilQuiet();
    });

    test(`${controller.name}: if the cluster has 5 MB of unrelated Secrets, a start of the operator reads none of their values`, async (t) => {
      const names = Array.from({ length: UNRELATED }, (_, n) => `big-${n}`);
      await scene.api.createMany(names.map((name) => bigSecret(name)));
      scene.proxy.reset();
      const before = await keyferry.memory();
      ({ keyferry } = await scene.restart());
      const { bytesIn } = scene.proxy.counters;
      const grown = (await keyferry.memory()).private - before.private;
      t.diagnostic(`${bytesIn >> 10} KiB read, ${grown >> 10} KiB more memory than before`);
      assert.ok(bytesIn > 0 && bytesIn < MOST_READ, `${bytesIn >> 10} KiB were read`);
      assert.ok(grown < 6 * 1024 * 1024, `${grown >> 10} KiB more`);
      await waitUntilQuiet();
    });

    test(`${controller.name}: ${OTHER} new namespaces that no rule selects cause no requests`, async () => {
      await scene.namespaces(...Array.from({ length: OTHER }, (_, n) => `other-${n}`));
      // Events arrive in order. When this last namespace has its copies, the earlier namespaces were evaluated, too.
      await scene.namespaces('team-499');
      await scene.converged(RECOVERY_MS, [...namespaceNames(), 'team-499']);
      // Also expected: statuses of mirrors, because they contain the number of copies.
      const expected =
        /\/namespaces\/team-499\/secrets|\/namespaces\/default\/secrets\/source-\d$|\/secretmirrors\/mirror-\d\/status/;
      assert.deepEqual(
        calls().filter(({ url }) => !expected.test(url)),
        [],
      );
      await waitUntilQuiet();
    });

    test(`${controller.name}: for ${MATCHING} new namespaces that match, each copy is created with one request, and nothing is listed`, async () => {
      const names = Array.from({ length: MATCHING }, (_, n) => `team-${500 + n}`);
      await scene.namespaces(...names);
      await scene.converged(RECOVERY_MS, [...namespaceNames(), ...names]);
      const asked = calls();
      const creations = asked.filter(
        ({ method, url }) => method === 'POST' && /\/namespaces\/team-\d+\/secrets/.test(url),
      );
      assert.equal(creations.length, names.length * RULES);
      // Only sources may be read, each at most one time: the cache may have dropped their content.
      const reads = asked.filter(({ method }) => method === 'GET');
      assert.ok(reads.length <= RULES, reads.map(({ url }) => url).join(' '));
      assert.ok(reads.every(({ url }) => /\/namespaces\/default\/secrets\/source-\d$/.test(url)));
      await waitUntilQuiet();
    });

    test(`${controller.name}: a namespace that stays in phase Terminating causes no requests, except one read of each copy that disappears`, async () => {
      const inside = (): Call[] => calls().filter(({ url }) => url.includes('/namespaces/team-3/'));
      await scene.api.delete('/api/v1/namespaces/team-3');
      assert.equal((await scene.api.get('/api/v1/namespaces/team-3')).status.phase, 'Terminating');
      await scene.changeSources();
      const others = namespaceNames().filter((name) => name !== 'team-3');
      assert.equal(others.length, NAMESPACES - 1);
      await scene.converged(RECOVERY_MS, others);
      await waitUntilQuiet();
      await scene.api.delete('/api/v1/namespaces/team-3/secrets/source-1');
      await scene.changeSources();
      await scene.converged(RECOVERY_MS, others);
      // A copy that leaves its watch is read one time, because it may only have lost its label.
      const deleted = '/api/v1/namespaces/team-3/secrets/source-1';
      const isRead = ({ method, url }: Call): boolean => method === 'GET' && url === deleted;
      const beside = (): Call[] => inside().filter((call) => !isRead(call));
      const onlyRead = (): boolean => beside().length === 0 && inside().length <= 1;
      await staysTrue(onlyRead, STUCK_MS, 'no other request for the namespace');
      assert.equal((await keyferry.metric('keyferry_claims', { state: 'error' })) ?? 0, 0);
    });
  });
}

describe('a start with 60 copies of 5 mirrors', () => {
  const namespaces = Array.from({ length: 12 }, (_, n) => `team-${n}`);
  const copies = namespaces.flatMap((namespace) =>
    Array.from({ length: RULES }, (_, n) => ({ namespace, name: `source-${n}`, mirror: `default/mirror-${n}` })),
  );
  let scene: FaultScene;
  before(async () => {
    scene = await FaultScene.open();
    await scene.namespaces(...namespaces.slice(NAMESPACES));
  });
  after(() => scene.close());

  /** Starts Keyferry, and waits for all copies. @returns the number of requests for copies, by HTTP method */
  async function start(): Promise<Readonly<Record<string, number>>> {
    scene.proxy.reset();
    const keyferry = await scene.operator();
    await keyferry.ready();
    await scene.converged(RECOVERY_MS, namespaces);
    await keyferry.stop();
    const counts: Record<string, number> = {};
    for (const { method, url } of scene.proxy.requests) {
      if (/\/namespaces\/team-\d+\/secrets/.test(url)) counts[method] = (counts[method] ?? 0) + 1;
    }
    return counts;
  }

  test('if 60 copies of 5 mirrors are missing at the start, the operator creates them and reads none of them', async () => {
    assert.deepEqual(await start(), { POST: copies.length });
  });

  test('if 60 copies of the original exist at the start, the operator takes them over in place: one creation that gets 409, one read and one write for each', async () => {
    for (const { namespace, name } of copies) await scene.api.delete(`/api/v1/namespaces/${namespace}/secrets/${name}`);
    const originals = copies.map(({ namespace, name, mirror }) => ({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: {
        namespace,
        name,
        annotations: { 'mirrors.kts.studio/owned-by': mirror, 'mirrors.kts.studio/parent-version': '1' },
      },
      data: { value: scene.value() },
    }));
    await scene.api.createMany(originals);
    const uids = async (): Promise<string[]> => {
      const objects = copies.map(({ namespace, name }) =>
        scene.api.get(`/api/v1/namespaces/${namespace}/secrets/${name}`),
      );
      return (await Promise.all(objects)).map(({ metadata }) => metadata.uid);
    };
    const before = await uids();
    assert.deepEqual(await start(), { POST: copies.length, GET: copies.length, PATCH: copies.length });
    assert.deepEqual(await uids(), before);
  });
});

test('if 40 mirrors select by 40 different label keys, a start lists the namespaces at most two times', async () => {
  const scene = await FaultScene.open();
  try {
    const mirrors = Array.from({ length: 40 }, (_, n) => ({
      apiVersion: 'mirrors.kts.studio/v1alpha2',
      kind: 'SecretMirror',
      metadata: { namespace: 'default', name: `by-label-${n}` },
      spec: {
        source: { name: 'source-0' },
        destination: { name: `copy-${n}`, namespaceSelector: { matchLabels: { [`label-${n}`]: 'yes' } } },
      },
    }));
    await scene.api.createMany(mirrors);
    const labels = Object.fromEntries(mirrors.map((_, n) => [`label-${n}`, 'yes']));
    await scene.api.patch('/api/v1/namespaces/team-0', { metadata: { labels } });
    scene.proxy.reset();
    const keyferry = await scene.operator();
    await keyferry.ready();
    await Promise.all(
      mirrors.map(async ({ spec }) => {
        const copy = `/api/v1/namespaces/team-0/secrets/${spec.destination.name}`;
        await waitFor(async () => await scene.api.find(copy), { message: copy });
      }),
    );
    const lists = scene.proxy.requests.filter(
      ({ url }) => /^\/api\/v1\/namespaces(\?|$)/.test(url) && !url.includes('watch='),
    );
    assert.ok(lists.length <= 2, lists.map(({ url }) => url).join('\n'));
    await keyferry.stop();
  } finally {
    await scene.close();
  }
});
