/** The process: flags of the original, probes over HTTPS, restarts, copies that the original made, what it costs. */
import assert from 'node:assert/strict';
import { request } from 'node:https';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { it } from 'node:test';

import { CertificateAuthority } from '../../servers/certificates.ts';
import { freePort } from '../../servers/ports.ts';
import { Reaper } from '../../servers/reaper.ts';
import { readAuditLog } from '../../support/audit-log.ts';
import type { Json } from '../../support/api.ts';
import { longIt } from '../../support/long.ts';
import { waitFor, waitForStable } from '../../support/wait-for.ts';
import { KINDS, MARK, ORIGIN, originLabels, SETTLE_MS, SYNC, SyncScene } from './support.ts';

const IN_TEAMS = 'kubernetes.io/metadata.name in (team-a,team-b,team-c)';

async function open(stack: AsyncDisposableStack, ...more: readonly string[]): Promise<SyncScene> {
  const scene = stack.adopt(await SyncScene.open({ audit: true }), (opened) => opened.close());
  await scene.namespaces('source', 'team-a', 'team-b', ...more);
  return scene;
}

/** A user of the operator alone, so that the audit log tells its requests from those of the test. */
async function ownUser({ api, plane }: SyncScene): Promise<string> {
  await api.create({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: 'operator' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'keyferry' }],
  });
  return await plane.writeKubeconfig({ token: plane.tokenFor('keyferry') });
}

function writesOf({ plane }: SyncScene): string[] {
  return readAuditLog(plane, 'keyferry')
    .filter(({ verb, resource }) => !['get', 'list', 'watch'].includes(verb) && resource !== 'events')
    .map(({ verb, namespace, name }) => `${verb} ${namespace}/${name}`);
}

async function certificate(): Promise<{ readonly cert: string; readonly key: string; readonly ca: string }> {
  const authority = await CertificateAuthority.create('authority');
  const { certPem, keyPem } = await authority.server('probes');
  const folder = await Reaper.shared().temporaryFolder('keyferry-certificate-');
  const [cert, key] = [path.join(folder, 'apiserver.crt'), path.join(folder, 'apiserver.key')];
  await writeFile(cert, certPem);
  await writeFile(key, keyPem);
  return { cert, key, ca: authority.certPem };
}

async function probe(port: number, url: string, ca: string): Promise<number | undefined> {
  return await new Promise((resolve, reject) => {
    request({ host: '127.0.0.1', port, path: url, ca, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    })
      .on('error', reject)
      .end();
  });
}

it('the command line of the chart counts: probes over HTTPS with the given certificate, names with _, one line for what has no effect', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await open(stack, 'configs');
  const { secrets } = scene;
  const { cert, key, ca } = await certificate();
  const port = await freePort();
  const args = [
    'run',
    '--v=3',
    `--secure-port=${port}`,
    '--bind_address=127.0.0.1',
    '--audit-log-path=-',
    `--tls-cert-file=${cert}`,
    '--tls-private-key-file',
    key,
    '--use_kubeapiserver_fqdn_for_aks=false',
    '--authentication-kubeconfig',
    scene.plane.kubeconfigPath,
    '--resync-period=10m',
    '--profiling',
    '--cluster-name=unicorn',
    '--config_source_namespace=configs',
  ];
  const operator = await scene.operator(args);
  for (const url of ['/healthz', '/livez', '/readyz']) assert.equal(await probe(port, url, ca), 200, url);
  assert.equal(await probe(port, '/metrics', ca), 404);
  assert.equal((await operator.probe('/metrics')).status, 200);
  const ignored = operator.logs().filter(({ msg }) => msg.includes('have no effect'));
  assert.equal(ignored.length, 1);
  await scene.put(secrets, 'configs/s', { a: '1' }, { [SYNC]: '' });
  const copy = await secrets.holds('team-a/s', { a: '1' });
  assert.equal(copy.metadata.labels['kubed.appscode.com/origin.cluster'], 'unicorn');
  await operator.stop();
  const inFolder = await scene.operator(['run', `--secure-port=${port}`, `--cert-dir=${path.dirname(cert)}`]);
  assert.equal(await probe(port, '/healthz', ca), 200);
  await inFolder.stop();
});

