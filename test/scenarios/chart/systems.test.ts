/** SyncSecrets and the generator run with the arguments and permissions that the chart gives them. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import { readAuditLog } from '../../support/audit-log.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { requestToken, serviceAccountUser } from '../../support/service-account.ts';
import { installTenant } from '../../support/sync-secret-install.ts';
import { waitFor } from '../../support/wait-for.ts';
import { GeneratorScene, HOME } from '../generator/support.ts';
import { CHART, helm, IMAGE, settingsOf, valueFlags } from './helm.ts';

const NAMESPACE = 'platform';
const TENANT = 'tenant-primary';
const user = serviceAccountUser(NAMESPACE, 'keyferry');

let scene: GeneratorScene;
let operator: Keyferry | undefined;

before(async () => {
  scene = await GeneratorScene.open({ eso: false, plane: { audit: true } });
});
after(async () => {
  await operator?.kill9();
  await scene?.close();
});

it("CCM, synchronizer, manager and generator work with the chart's arguments and permissions, and get no 403", async () => {
  const { api, plane } = scene;
  const values = {
    ...IMAGE,
    'syncSecret.manager.enabled': true,
    'kubelb.tenantName': 'primary',
    'kubelb.enableSecretSynchronizer': true,
    'generator.enabled': true,
    'generator.credentialsIn': [{ namespace: HOME, secrets: ['vault-token'] }],
  };
  const args = ['install', 'keyferry', CHART, `--namespace=${NAMESPACE}`, '--create-namespace', ...valueFlags(values)];
  const { code, stderr } = await helm(args, plane.kubeconfigPath);
  assert.equal(code, 0, stderr);
  const management = await plane.writeKubeconfig({ token: await installTenant(plane, TENANT) });
  const deployment = await api.get(`/apis/apps/v1/namespaces/${NAMESPACE}/deployments/keyferry`);
  const [command = '', ...flags]: string[] = deployment.spec.template.spec.containers[0].args;
  operator = await Keyferry.start({
    kubeconfig: await plane.writeKubeconfig({ token: await requestToken(api, NAMESPACE, 'keyferry') }),
    env: settingsOf(deployment),
    command,
    args: [
      ...flags.filter((arg) => !/^--(status-address|syncsecret-kubelb-kubeconfig)/.test(arg)),
      // The path of the kubeconfig in this test. In the Pod, a Secret is mounted as this file.
      `--syncsecret-kubelb-kubeconfig=${management}`,
      `--leader-elect-namespace=${NAMESPACE}`,
    ],
  });
  await operator.ready();

  const labels = { 'kubelb.k8c.io/managed-by': 'kubelb' };
  await api.create({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'labelled', namespace: HOME, labels },
    data: { password: 'b25l' },
  });
  const synced = await waitFor(
    async () => {
      const found = await api.find(`/apis/kubelb.k8c.io/v1alpha1/namespaces/${HOME}/syncsecrets/labelled`);
      return found?.status?.phase === 'Synced' ? found : undefined;
    },
    { message: () => `the SyncSecret to be synced\n${operator?.output.split('\n').slice(-10).join('\n')}` },
  );
  const copies = await api.list(`/api/v1/namespaces/${TENANT}/secrets`);
  assert.deepEqual(
    copies.map(({ data }) => data),
    [{ password: 'b25l' }],
  );
  await api.delete(`/api/v1/namespaces/${HOME}/secrets/labelled`);
  await waitFor(async () => (await api.list(`/api/v1/namespaces/${TENANT}/secrets`)).length === 0, {
    message: `the Secret of ${synced.metadata.uid} to be deleted`,
  });

  await scene.externalSecret('postgres', [{ key: 'secret/apps/postgres', property: 'password' }]);
  await scene.fail('postgres');
  await scene.says('postgres', 'Success');
  assert.ok(await scene.entry('secret/data/apps/postgres'));

  const refused = readAuditLog(plane, user).filter(({ code: status }) => status === 403);
  assert.deepEqual(refused, []);
});
