/**
 * Tests the pages docs/migrate-from-*.md: runs their commands with the real kubectl and Helm, in the order of the page,
 * on a cluster as the original's chart leaves it. Where a page says to install Keyferry, the test starts the operator.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { symlink } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { parse } from 'yaml';

import { type ControlPlane, startControlPlane } from '../../../servers/control-plane.ts';
import { ensureServer } from '../../../servers/ensure.ts';
import { Reaper } from '../../../servers/reaper.ts';
import type { Json } from '../../../support/api.ts';
import { Keyferry } from '../../../support/keyferry.ts';
import { failOnLeaks } from '../../../support/leaks.ts';
import { codeBlocks } from '../../../support/markdown.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { helm } from '../../chart/helm.ts';
import { chartOf, deployment, webhook } from '../original-charts.ts';

const ROOT = path.join(import.meta.dirname, '../../../..');
const TIMEOUT_MS = 60_000;

const resources = new AsyncDisposableStack();
let plane: ControlPlane;
let env: NodeJS.ProcessEnv;

before(async () => {
  plane = await startControlPlane({ controllerManager: false });
  resources.defer(() => plane.stop());
  const bin = await Reaper.shared().temporaryFolder('keyferry-bin-');
  await symlink(await ensureServer('kubectl'), path.join(bin, 'kubectl'));
  await symlink(path.join(ROOT, 'bin/keyferry.cjs'), path.join(bin, 'keyferry'));
  env = { ...process.env, KUBECONFIG: plane.kubeconfigPath, PATH: `${bin}:${process.env['PATH'] ?? ''}` };
  await plane.api.createNamespaces(['keyferry', 'home', 'team-a', 'team-b', 'my-team-a']);
});
after(() => resources.disposeAsync());

/**
 * Runs a block of a page. @returns its stdout. @throws Error for an exit code other than 0, and 3 for `keyferry plan`
 */
async function run(script: string): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)('bash', ['-o', 'pipefail', '-ec', script], {
      env,
      timeout: TIMEOUT_MS,
      killSignal: 'SIGKILL',
    });
    return stdout;
  } catch (error) {
    const { code, stdout, stderr } = error as { code: unknown; stdout: string; stderr: string };
    // Exit code 3: a copy would be lost or refused.
    if (code === 3 && script.includes('keyferry plan')) return stdout;
    throw new Error(`${script}\nended with ${String(code)}:\n${stdout}${stderr}`, { cause: error });
  }
}

/** Reads the commands in a section of a page. @returns one text for each code block */
function blocks(page: string, heading: string): string[] {
  const text = readFileSync(path.join(ROOT, 'docs', `migrate-from-${page}.md`), 'utf8');
  const found = codeBlocks(text).filter((block) => block.heading === heading && block.language === 'sh');
  assert.ok(found.length > 0, `${page}: ${heading}`);
  return found.map((block) => block.text);
}

/** Creates the Deployment of Keyferry, which the page stops and starts with kubectl. */
async function keyferryDeployment(): Promise<void> {
  const labels = { app: 'keyferry' };
  await plane.api.apply({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'keyferry', namespace: 'keyferry' },
    spec: {
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: 'keyferry', image: 'keyferry:test' }] } },
    },
  });
}

async function install(release: string, namespace: string, templates: readonly object[]): Promise<void> {
  const chart = await chartOf(release, templates);
  const args = ['install', release, chart, '-n', namespace, '--create-namespace'];
  const { code, stderr } = await helm(args, plane.kubeconfigPath);
  assert.equal(code, 0, stderr);
}

async function replicas(namespace: string, name: string): Promise<number> {
  return (await plane.api.get(`/apis/apps/v1/namespaces/${namespace}/deployments/${name}`)).spec.replicas;
}

const secretPath = (place: string): string => {
  const [namespace, name] = place.split('/');
  return `/api/v1/namespaces/${namespace}/secrets/${name}`;
};

async function secret(place: string, text: string, annotations: Readonly<Record<string, string>> = {}): Promise<Json> {
  const [namespace, name] = place.split('/');
  const metadata = { namespace, name, annotations };
  return await plane.api.create({ apiVersion: 'v1', kind: 'Secret', metadata, stringData: { text } });
}

