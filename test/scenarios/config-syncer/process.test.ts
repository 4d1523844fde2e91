/** The process: flags of the original, probes over HTTPS, copies that the original made, what it costs. */
import assert from 'node:assert/strict';
import { request } from 'node:https';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { it } from 'node:test';

import { CertificateAuthority } from '../../servers/certificates.ts';
import { freePort } from '../../servers/ports.ts';
import { Reaper } from '../../servers/reaper.ts';
import { longIt } from '../../support/long.ts';
import { waitFor } from '../../support/wait-for.ts';
import { Audited, opened } from '../annotated/support.ts';
import { KINDS, MARK, ORIGIN, originLabels, SYNC, SyncScene } from './support.ts';

const NAMESPACES = ['source', 'team-a', 'team-b'];

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
  const scene = await opened(stack, SyncScene, ...NAMESPACES, 'configs');
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
    const scene = await opened(stack, SyncScene, ...NAMESPACES, 'configs');
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

it('an adopted copy loses what the original should not have copied; what its user wrote stays, and so does a source that the original stamped', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await opened(stack, SyncScene, ...NAMESPACES);
  const { secrets, api } = scene;
  const given = { [SYNC]: 'kubernetes.io/metadata.name in (team-a,team-b)', 'replicator.v1.mittwald.de/x': 'y' };
  const labels = { 'helm.sh/chart': 'c', team: 'x' };
  const plain = await scene.put(secrets, 'source/s', { a: '1' }, given, { metadata: { labels } });
  // The original stamps a source as a copy of itself.
  const origin = JSON.stringify({ namespace: 'source', name: 's', uid: plain.metadata.uid, resourceVersion: '1' });
  const stamp = { metadata: { labels: originLabels('source', 's'), annotations: { [ORIGIN]: origin } } };
  const source = await api.patch(secrets.path('source/s'), stamp);
  await scene.original('team-a', source);
  await scene.original('team-b', source, { uid: 'of-an-earlier-source' });
  const applied = { 'kubectl.kubernetes.io/last-applied-configuration': '{}', [SYNC]: 'own=1' };
  await api.patch(secrets.path('team-a/s'), { metadata: { annotations: applied } });
  const audited = await Audited.of(scene);
  assert.deepEqual(await audited.run(), ['patch team-a/s', 'patch team-b/s']);
  for (const namespace of ['team-a', 'team-b']) {
    const { metadata } = await secrets.find(`${namespace}/s`);
    const all = { ...metadata.labels, ...metadata.annotations };
    for (const key of [...Object.keys(given), 'helm.sh/chart', ...Object.keys(applied)])
      if (key !== SYNC) assert.equal(all[key], undefined, key);
    assert.deepEqual([all[MARK], all['keyferry.dev/target']], ['source/s', `${namespace}/s`]);
    assert.equal(all[SYNC], namespace === 'team-a' ? 'own=1' : undefined);
  }
  assert.equal(await secrets.version('source/s'), source.metadata.resourceVersion);
});

longIt('objects without a rule cost no request, and 200 new namespaces no list', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await opened(stack, SyncScene, ...NAMESPACES);
  const { secrets } = scene;
  const audited = await Audited.of(scene);
  await scene.put(secrets, 'source/s', { a: '1' }, { [SYNC]: '' });
  await scene.operator([], { kubeconfig: audited.kubeconfig });
  await secrets.holds('team-a/s', { a: '1' });
  await audited.quiet();
  const before = audited.requests();
  for (const kind of KINDS) {
    const users = scene.of(kind);
    await users.create('source/plain', { a: '1' }, {}, { metadata: { labels: { ['x']: 'y' } } });
    await users.change('source/plain', { a: '2' });
    await users.delete('source/plain');
  }
  await audited.quiet();
  assert.equal(audited.requests(), before);
  const listed = audited.requests('list');
  const names = Array.from({ length: 200 }, (_, index) => `new-${index}`);
  await scene.namespaces(...names);
  await scene.label('new-199', { a: 'b' });
  for (const name of names) await secrets.holds(`${name}/s`, { a: '1' });
  assert.equal(audited.requests('list'), listed);
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
