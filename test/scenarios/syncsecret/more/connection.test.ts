/** Tests a CCM that starts while its kubeconfig of the management cluster is wrong. */
import assert from 'node:assert/strict';
import { readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';

import { kubeconfigYaml } from '../../../servers/kubeconfig.ts';
import { Keyferry } from '../../../support/keyferry.ts';
import { SyncSecretScene } from '../support.ts';

let scene: SyncSecretScene;
before(async () => (scene = await SyncSecretScene.open()));
afterEach(async () => await scene.clear());
after(async () => await scene.close());

describe('a kubeconfig of the management cluster that cannot be used at the start', () => {
  const contents: Readonly<Record<string, string | undefined>> = {
    missing: undefined,
    'half-written': 'apiVersion: v1\nclusters:\n- cluster: {server: "https://exam',
    'without its context': 'apiVersion: v1\ncurrent-context: there\n',
  };
  for (const [title, content] of Object.entries(contents)) {
    it(`if the CCM's kubeconfig of the management cluster is unusable (${title}), the CCM ends with an error that names flag and file`, async () => {
      const file = path.join(scene.clusters.tenantPlane.folder, `kubelb ${title}`);
      if (content !== undefined) await writeFile(file, content);
      await using ccm = await Keyferry.start({
        command: 'syncsecret-ccm',
        kubeconfig: scene.clusters.ccmKubeconfig,
        args: ['--cluster-name=a', `--kubelb-kubeconfig=${file}`],
      });
      assert.equal((await ccm.ended()).code, 1);
      const error = ccm.logs().find(({ msg }) => msg === 'exited with error');
      assert.ok(error?.error.message.startsWith(`--kubelb-kubeconfig: ${file}: `), ccm.output);
    });
  }
});

it('with a kubeconfig of a wrong cluster, the CCM reports the mistake and writes nothing there; with the corrected file, it copies SyncSecrets', async () => {
  const { managementPlane, tenantPlane, ccmKubeconfig } = scene.clusters;
  const tenant = await scene.tenant();
  const { token, kubeconfig } = tenant;
  const right = await readFile(kubeconfig, 'utf8');
  await scene.namespaces('wrong');
  const object = await scene.create('wrong', 'one', { a: 'one' });
  const { caPem } = tenantPlane;
  const wrong = [
    {
      // A kubeconfig of the CCM's own cluster, which has no namespace of the tenant.
      content: await readFile(ccmKubeconfig, 'utf8'),
      phase: 'Failed',
      message: /^the namespace in the management cluster does not exist/,
    },
    {
      content: kubeconfigYaml({ server: managementPlane.url, caPem, token }),
      phase: 'Pending',
      message: /^no TLS connection to the management cluster: check the certificates$/,
    },
    {
      content: kubeconfigYaml({ server: tenantPlane.url, caPem, token }),
      phase: 'Pending',
      message: /^the management cluster does not accept the credentials$/,
    },
  ];
  let ccm: Keyferry | undefined;
  for (const { content, phase, message } of wrong) {
    await ccm?.kill9();
    await replaceFile(kubeconfig, content);
    ccm = await scene.ccm(tenant);
    await scene.phase(object, phase, { message });
  }
  assert.equal((await scene.tenantApi.list('/apis/kubelb.k8c.io/v1alpha1/syncsecrets')).length, 1);
  assert.deepEqual(await scene.tenantApi.list('/api/v1/secrets'), []);
  await scene.manager();
  // The wrong token is refused with 401, so the CCM reads the file again at once.
  await replaceFile(kubeconfig, right);
  await scene.arrived(tenant, object, { a: 'one' });
  await scene.phase(object, 'Synced');
});

async function replaceFile(file: string, content: string): Promise<void> {
  await writeFile(`${file}.new`, content);
  await rename(`${file}.new`, file);
}