async function holds(place: string, text: string): Promise<Json> {
  return await waitFor(
    async () => {
      const found = await plane.api.find(secretPath(place));
      return Buffer.from(found?.data?.text ?? '', 'base64').toString() === text ? found : undefined;
    },
    { message: `${place} to hold "${text}"` },
  );
}

const START = 'Stop the original, start Keyferry';

describe('docs/migrate-from-mirrors.md', () => {
  const MIRRORS = '/apis/mirrors.kts.studio/v1alpha2/namespaces/home/secretmirrors';
  const CRD = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/secretmirrors.mirrors.kts.studio';
  const mirror = (name: string, namespaces: readonly string[]) => ({
    apiVersion: 'mirrors.kts.studio/v1alpha2',
    kind: 'SecretMirror',
    metadata: { name, namespace: 'home', finalizers: ['mirrors.kts.studio/finalizer'] },
    spec: {
      source: { type: 'secret', name },
      destination: { type: 'namespaces', namespaces },
      deletePolicy: 'delete',
      pollPeriodSeconds: 180,
    },
  });
  const copyMarks = {
    'mirrors.kts.studio/owned-by': 'home/shared',
    'mirrors.kts.studio/parent-version': '1',
    'mirrors.kts.studio/source-type': 'secret',
  };

  it('the commands of docs/migrate-from-mirrors.md keep all mirrors and copies, and remove the original but not its CRD', async () => {
    const crd: Json = parse(readFileSync(path.join(ROOT, 'test/scenarios/mirrors/helm-crd.yaml'), 'utf8'));
    // Labels and annotations are left out: Helm writes its own.
    crd.metadata = { name: crd.metadata.name };
    await install('mirrors', 'mirrors-system', [
      crd,
      deployment('mirrors-controller-manager', 'ktshub/mirrors:0.2.7', 'mirrors'),
    ]);
    await waitFor(async () => (await plane.api.raw('GET', MIRRORS)).status === 200, { message: 'the CRD' });
    await secret('home/shared', 'one');
    // Create the mirror before the webhooks. No server answers webhooks here, so they would refuse the mirror.
    await plane.api.create(mirror('shared', ['team-.*']));
    await plane.api.apply([
      webhook('Mutating', 'mirrors-mutating-webhook-configuration'),
      webhook('Validating', 'mirrors-validating-webhook-configuration'),
    ]);
    const copy = await secret('team-a/shared', 'one', copyMarks);
    await secret('my-team-a/shared', 'one', copyMarks);

    const [look = '', stored = ''] = blocks('mirrors', 'Look');
    const seen = await run(look);
    assert.match(seen, /^ {2}adopt +Secret +team-a +shared +SecretMirror home\/shared /m);
    assert.match(seen, /^ {2}create +Secret +team-b +shared /m);
    assert.match(seen, /^ {2}leave +Secret +my-team-a +shared +home\/shared +a pattern matches only a part /m);
    assert.match(seen, /mirrors still runs \(Deployment mirrors-system\/mirrors-controller-manager\)/);
    // No server answers webhooks here, so only the versions are read.
    assert.match(await run(stored.split('\n')[0] ?? ''), /v1alpha2/);

    const [stop = ''] = blocks('mirrors', START);
    const [check = ''] = blocks('mirrors', 'Check');
    assert.equal((await plane.api.get(CRD)).spec.conversion.strategy, 'Webhook');
    await run(stop);
    assert.equal((await plane.api.get(CRD)).spec.conversion.strategy, 'None');
    assert.equal(await replicas('mirrors-system', 'mirrors-controller-manager'), 0);
    assert.doesNotMatch(await run(look), /still runs/);
    // The mirrors are written again. While the original runs, this stores them in the present version.
    await run(stored);
    await using keyferry = await Keyferry.start({
      kubeconfig: plane.kubeconfigPath,
      args: ['--leader-elect-namespace=keyferry'],
    });
    await keyferry.ready();
    await plane.api.patch(secretPath('home/shared'), { stringData: { text: 'two' } });
    const taken = await holds('team-a/shared', 'two');
    assert.equal(taken.metadata.uid, copy.metadata.uid, 'the copy was taken over');
    await holds('team-b/shared', 'two');
    await holds('my-team-a/shared', 'one');
    const checked = await run(check);
    assert.match(checked, /^No problems found\.$/m);
    assert.match(
      checked,
      /^Secret +my-team-a +shared +home\/shared .*keeps it, because the original searches patterns/m,
    );
    assert.doesNotMatch(await run(look), /^(adopt|create|update|replace|delete) /m);

    await keyferryDeployment();
    const [back = ''] = blocks('mirrors', 'Back');
    const [remove = ''] = blocks('mirrors', 'Remove the original');
    await run(back);
    assert.equal(await replicas('mirrors-system', 'mirrors-controller-manager'), 1);
    await run(remove);
    const { code, stdout } = await helm(['list', '-n', 'mirrors-system', '-q'], plane.kubeconfigPath);
    assert.deepEqual([code, stdout.trim()], [0, ''], 'Helm has no release to uninstall');
    const left = await plane.api.list('/apis/apps/v1/namespaces/mirrors-system/deployments');
    assert.deepEqual(left, []);
    assert.equal((await plane.api.get(`${MIRRORS}/shared`)).metadata.deletionTimestamp, undefined);
    await plane.api.patch(secretPath('home/shared'), { stringData: { text: 'three' } });
    await holds('team-a/shared', 'three');
  });
});

