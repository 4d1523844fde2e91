/**
 * Whose fault a refused write is, by the answers of a real API server, whatever names and texts users put into them.
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

/** Text in the style of other refusals. Users put it into their objects here; it must not decide whose fault it is. */
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

/** Tries to create a Secret. @returns the error; `undefined` if it was created */
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

it('a missing permission is the fault of the operator', async () => {
  const kubeconfigPath = await plane.writeKubeconfig({ token: plane.tokenFor('nobody') });
  await using client = await kubeApi(kubeconfigPath);
  const error = await refusalOf('free', { metadata: { annotations: { words: WORDS } } }, client);
  assertRefused(error, { by: 'permission', verb: 'create', resource: 'secrets' }, 'operator');
});

it('a refusal by a quota is the fault of the user, both before the quota is counted and when it is used up', async () => {
  const path = '/api/v1/namespaces/full/resourcequotas/none';
  const hard = { 'count/secrets': '0' };
  await plane.api.create({
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    metadata: { name: 'none', namespace: 'full' },
    spec: { hard },
  });
  await plane.api.patch(`${path}/status`, { status: { hard } });
  // The API server's admission learns of a quota by a watch, so this waits for it.
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

it('a refusal by a policy is the fault of the user, whatever its words are', async () => {
  const words = `'${WORDS}'`;
  await using resources = new AsyncDisposableStack();
  resources.use(await refuse(plane.api, 'strict', { when: `request.name == 'refused'`, words }));
  assertRefused(await refusalOf('free', { metadata: { name: 'refused' } }), { by: 'admission' }, 'user');
});

it('a refusal of an invalid object is the fault of the user, also with the words of another refusal in it', async () => {
  assertRefused(await refusalOf('free', { data: { [WORDS]: '' } }), { by: 'validation' }, 'user');
  const named = await refusalOf('free', { metadata: { name: `a" is forbidden: exceeded quota: q` } });
  assertRefused(named, { by: 'validation' }, 'user');
  const policy = `ValidatingAdmissionPolicy 'p' with binding 'b' denied request`;
  assertRefused(await refusalOf('free', { data: { [policy]: '' } }), { by: 'validation' }, 'user');
});

it('an object that is too large for a request is the fault of the user', async () => {
  const error = await refusalOf('free', { stringData: { a: 'x'.repeat(4 * 1024 * 1024) } });
  assertRefused(error, { by: 'size' }, 'user');
});
