/** The namespace of the Lease is KubeLB's by default, and a cluster without KubeLB does not have it. */
import { after, before, it } from 'node:test';

import { readCrd } from '../../../scripts/crd/read-crds.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { waitFor } from '../../support/wait-for.ts';

const ADVICE =
  /"advice":"nothing is copied until then: the namespace kubelb .*--leader-elect-namespace names another one"/;

let plane: ControlPlane;
before(async () => (plane = await startControlPlane({ controllerManager: false })));
after(() => plane.stop());

it('a manager without the namespace of its Lease says what is necessary, and works when it exists', async () => {
  const { api } = plane;
  await api.apply(readCrd('syncsecrets'));
  await using manager = await Keyferry.start({ command: 'syncsecret-manager', kubeconfig: plane.kubeconfigPath });
  await waitFor(() => ADVICE.test(manager.output), { message: () => manager.output });
  await api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'kubelb' } });
  const object = await api.create({
    apiVersion: 'kubelb.k8c.io/v1alpha1',
    kind: 'SyncSecret',
    metadata: { name: 'x', namespace: 'default' },
    stringData: { a: '1' },
  });
  const path = `/api/v1/namespaces/default/secrets/${object.metadata.uid}`;
  await waitFor(async () => (await api.find(path)) !== undefined, { message: () => manager.output });
});
