/**
 * The operator writes default values into the spec of a mirror, but does not keep the ownership of these fields. So a
 * later server-side apply of a user does not conflict with the operator.
 */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import { HOME, mirrorPath, MirrorScene } from './support.ts';

let scene: MirrorScene;

before(async () => {
  scene = await MirrorScene.open({ controllerManager: false });
  await scene.namespaces('team-a');
});
after(() => scene.close());

/** Writes a mirror like `kubectl apply --server-side`, without --force-conflicts. */
const apply = async (name: string, spec: Json): Promise<{ status: number; body: Json }> =>
  await scene.api.raw('PATCH', mirrorPath(name), {
    body: {
      apiVersion: 'mirrors.kts.studio/v1alpha2',
      kind: 'SecretMirror',
      metadata: { name, namespace: HOME },
      spec: { destination: { namespaces: ['team-a'] }, ...spec },
    },
    contentType: 'application/apply-patch+yaml',
    query: { fieldManager: 'kubectl' },
  });

/**
 * Waits until the mirror has these fields and the defaults, and Keyferry owns no field of its spec. @returns the mirror
 */
async function settled(name: string, spec: Json): Promise<Json> {
  const wanted = {
    source: { type: 'secret', name },
    destination: { type: 'namespaces', namespaces: ['team-a'] },
    deletePolicy: 'delete',
    pollPeriodSeconds: 180,
    ...spec,
  };
  let seen: Json;
  await waitFor(
    async () => {
      seen = await scene.api.get(mirrorPath(name));
      const owned = seen.metadata.managedFields.some(
        ({ manager, fieldsV1 }: Json) => manager === 'keyferry' && fieldsV1['f:spec'] !== undefined,
      );
      return !owned && isSame(seen.spec, wanted);
    },
    { message: () => JSON.stringify([seen?.spec, seen?.metadata.managedFields]) },
  );
  return seen;
}

const isSame = (a: Json, b: Json): boolean => {
  try {
    assert.deepEqual(a, b);
    return true;
  } catch {
    return false;
  }
};

it('a server-side apply may set a field that has a default value from Keyferry, and remove the field again', async () => {
  await scene.operator();
  await scene.secret(HOME, 'applied', { a: '1' });
  assert.equal((await apply('applied', {})).status, 201);
  const { metadata } = await settled('applied', {});
  assert.deepEqual(metadata.finalizers, ['mirrors.kts.studio/finalizer']);
  await scene.copied('team-a', 'applied', { a: '1' });
  const changed = { deletePolicy: 'retain', pollPeriodSeconds: 60 };
  const answer = await apply('applied', { source: { type: 'secret', name: 'applied' }, ...changed });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  await settled('applied', changed);
  assert.equal((await apply('applied', { deletePolicy: 'retain' })).status, 200);
  await settled('applied', { deletePolicy: 'retain' });
});