longIt(
  'with a source namespace, annotations elsewhere have no effect, also for new namespaces, and their copies stay',
  async () => {
    await using stack = new AsyncDisposableStack();
    const scene = await open(stack, 'configs');
    const { secrets } = scene;
    await scene.put(secrets, 'source/s', { a: '1' }, { [SYNC]: '' });
    const all = await scene.operator();
    for (const one of ['team-a/s', 'team-b/s', 'configs/s']) await secrets.holds(one, { a: '1' });
    await all.stop();
    await scene.put(secrets, 'team-a/other', { a: '1' }, { [SYNC]: '' });
    await scene.put(secrets, 'configs/mine', { a: '1' }, { [SYNC]: '' });
    await scene.operator(['--config-source-namespace=configs']);
    await secrets.holds('team-b/mine', { a: '1' });
    await scene.namespaces('later');
    await secrets.holds('later/mine', { a: '1' });
    for (const name of ['source/s', 'team-a/other']) await secrets.warning(name, 'NotPermitted');
    await secrets.change('source/s', { a: '2' });
    await secrets.stayUnchanged(['team-a/s', 'team-b/s'], 'copies of a source that does not count');
    for (const name of ['later/s', 'later/other', 'team-b/other']) assert.equal(await secrets.find(name), undefined);
  },
);

it('copies of the original are adopted with one patch of metadata each, sources and clones are not written, and the next start writes nothing', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await open(stack, 'team-c');
  const { secrets, configMaps, api } = scene;
  const kubeconfig = await ownUser(scene);
  const given = { [SYNC]: 'kubernetes.io/metadata.name in (team-a,team-b)', 'replicator.v1.mittwald.de/x': 'y' };
  const labels = { 'helm.sh/chart': 'c', team: 'x' };
  const plain = await scene.put(secrets, 'source/s', { a: '1' }, given, { type: 'my/type', metadata: { labels } });
  // The original stamps a source as a copy of itself.
  const origin = JSON.stringify({ namespace: 'source', name: 's', uid: plain.metadata.uid, resourceVersion: '1' });
  const stamp = { metadata: { labels: originLabels('source', 's'), annotations: { [ORIGIN]: origin } } };
  const source = await api.patch(secrets.path('source/s'), stamp);
  const map = await scene.put(configMaps, 'source/m', { a: '1' }, { [SYNC]: IN_TEAMS }, { binaryData: { b: 'AAAA' } });
  const made = [
    await scene.original('team-a', source),
    await scene.original('team-b', source, { uid: 'of-an-earlier-source' }),
    ...(await Promise.all(['team-a', 'team-b', 'team-c'].map((one) => scene.original(one, map)))),
  ];
  const applied = { 'kubectl.kubernetes.io/last-applied-configuration': '{}', [SYNC]: 'own=1' };
  await api.patch(secrets.path('team-a/s'), { metadata: { annotations: applied } });
  // Not adopted: a source that does not want it, one that has no rule, and one that is gone.
  const unruled = await scene.put(secrets, 'source/unruled', { a: '1' });
  const left = [
    await scene.original('team-c', source),
    await scene.original('team-a', unruled),
    await scene.original('team-b', { ...source, metadata: { ...source.metadata, name: 'gone' } }),
    source,
    map,
    unruled,
  ];
  const start = async (): Promise<readonly string[]> => {
    const before = writesOf(scene).length;
    const operator = await scene.operator([], { kubeconfig });
    await waitForStable(() => String(writesOf(scene).length), SETTLE_MS, 'no more writes');
    await operator.stop();
    return writesOf(scene).slice(before).toSorted();
  };
  const adopted = ['team-a/m', 'team-a/s', 'team-b/m', 'team-b/s', 'team-c/m'];
  assert.deepEqual(
    await start(),
    adopted.map((name) => `patch ${name}`),
  );
  const find = async ({ kind, metadata: { namespace, name } }: Json): Promise<Json> =>
    await (kind === 'Secret' ? secrets : configMaps).find(`${namespace}/${name}`);
  for (const before of made) {
    const now = await find(before);
    const { namespace, name } = before.metadata;
    assert.deepEqual(
      [now.metadata.uid, now.type, now.data, now.binaryData],
      [before.metadata.uid, before.type, before.data, before.binaryData],
    );
    assert.equal(now.metadata.annotations['keyferry.dev/target'], `${namespace}/${name}`);
    assert.equal(now.metadata.annotations[MARK], `source/${name}`);
    assert.equal(now.metadata.annotations['replicator.v1.mittwald.de/x'], undefined);
    assert.deepEqual(
      [
        now.metadata.labels['helm.sh/chart'],
        now.metadata.annotations['kubectl.kubernetes.io/last-applied-configuration'],
      ],
      [undefined, undefined],
    );
  }
  assert.equal((await secrets.find('team-a/s')).metadata.annotations[SYNC], 'own=1');
  for (const same of left) assert.equal((await find(same)).metadata.resourceVersion, same.metadata.resourceVersion);
  assert.deepEqual(await start(), []);
  // A source that is deleted while nobody looks takes the adopted copies with it, and no others.
  await secrets.delete('source/s');
  await secrets.delete('source/unruled');
  await scene.operator([], { kubeconfig });
  for (const name of ['team-a/s', 'team-b/s']) await secrets.gone(name);
  for (const name of ['team-c/s', 'team-a/unruled', 'team-b/gone'])
    assert.notEqual(await secrets.find(name), undefined);
});

