/**
 * Tests the CCM's connection to the management cluster: missing at the start, lost, with new credentials, and after the
 * loss of the Lease.
 */
import assert from 'node:assert/strict';
import { readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';

import { kubernetesFault } from '../../../servers/fault-rules.ts';
import { kubeconfigYaml } from '../../../servers/kubeconfig.ts';
import { Keyferry } from '../../../support/keyferry.ts';
import { stopRenewals } from '../../../support/stop-renewals.ts';
import { requestToken } from '../../../support/service-account.ts';
import { CCM_ACCOUNT } from '../../../support/sync-secret-install.ts';
import type { Tenant } from '../../../support/sync-secret-clusters.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { currentStretch } from '../../../support/yardstick.ts';
import { syncSecretPath, SyncSecretScene } from '../support.ts';

/** A time limit for effects of a new kubeconfig file, ms. */
const SOON_MS = 10_000;

let scene: SyncSecretScene;
before(async () => (scene = await SyncSecretScene.open()));
afterEach(async () => await scene.clear());
after(async () => await scene.close());

describe('a kubeconfig of the management cluster that cannot be used at the start', () => {
  const contents: Readonly<Record<string, string | undefined>> = {
    missing: undefined,
    empty: '',
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

it('if the management cluster is down when the CCM starts, the CCM reports it, and copies everything when the cluster answers', async () => {
  const { link } = scene.clusters;
  await link.refuse();
  const tenant = await scene.tenant();
  const ccm = await scene.ccm(tenant);
  await scene.manager();
  await scene.namespaces('early');
  const object = await scene.create('early', 'one', { a: 'one' });
  await scene.phase(object, 'Pending', {
    reason: 'ClusterUnreachable',
    message: /^the management cluster does not answer$/,
  });
  assert.equal(await ccm.metric('kubelb_ccm_kubelb_cluster_connected'), 0);
  assert.ok(await ccm.isReady());
  assert.match((await ccm.probe('/readyz?verbose')).text, /^\[i\]management\/watch-\d+ failed: /m);
  await link.accept();
  await scene.arrived(tenant, object, { a: 'one' });
  await scene.phase(object, 'Synced');
  assert.equal(await ccm.metric('kubelb_ccm_kubelb_cluster_connected'), 1);
  assert.match((await ccm.probe('/readyz?verbose')).text, /^\[i\]management\/watch-\d+ ok: /m);
  const writes = await ccm.metric('keyferry_writes_total', { cluster: 'management', result: 'ok' });
  assert.equal(writes, 1);
  assert.notEqual(await ccm.metric('keyferry_queue_depth', { queue: 'targets management' }), undefined);
});

it("when the CCM's token is revoked, the CCM at once uses the new token in its kubeconfig file", async () => {
  const { tenant, ccm } = await scene.running();
  await scene.namespaces('tokens');
  const before = await scene.create('tokens', 'before', { a: 'one' });
  await scene.arrived(tenant, before, { a: 'one' });
  await replaceAccount(tenant);
  const after = await scene.create('tokens', 'after', { a: 'two' });
  await scene.arrived(tenant, after, { a: 'two' }, SOON_MS);
  await scene.change(scene.tenantApi, before, { a: 'three' });
  await scene.arrived(tenant, before, { a: 'three' }, SOON_MS);
  const changed = ccm.logs().filter(({ msg }) => msg.startsWith('the kubeconfig has changed'));
  assert.deepEqual(
    changed.map(({ flag, file }) => [flag, file]),
    [['--kubelb-kubeconfig', tenant.kubeconfig]],
  );
  assert.ok(!ccm.output.includes(tenant.token));
});

it('a CCM that lost its Lease does not send the writes to the management cluster that still waited', async () => {
  const { link, tenantProxy } = scene.clusters;
  // Multiplies all durations on a busy machine, because there every renewal of a Lease takes longer.
  const slower = Math.min(4, Math.ceil(await currentStretch()));
  const deadlineS = 2 * slower;
  const election = [
    '--leader-elect',
    '--leader-elect-namespace=keyferry',
    '--leader-elect-retry-period=500ms',
    `--leader-elect-lease-duration=${3 * slower}s`,
    `--leader-elect-renew-deadline=${deadlineS}s`,
    // Only one write runs at a time: the second write waits while the first is refused with 429.
    '--kube-max-concurrent-writes=1',
  ];
  const tenant = await scene.tenant();
  const [ccm] = await Promise.all([scene.ccm(tenant, { args: election }), scene.manager()]);
  await scene.namespaces('fenced');
  await scene.arrived(tenant, await scene.create('fenced', 'before', { a: 'one' }), { a: 'one' });
  const isWrite = ({ method }: { method: string }): boolean => method !== 'GET';
  const { promise, resolve } = Promise.withResolvers<void>();
  const rule = link.rule({ match: isWrite, fault: { ...kubernetesFault(429, deadlineS + 1), until: promise } });
  const names = ['after-1', 'after-2', 'after-3'];
  for (const name of names) await scene.create('fenced', name, { a: 'two' });
  const areCopied = async (): Promise<boolean> => {
    const objects = await Promise.all(names.map((name) => scene.tenantApi.get(syncSecretPath('fenced', name))));
    return rule.hits > 0 && objects.every(({ metadata }) => metadata.finalizers !== undefined);
  };
  await waitFor(areCopied, { message: 'the leader to write the first copy, and to have more of them to write' });
  await stopRenewals(tenantProxy);
  // Now the management cluster accepts writes again. The pause after the 429 ends only after the renew deadline.
  resolve();
  const from = performance.now();
  assert.equal((await ccm.ended()).code, 1, ccm.output);
  assert.match(ccm.output, /lost leadership/);
  const late = link.requests.filter((one) => isWrite(one) && one.at > from + deadlineS * 1000);
  assert.deepEqual(late, [], 'nothing is sent after the Lease ran out');
  assert.match(ccm.output, /not sent, another replica may be leading/, 'writes were waiting');
});

/** Revokes the token of a tenant, and writes a new one to its kubeconfig file. */
async function replaceAccount({ namespace, kubeconfig, token: old }: Tenant): Promise<void> {
  const { link, managementPlane } = scene.clusters;
  const { api } = managementPlane;
  const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: CCM_ACCOUNT, namespace } };
  await api.delete(`/api/v1/namespaces/${namespace}/serviceaccounts/${CCM_ACCOUNT}`);
  using client = managementPlane.client({ token: old });
  await waitFor(async () => (await client.raw('GET', '/api')).status === 401, {
    message: 'the old token to be refused',
  });
  await api.apply(account);
  const token = await requestToken(api, namespace, CCM_ACCOUNT);
  await replaceFile(kubeconfig, kubeconfigYaml({ server: link.url, caPem: link.caPem, token }));
}

async function replaceFile(file: string, content: string): Promise<void> {
  await writeFile(`${file}.new`, content);
  await rename(`${file}.new`, file);
}
