/** Tests the image in podman: loads it from its archive, as docs/install.md says, and starts it with a kubeconfig. */
import assert from 'node:assert/strict';
import { copyFile, chmod } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';

import { readCrd } from '../../../../scripts/crd/read-crds.ts';
import { isInstalled } from '../../../servers/real-cluster/missing.ts';
import type { RealCluster } from '../../../servers/real-cluster/cluster.ts';
import { HttpClient } from '../../../support/http.ts';
import { IMAGE } from '../../../support/image.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { archiveOfImage, skip, startCluster } from '../support.ts';

const PORT = 8080;
/**
 * Limits that root can set without CAP_SYS_RESOURCE. The limits that podman sets by default are higher, so they fail.
 */
const LIMITS = ['--ulimit=nofile=20000:20000', '--ulimit=nproc=10000:10000'];

describe('the image in podman', { skip: skip || (!isInstalled('podman') && 'podman is not installed') }, () => {
  let cluster: RealCluster;

  before(async () => {
    cluster = await startCluster();
  });
  after(async () => await cluster?.stop());

  /** Runs podman in the Linux namespaces of the cluster, so that podman ends with the cluster and leaves nothing. */
  const podman = (...args: readonly string[]): Promise<string> => {
    const folder = path.join(cluster.folder, 'podman');
    const places = [`--root=${folder}/root`, `--runroot=${folder}/run`, `--tmpdir=${folder}/tmp`];
    const engine = ['--storage-driver=vfs', '--cgroup-manager=cgroupfs', '--events-backend=none', '--runtime=runc'];
    return cluster.namespace.run('podman', ...places, ...engine, ...args);
  };
  const run = (...args: readonly string[]): Promise<string> =>
    podman('run', '--network=host', '--read-only', `--cgroup-parent=/${cluster.namespace.cgroup}`, ...LIMITS, ...args);

  it('podman loads the image from its archive, and its container serves a cluster by a kubeconfig', async () => {
    await podman('load', `--input=${archiveOfImage()}`);
    assert.match(await run('--rm', IMAGE, 'version'), /^Keyferry \d/);
    await cluster.api.apply(readCrd('secretmirrors'));
    // A copy of the kubeconfig that the image's user can read.
    const kubeconfig = path.join(cluster.folder, 'kubeconfig-of-podman');
    await copyFile(cluster.kubeconfigPath, kubeconfig);
    await chmod(kubeconfig, 0o644);
    const volume = `--volume=${kubeconfig}:/kubeconfig:ro`;
    const id = (
      await run('--detach', volume, IMAGE, 'run', '--kubeconfig=/kubeconfig', '--controllers=mirrors')
    ).trim();
    const http = new HttpClient(`http://${cluster.namespace.link.inside}:${PORT}`);
    const isReady = async (): Promise<boolean> => (await http.send('/readyz', { timeoutMs: 1000 })).status === 200;
    await waitFor(isReady, { message: 'the container to be ready' }).catch(async (error: unknown) => {
      throw new Error(`${(error as Error).message}\n${await podman('logs', id)}`, { cause: error });
    });
    http.close();
    await podman('stop', '--time=10', id);
    assert.equal((await podman('inspect', '--format={{.State.ExitCode}}', id)).trim(), '0');
  });
});
