/** The CRD is installed while the operator runs. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import { readCrd } from '../../../scripts/crd/read-crds.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { waitFor } from '../../support/wait-for.ts';

const SYNC_SECRETS = '/apis/kubelb.k8c.io/v1alpha1/syncsecrets';
const ADVICE = /the CRD syncsecrets\.kubelb\.k8c\.io is not installed: run `keyferry crds \| kubectl apply /;

let plane: ControlPlane;
before(async () => (plane = await startControlPlane({ controllerManager: false })));
after(() => plane.stop());

it('without the CRD an operator says how to install it, and does its other work', async () => {
  const { api } = plane;
  await using keyferry = await Keyferry.start({
    kubeconfig: plane.kubeconfigPath,
    args: ['--controllers=replicator,syncsecret-manager'],
  });
  const probe = async (): Promise<string> => (await keyferry.probe('/readyz?verbose')).text;
  await waitFor(async () => ADVICE.test(await probe()), { message: () => keyferry.output });
  assert.equal(await keyferry.isReady(), false, 'the user named the controller');
  const annotations = { 'k8s-replicator/replicate-to': 'copy' };
  const metadata = { name: 'source', namespace: 'default', annotations };
  await api.create({ apiVersion: 'v1', kind: 'Secret', metadata, stringData: { a: '1' } });
  const find = async (name: string): Promise<unknown> => await api.find(`/api/v1/namespaces/default/secrets/${name}`);
  await waitFor(async () => (await find('copy')) !== undefined, { message: () => keyferry.output });

  await api.apply(readCrd('syncsecrets'));
  await waitFor(async () => (await api.raw('GET', SYNC_SECRETS)).status === 200, { message: 'the API to be served' });
  const object = await api.create({
    apiVersion: 'kubelb.k8c.io/v1alpha1',
    kind: 'SyncSecret',
    metadata: { name: 'x', namespace: 'default' },
    stringData: { a: '1' },
  });
  await waitFor(async () => (await find(object.metadata.uid)) !== undefined, { message: () => keyferry.output });
  await keyferry.ready();
  assert.doesNotMatch(await probe(), ADVICE);
});
