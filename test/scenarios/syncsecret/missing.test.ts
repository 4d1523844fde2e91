/**
 * Tests clusters that lack an object which the manager needs: the log says how to add the object, and the manager works
 * as soon as the object exists.
 */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import type { Json } from '../../support/api.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { waitFor } from '../../support/wait-for.ts';
import { runProgram } from '../cli/program.ts';

const SYNC_SECRETS = '/apis/kubelb.k8c.io/v1alpha1/syncsecrets';
const CRD_ADVICE = /the CRD syncsecrets\.kubelb\.k8c\.io is not installed: run `keyferry crds \| kubectl apply /;
/**
 * The advice if the namespace of the Lease is missing. By default this is KubeLB's namespace, which a cluster without
 * KubeLB does not have.
 */
const LEASE_ADVICE =
  /"advice":"nothing is copied until the Lease can be read and written: namespace kubelb .*set --leader-elect-namespace"/;

let plane: ControlPlane;
before(async () => (plane = await startControlPlane({ controllerManager: false })));
after(() => plane.stop());

const create = async (name: string): Promise<Json> =>
  await plane.api.create({
    apiVersion: 'kubelb.k8c.io/v1alpha1',
    kind: 'SyncSecret',
    metadata: { name, namespace: 'default' },
    stringData: { a: '1' },
  });
const find = async (name: string): Promise<Json> => await plane.api.find(`/api/v1/namespaces/default/secrets/${name}`);

it('if the SyncSecret CRD is missing, the operator says how to install the CRD, and meanwhile copies annotated Secrets', async () => {
  const { api } = plane;
  await using keyferry = await Keyferry.start({
    kubeconfig: plane.kubeconfigPath,
    args: ['--controllers=replicator,syncsecret-manager'],
  });
  const probe = async (): Promise<string> => (await keyferry.probe('/readyz?verbose')).text;
  await waitFor(async () => CRD_ADVICE.test(await probe()), { message: () => keyferry.output });
  assert.equal(await keyferry.isReady(), false, 'the user named the controller');
  const annotations = { 'k8s-replicator/replicate-to': 'copy' };
  const metadata = { name: 'source', namespace: 'default', annotations };
  await api.create({ apiVersion: 'v1', kind: 'Secret', metadata, stringData: { a: '1' } });
  await waitFor(async () => (await find('copy')) !== undefined, { message: () => keyferry.output });

  const { stdout: crds } = await runProgram(['crds']);
  await api.apply(crds);
  await waitFor(async () => (await api.raw('GET', SYNC_SECRETS)).status === 200, { message: 'the API to be served' });
  const object = await create('x');
  await waitFor(async () => (await find(object.metadata.uid)) !== undefined, { message: () => keyferry.output });
  await keyferry.ready();
  assert.doesNotMatch(await probe(), CRD_ADVICE);
});

it('if the namespace of its Lease is missing, the manager is not ready and says how to create the namespace or name another, and works when the namespace exists', async () => {
  await using manager = await Keyferry.start({ command: 'syncsecret-manager', kubeconfig: plane.kubeconfigPath });
  await waitFor(() => LEASE_ADVICE.test(manager.output), { message: () => manager.output });
  const { status, text } = await manager.probe('/readyz');
  assert.equal(status, 503);
  assert.match(text, /^\[-\]lease failed: nothing is copied until .* namespace kubelb must exist/);
  const object = await create('y');
  await plane.api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'kubelb' } });
  await waitFor(async () => (await find(object.metadata.uid)) !== undefined, { message: () => manager.output });
  assert.equal(await manager.isReady(), true);
});