it('the original finds what it needs to go on: marks, data and uids, and Keyferry takes the copies back', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await open(stack);
  const { secrets, api } = scene;
  const source = await scene.put(secrets, 'source/s', { a: '1' }, { [SYNC]: '' }, { metadata: { labels: { x: 'y' } } });
  const before = await scene.original('team-a', source);
  const first = await scene.operator();
  await secrets.holds('team-b/s', { a: '1' });
  await secrets.change('source/s', { a: '2' });
  for (const name of ['team-a/s', 'team-b/s']) await secrets.holds(name, { a: '2' });
  await first.stop();
  const now = await secrets.find('source/s');
  for (const name of ['team-a/s', 'team-b/s']) {
    const { metadata } = await secrets.find(name);
    for (const [label, value] of Object.entries({ ...originLabels('source', 's'), x: 'y' }))
      assert.equal(metadata.labels[label], value);
    const { uid, resourceVersion } = now.metadata;
    assert.deepEqual(JSON.parse(metadata.annotations[ORIGIN]), {
      namespace: 'source',
      name: 's',
      uid,
      resourceVersion,
    });
  }
  // The original rewrites every copy at its start: its labels and annotations, without those of Keyferry.
  const { labels, annotations } = (await secrets.find('team-a/s')).metadata;
  const { 'keyferry.dev/copy': _label, ...itsLabels } = labels;
  const patch = [
    { op: 'replace', path: '/metadata/labels', value: itsLabels },
    { op: 'replace', path: '/metadata/annotations', value: { [ORIGIN]: annotations[ORIGIN] } },
    { op: 'replace', path: '/data', value: secrets.data({ a: '3' }) },
  ];
  await api.patch(secrets.path('team-a/s'), patch, 'json');
  await secrets.change('source/s', { a: '3' });
  await scene.operator();
  assert.equal((await secrets.holds('team-a/s', { a: '3' })).metadata.uid, before.metadata.uid);
  await secrets.becomes('team-a/s', (copy) => copy.metadata.annotations[MARK] === 'source/s', 'marked again');
  await secrets.holds('team-b/s', { a: '3' });
});

longIt('objects without a rule cost no request, and 200 new namespaces no list', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await open(stack);
  const { secrets, plane } = scene;
  const kubeconfig = await ownUser(scene);
  await scene.put(secrets, 'source/s', { a: '1' }, { [SYNC]: '' });
  await scene.operator([], { kubeconfig });
  await secrets.holds('team-a/s', { a: '1' });
  const requests = (): number => readAuditLog(plane, 'keyferry').length;
  const lists = (): number => readAuditLog(plane, 'keyferry').filter(({ verb }) => verb === 'list').length;
  await waitForStable(() => String(requests()), SETTLE_MS, 'no more requests');
  const before = requests();
  for (const kind of KINDS) {
    const users = scene.of(kind);
    await users.create('source/plain', { a: '1' }, {}, { metadata: { labels: { ['x']: 'y' } } });
    await users.change('source/plain', { a: '2' });
    await users.delete('source/plain');
  }
  await waitForStable(() => String(requests()), SETTLE_MS, 'no more requests');
  assert.equal(requests(), before);
  const listed = lists();
  const names = Array.from({ length: 200 }, (_, index) => `new-${index}`);
  await scene.namespaces(...names);
  await scene.label('new-199', { a: 'b' });
  for (const name of names) await secrets.holds(`${name}/s`, { a: '1' });
  assert.equal(lists(), listed);
});

it('a namespace that is deleted is quiet, and served when it is made again', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = stack.adopt(await SyncScene.open({ controllerManager: true }), (opened) => opened.close());
  await scene.namespaces('source', 'brief');
  const { secrets, api } = scene;
  const operator = await scene.operator();
  await scene.put(secrets, 'source/s', { a: '1' }, { [SYNC]: '' });
  await secrets.holds('brief/s', { a: '1' });
  await api.delete('/api/v1/namespaces/brief');
  await secrets.gone('brief/s');
  await waitFor(async () => (await api.find('/api/v1/namespaces/brief')) === undefined, { message: 'its end' });
  const troubles = operator.logs().filter(({ level }) => level === 'warn' || level === 'error');
  assert.deepEqual(troubles, []);
  await scene.namespaces('brief');
  await secrets.holds('brief/s', { a: '1' });
});
