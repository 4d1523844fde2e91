/**
 * Tests Keyferry without Helm: installed from deploy/keyferry.yaml, from an overlay of kustomize, and with Roles in
 * some namespaces only.
 */
import assert from 'node:assert/strict';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe } from 'node:test';

import type { RealCluster } from '../../../servers/real-cluster/cluster.ts';
import type { Json } from '../../../support/api.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { helm } from '../../chart/helm.ts';
import { HOME, install, podsOf, RELEASE, replicated, rolledOut, skip, startCluster, story } from '../support.ts';

const ROOT = path.join(import.meta.dirname, '../../../..');
const DEPLOY = path.join(ROOT, 'deploy');
const CRD = path.join(DEPLOY, 'crds/mirrors.kts.studio_secretmirrors.yaml');
const { version } = JSON.parse(await readFile(path.join(ROOT, 'package.json'), 'utf8')) as { version: string };

describe('Keyferry without Helm', { skip }, () => {
  const step = story();
  let cluster: RealCluster;

  before(async () => {
    cluster = await startCluster();
    await cluster.api.createNamespaces(['source', 'team-a', 'team-b', 'other']);
    await cluster.api.create({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'password', namespace: 'source' },
      stringData: { password: 'on' },
    });
  });
  after(async () => await cluster?.stop());

  const mirror = (name: string, namespace: string): Json => ({
    apiVersion: 'mirrors.kts.studio/v1alpha2',
    kind: 'SecretMirror',
    metadata: { name, namespace: 'source' },
    spec: { source: { name: 'password' }, destination: { namespaces: [namespace] } },
  });
  const hasCopy = async (namespace: string): Promise<void> => {
    await waitFor(() => cluster.api.find(`/api/v1/namespaces/${namespace}/secrets/password`), {
      message: `the copy in ${namespace}`,
    });
  };
  const gone = async (): Promise<void> => {
    await waitFor(async () => (await podsOf(cluster)).length === 0, { message: 'the Pods to end' });
  };

  step('Keyferry makes a copy when it is installed from deploy/keyferry.yaml', async () => {
    await cluster.kubectl('apply', '--server-side', '-f', CRD);
    await cluster.kubectl('apply', '--server-side', '-f', path.join(DEPLOY, 'keyferry.yaml'));
    await rolledOut(cluster);
    await cluster.api.create(mirror('by-manifest', 'team-a'));
    await hasCopy('team-a');
    await cluster.kubectl('delete', '-f', path.join(DEPLOY, 'keyferry.yaml'), '--wait=false');
    await gone();
    assert.ok(await cluster.api.find('/api/v1/namespaces/team-a/secrets/password'));
  });

  step('Keyferry runs from the kustomize overlay of docs/install.md', async () => {
    // deploy/keyferry.yaml also has the namespace. The deletion of the namespace takes longer than that of the Pods.
    await waitFor(async () => (await cluster.api.find(`/api/v1/namespaces/${HOME}`)) === undefined);
    const folder = path.join(cluster.folder, 'overlays');
    await mkdir(path.join(folder, 'mine'), { recursive: true });
    await symlink(ROOT, path.join(folder, 'keyferry'));
    const page = await readFile(path.join(ROOT, 'docs/install.md'), 'utf8');
    const overlay = /```yaml file=kustomization\.yaml\n([^]*?)```/.exec(page)?.[1] ?? '';
    const file = path.join(folder, 'mine/kustomization.yaml');
    await writeFile(file, overlay.replace('newName: YOUR-REGISTRY/keyferry', 'newName: keyferry'));
    assert.match(await readFile(file, 'utf8'), new RegExp(`newTag: ${version}`));
    await cluster.kubectl('apply', '--server-side', '-k', path.dirname(file));
    await rolledOut(cluster);
    await cluster.api.create(mirror('by-kustomize', 'team-b'));
    await hasCopy('team-b');
    await cluster.kubectl('delete', '-k', path.dirname(file), '--wait=false');
    await gone();
    await waitFor(async () => (await cluster.api.find(`/api/v1/namespaces/${HOME}`)) === undefined);
  });

  step('Keyferry with Roles in some namespaces serves only these namespaces', async () => {
    const values = {
      namespaces: ['source', 'other'],
      'mirrors.enabled': true,
      'replicator.enabled': true,
      'crds.install': false,
    };
    await install(cluster, values);
    await rolledOut(cluster);
    await cluster.api.create(mirror('by-role', 'other'));
    await hasCopy('other');
    await cluster.api.create(replicated('not-served', 'source', 'team-a'));
    await waitFor(
      async () =>
        (await cluster.api.list('/api/v1/namespaces/source/events')).some(({ reason }) => reason === 'NotServed'),
      { message: 'the event NotServed' },
    );
    assert.equal(await cluster.api.find('/api/v1/namespaces/team-a/secrets/not-served'), undefined);
    const { code, stderr } = await helm(['uninstall', RELEASE, `--namespace=${HOME}`], cluster.kubeconfigPath);
    assert.equal(code, 0, stderr);
  });
});
