/**
 * Tests who is at fault when a real API server refuses a write: the user or the operator of Keyferry. Misleading names
 * and texts that users put into their objects must not change the result.
 */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { failureOf } from '../../../src/copy/model/cause.ts';
import { ApiError } from '../../../src/kube/errors.ts';
import type { ApiRefusal } from '../../../src/kube/refusals.ts';
import type { HttpKubeApi } from '../../../src/kube/http.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import type { Json } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import { refuse } from '../engine/admission.ts';
import { kubeApi } from './api.ts';

/** Text that looks like several other refusals. Users put it into their objects here. */
const WORDS =
  'secrets "x" is forbidden: exceeded quota: q; User "x" cannot create resource "secrets"; permission denied';

let plane: ControlPlane;
let api: HttpKubeApi;
before(async () => {
  plane = await startControlPlane({ controllerManager: false, users: [{ name: 'nobody' }] });
  api = await kubeApi(plane.kubeconfigPath);
  for (const name of ['free', 'full'])
    await plane.api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
});
after(async () => {
  await api[Symbol.asyncDispose]();
  await plane.stop();
});

/** Tries to create a Secret. @returns the error; `undefined` if the Secret was created */
async function failureOfCreation(
  namespace: string,
  object: Json,
  query: Record<string, string> = {},
  client = api,
): Promise<unknown> {
  const { name = 'secret', ...metadata } = object.metadata ?? {};
  const body = JSON.stringify({ apiVersion: 'v1', kind: 'Secret', ...object, metadata: { name, ...metadata } });
  const path = `/api/v1/namespaces/${namespace}/secrets`;
  return await client.request({ method: 'POST', path, query, body }).then(
    () => undefined,
    (reason: unknown) => reason,
  );
}

async function refusalOf(namespace: string, object: Json, client = api): Promise<ApiError> {
  const error = await failureOfCreation(namespace, object, {}, client);
  assert.ok(error instanceof ApiError, String(error));
  return error;
}

function assertRefused(error: ApiError, refusal: ApiRefusal, fault: 'user' | 'operator'): void {
  assert.deepEqual(error.detected.refusal, refusal, error.message);
  assert.equal(failureOf(error).fault, fault);
}

it('if a write is refused because a permission is missing, the operator is at fault', async () => {
  const kubeconfigPath = await plane.writeKubeconfig({ token: plane.tokenFor('nobody') });
  await using client = await kubeApi(kubeconfigPath);
  const error = await refusalOf('free', { metadata: { annotations: { words: WORDS } } }, client);
  assertRefused(error, { by: 'permission', verb: 'create', resource: 'secrets' }, 'operator');
});

it('if a quota refuses a write, the user is at fault, both before the quota is counted and after it is used up', async () => {
  const path = '/api/v1/namespaces/full/resourcequotas/none';
  const hard = { 'count/secrets': '0' };
  await plane.api.create({
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    metadata: { name: 'none', namespace: 'full' },
    spec: { hard },
  });
  await plane.api.patch(`${path}/status`, { status: { hard } });
  // The API server gets a new quota by a watch, so the quota applies a little later. Wait for the refusal.
  const refused = async (words: RegExp): Promise<ApiError> =>
    await waitFor(
      async () => {
        const error = await failureOfCreation('full', {}, { dryRun: 'All' });
        return error instanceof ApiError && words.test(error.statusMessage) ? error : undefined;
      },
      { message: `a refusal ${words}` },
    );
  assertRefused(await refused(/status unknown for quota/), { by: 'quota' }, 'user');
  await plane.api.patch(`${path}/status`, { status: { hard, used: hard } });
  assertRefused(await refused(/exceeded quota/), { by: 'quota' }, 'user');
});

it("if an admission policy refuses a write, the user is at fault, even if the policy's message looks like another refusal", async () => {
  const words = `'${WORDS}'`;
  await using resources = new AsyncDisposableStack();
  resources.use(await refuse(plane.api, 'strict', { when: `request.name == 'refused'`, words }));
  assertRefused(await refusalOf('free', { metadata: { name: 'refused' } }), { by: 'admission' }, 'user');
});

it('if a write is refused because the object is invalid, the user is at fault, even if the object quotes another refusal', async () => {
  assertRefused(await refusalOf('free', { data: { [WORDS]: '' } }), { by: 'validation' }, 'user');
  const named = await refusalOf('free', { metadata: { name: `a" is forbidden: exceeded quota: q` } });
  assertRefused(named, { by: 'validation' }, 'user');
  const policy = `ValidatingAdmissionPolicy 'p' with binding 'b' denied request`;
  assertRefused(await refusalOf('free', { data: { [policy]: '' } }), { by: 'validation' }, 'user');
});

it('if an object is too large for a request, the user is at fault', async () => {
  const error = await refusalOf('free', { stringData: { a: 'x'.repeat(4 * 1024 * 1024) } });
  assertRefused(error, { by: 'size' }, 'user');
});