describe('docs/migrate-from-k8s-replicator.md', () => {
  it('the commands of docs/migrate-from-k8s-replicator.md keep all sources and copies, and Keyferry then repairs edited copies', async () => {
    await install('k8s-replicator', 'kube-system', [
      deployment('k8s-replicator', 'olliai/k8s-replicator:1.3.0', 'k8s-replicator'),
    ]);
    await secret('home/pushed', 'one', { 'k8s-replicator/replicate-to-namespaces': 'team-.*' });
    const marks = { 'k8s-replicator/replicated-by': 'home/pushed', 'k8s-replicator/replicated-from-version': '1' };
    const copy = await secret('team-a/pushed', 'one', marks);
    await secret('team-b/pushed', 'edited', marks);
    const [look = ''] = blocks('k8s-replicator', 'Look');
    const seen = await run(look);
    assert.match(seen, /^ {2}adopt +Secret +team-a +pushed /m);
    assert.match(seen, /^ {2}update +Secret +team-b +pushed +.*data differ/m);
    assert.match(seen, /k8s-replicator still runs \(Deployment kube-system\/k8s-replicator\)/);
    assert.match(await run('keyferry status --controllers=replicator'), /^k8s-replicator still runs /m);
    assert.doesNotMatch(await run('keyferry status'), /still runs/, 'only if the controller is named');
    const [stop = ''] = blocks('k8s-replicator', START);
    const [status = '', leftovers = ''] = blocks('k8s-replicator', 'Check');
    await run(stop);
    assert.doesNotMatch(await run(look), /still runs/);
    assert.equal(await replicas('kube-system', 'k8s-replicator'), 0);
    await secret('team-b/gone', 'one', { ...marks, 'k8s-replicator/replicated-by': 'home/gone' });
    await using keyferry = await Keyferry.start({ kubeconfig: plane.kubeconfigPath, command: 'replicator' });
    await keyferry.ready();
    await holds('team-b/pushed', 'one');
    assert.equal((await plane.api.get(secretPath('team-a/pushed'))).metadata.uid, copy.metadata.uid);
    assert.match(await run(status), /^Secret +team-b +gone +home\/gone +its source does not exist; /m);
    assert.match(await run(leftovers), /^secret "gone" deleted/m);
    assert.doesNotMatch(await run(look), /^(adopt|create|update|replace|delete|leave) /m);
    await keyferryDeployment();
    const [back = ''] = blocks('k8s-replicator', 'Back');
    await run(back);
    assert.deepEqual([await replicas('keyferry', 'keyferry'), await replicas('kube-system', 'k8s-replicator')], [0, 1]);
  });
});

