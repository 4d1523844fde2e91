/**
 * For each controller: another client writes after the operator's read and before its write. The object of the other
 * client must stay unchanged.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { kubernetesFault } from '../servers/fault-rules.ts';
import type { ProxyRequest } from '../servers/fault-rules.ts';
import type { Json } from '../support/api.ts';
import { staysTrue, waitFor } from '../support/wait-for.ts';
import { within } from '../support/yardstick.ts';
import { FaultScene, namespaceNames } from './scene.ts';
import { CONTROLLERS } from './controllers.ts';

/** Limit, ms. It is shorter than all pauses together that follow failures other than conflicts. */
const SOON_MS = 8000;
const SETTLE_MS = 1000;

const secretPath = (namespace: string, n: number): string => `/api/v1/namespaces/${namespace}/secrets/source-${n}`;

for (const controller of CONTROLLERS) {
  describe(controller.name, () => {
    let scene: FaultScene;
    before(async () => {
      scene = await FaultScene.open({ controller });
      await scene.start();
    });
    after(() => scene.close());

    const createForeign = async (namespace: string, n: number): Promise<Json> =>
      await scene.api.create({
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { name: `source-${n}`, namespace },
        data: { theirs: 'eA==' },
      });
    const assertUnchanged = async (object: Json, n: number): Promise<void> => {
      const same = async (): Promise<boolean> =>
        JSON.stringify(await scene.api.get(secretPath(object.metadata.namespace, n))) === JSON.stringify(object);
      await staysTrue(same, SETTLE_MS, 'the object of the user');
    };
    /**
     * Holds the operator's first request with this method and path.
     * @returns functions: await it, and let it continue
     */
    const holdFirst = (method: string, path: string): { arrives: () => Promise<unknown>; release: () => void } => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const rule = scene.proxy.rule({
        match: ({ method: of, path: at }: ProxyRequest) => of === method && at === path,
        fault: { kind: 'hold', until: promise },
        times: 1,
      });
      const arrives = (): Promise<unknown> => waitFor(() => rule.hits === 1, { message: `our ${method} of ${path}` });
      return { arrives, release: resolve };
    };
    test(`${controller.name}: if a user puts an object in the place of a copy just before the operator deletes the copy, the object stays`, async () => {
      const rule = holdFirst('DELETE', secretPath('team-4', 0));
      await controller.drop(scene, 0);
      await rule.arrives();
      await scene.api.delete(secretPath('team-4', 0));
      const users = await createForeign('team-4', 0);
      rule.release();
      await scene.dropped(0);
      await assertUnchanged(users, 0);
    });

    test(`${controller.name}: if a user removes the mark of a copy just before the operator deletes the copy, the copy stays`, async () => {
      const rule = holdFirst('DELETE', secretPath('team-4', 1));
      await controller.drop(scene, 1);
      await rule.arrives();
      const metadata = { annotations: { [controller.mark]: null }, labels: { [controller.copyLabel]: null } };
      const users = await scene.api.patch(secretPath('team-4', 1), { metadata });
      rule.release();
      await scene.dropped(1);
      await assertUnchanged(users, 1);
    });

    test(`${controller.name}: a user's object in a new namespace is not overwritten; after it is deleted, the copy is made`, async () => {
      const rule = holdFirst('POST', '/api/v1/namespaces/team-60/secrets');
      await scene.namespaces('team-60');
      await rule.arrives();
      const missing = async (): Promise<number[]> => {
        const rules = [2, 3, 4];
        const found = await Promise.all(rules.map(async (n) => await scene.api.find(secretPath('team-60', n))));
        return rules.filter((_, index) => found[index] === undefined);
      };
      await waitFor(async () => (await missing()).length === 1, {
        message: 'all copies but the one whose creation is held',
      });
      const [n = 0] = await missing();
      const object = await createForeign('team-60', n);
      rule.release();
      await assertUnchanged(object, n);
      await scene.api.delete(secretPath('team-60', n));
      await waitFor(
        async () => (await scene.api.find(secretPath('team-60', n)))?.metadata.annotations?.[controller.mark],
        {
          message: 'our copy',
        },
      );
    });

    test(`${controller.name}: if deletions get no answer, they are repeated without harm, and later changes are copied`, async () => {
      const lost = scene.proxy.rule({ match: { method: 'DELETE' }, fault: { kind: 'lose-answer' }, times: 5 });
      await controller.drop(scene, 2);
      await scene.dropped(2);
      assert.equal(lost.hits, 5);
      await scene.changeSources();
      const follows = async (): Promise<boolean> =>
        (await scene.missing()).every((key) => !key.endsWith('source-3') && !key.endsWith('source-4'));
      await waitFor(follows, { message: 'the copies of the others to follow' });
    });

    test(`${controller.name}: if every third write gets 409, new namespaces, changes and deletions are still handled soon`, async (t) => {
      let count = 0;
      const isThird = ({ method }: ProxyRequest): boolean => method !== 'GET' && (count += 1) % 3 === 0;
      const refusals = scene.proxy.rule({ match: isThird, fault: kubernetesFault(409) });
      const names = Array.from({ length: 20 }, (_, index) => `team-${200 + index}`);
      const right = async (): Promise<boolean> =>
        (await scene.missing([...namespaceNames(), ...names])).every((key) => !key.endsWith('source-4'));
      await within(SOON_MS, 'all of it', async () => {
        await scene.changeSources();
        await scene.namespaces(...names);
        await controller.drop(scene, 3);
        await scene.dropped(3);
        await waitFor(right, { message: () => `the copies of the last; ${scene.logTail()}` });
      });
      refusals.clear();
      t.diagnostic(`${refusals.hits} conflicts`);
      assert.ok(refusals.hits > 10, `${refusals.hits} conflicts`);
    });
  });
}
