/**
 * Without permissions for ConfigMaps, a SecretMirror of a ConfigMap reports Forbidden and other mirrors work. Once the
 * permissions are granted, that mirror works, too.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, it } from 'node:test';

import { KEYFERRY_ACCOUNT } from '../../support/service-account.ts';
import { waitFor } from '../../support/wait-for.ts';
import { HOME, MirrorScene } from './support.ts';

const RBAC = readFileSync(new URL('../../../deploy/rbac.yaml', import.meta.url), 'utf8');
const BINDING = '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/keyferry-replicator';
const USER = KEYFERRY_ACCOUNT.name;

let scene: MirrorScene;
before(async () => {
  scene = await MirrorScene.open({ controllerManager: false, users: [KEYFERRY_ACCOUNT] });
  await scene.api.apply(RBAC);
  await scene.api.delete(BINDING);
});
after(() => scene.close());

it('without permissions for ConfigMaps, a mirror of a ConfigMap reports Forbidden and delays no other mirror; once granted, it copies', async () => {
  const { api, plane } = scene;
  await scene.namespaces('team-a');
  await scene.secret(HOME, 'plain', { a: '1' });
  const metadata = { namespace: HOME, name: 'settings' };
  await api.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { a: '1' } });
  await scene.mirror('settings', ['team-a'], { source: { type: 'configmap' } });
  await scene.mirror('plain', ['team-a']);
  const kubeconfig = await plane.writeKubeconfig({ token: plane.tokenFor(USER) });
  const operator = await scene.operator({ kubeconfig, args: ['--controllers=mirrors'] });
  await scene.copied('team-a', 'plain', { a: '1' });
  await scene.ready('settings', 'Forbidden');
  assert.equal(await operator.isReady(), true);
  await api.apply(RBAC);
  await waitFor(async () => (await api.find('/api/v1/namespaces/team-a/configmaps/settings'))?.data.a === '1', {
    message: () => scene.tail(),
  });
  await scene.ready('settings', 'Synced');
});