describe('docs/migrate-from-kubelb.md', () => {
  const SYNC_SECRETS = '/apis/kubelb.k8c.io/v1alpha1/namespaces/tenant-primary/syncsecrets';

  it("the commands of docs/migrate-from-kubelb.md keep all copies and Secrets, and going back restores KubeLB's finalizers", async () => {
    await plane.api.createNamespaces(['tenant-primary']);
    // The page on mirrors installed all CRDs of Keyferry, also this one. But this page needs KubeLB's CRD.
    const definition = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/syncsecrets.kubelb.k8c.io';
    await plane.api.delete(definition);
    await waitFor(async () => (await plane.api.find(definition)) === undefined, { message: 'the CRD to be gone' });
    const crd: Json = parse(readFileSync(path.join(ROOT, 'test/scenarios/syncsecret/kubelb-crd.yaml'), 'utf8'));
    crd.metadata = { name: crd.metadata.name };
    await install('kubelb', 'kubelb', [
      crd,
      deployment('kubelb', 'quay.io/kubermatic/kubelb-manager:v1.4.0', 'kubelb'),
      deployment('kubelb-ccm', 'quay.io/kubermatic/kubelb-ccm:v1.4.0', 'kubelb'),
    ]);
    await waitFor(async () => (await plane.api.raw('GET', SYNC_SECRETS)).status === 200, { message: 'the CRD' });
    const name = '0b9f8a52-5b1d-4c0e-8f0e-0123456789ab';
    const labels = { 'kubelb.k8c.io/origin-name': 'app', 'kubelb.k8c.io/origin-ns': 'production' };
    const copy = await plane.api.create({
      apiVersion: 'kubelb.k8c.io/v1alpha1',
      kind: 'SyncSecret',
      metadata: { name, namespace: 'tenant-primary', labels, finalizers: ['kubelb.k8c.io/cleanup'] },
      data: { text: Buffer.from('one').toString('base64') },
      type: 'Opaque',
    });
    const { uid } = copy.metadata;
    const owner = { apiVersion: 'kubelb.k8c.io/v1alpha1', kind: 'SyncSecret', name, uid };
    const before = await plane.api.create({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: uid, namespace: 'tenant-primary', labels, ownerReferences: [owner] },
      stringData: { text: 'one' },
    });
    const [look = '', keys = '', again = ''] = blocks('kubelb', 'Look');
    assert.match(await run(look), /KubeLB still runs \(Deployment kubelb\/kubelb-ccm\)/);
    assert.match(await run(keys), /^ +1 label kubelb\.k8c\.io\/origin-name$/m);
    await run(again);
    const [crds = '', stopManager = '', stopCcm = ''] = blocks('kubelb', START);
    const [status = ''] = blocks('kubelb', 'Check');
    await run(crds);
    await run(stopManager);
    await run(stopCcm);
    assert.deepEqual([await replicas('kubelb', 'kubelb'), await replicas('kubelb', 'kubelb-ccm')], [0, 0]);
    const keyferry = await Keyferry.start({
      kubeconfig: plane.kubeconfigPath,
      command: 'syncsecret-manager',
      args: ['--namespace=kubelb'],
    });
    await keyferry.ready();
    const copyPath = `${SYNC_SECRETS}/${name}`;
    await waitFor(async () => (await plane.api.get(copyPath)).status?.phase === 'Synced', { message: 'phase Synced' });
    const secretNow = await plane.api.get(secretPath(`tenant-primary/${uid}`));
    assert.equal(secretNow.metadata.uid, before.metadata.uid, 'the Secret was taken over');
    await plane.api.patch(copyPath, { data: { text: Buffer.from('two').toString('base64') } });
    await holds(`tenant-primary/${uid}`, 'two');
    await run(status);
    await keyferry.kill9();
    const [back = ''] = blocks('kubelb', 'Back');
    await run(back);
    assert.deepEqual((await plane.api.get(copyPath)).metadata.finalizers, ['kubelb.k8c.io/cleanup']);
  });
});

describe('docs/migrate-from-bash-controller.md', () => {
  it("the Deployment of the Bash controller can run Keyferry's image with its ServiceAccount and environment unchanged", async () => {
    await plane.api.createNamespaces(['dev-1']);
    const labels = { name: 'controller' };
    const container = {
      name: 'controller',
      image: 'controller:local',
      env: [{ name: 'VAULT_ADDR', value: 'http://v' }],
    };
    const spec = { serviceAccountName: 'controller', containers: [container] };
    await plane.api.create({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'controller', namespace: 'dev-1' },
      spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
    });
    for (const heading of ['Look', START, 'Check'])
      for (const block of blocks('bash-controller', heading)) await run(block);
    const after = await plane.api.get('/apis/apps/v1/namespaces/dev-1/deployments/controller');
    const [now] = after.spec.template.spec.containers;
    assert.deepEqual(
      [now.image, now.args, now.env, after.spec.template.spec.serviceAccountName],
      ['YOUR-REGISTRY/keyferry:0.1.0', ['generator', '--all'], container.env, 'controller'],
    );
  });
});

failOnLeaks();
