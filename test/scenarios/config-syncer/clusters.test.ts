/** Copies in other clusters (`sync-contexts`): contexts of a kubeconfig, of which one may lead anywhere. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, it } from 'node:test';
import { stringify } from 'yaml';

import type { ControlPlane } from '../../servers/control-plane.ts';
import { type FaultProxy, startFaultProxy } from '../../servers/fault-proxy.ts';
import { kubernetesFault } from '../../servers/fault-rules.ts';
import { freePort } from '../../servers/ports.ts';
import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { longIt } from '../../support/long.ts';
import { waitFor } from '../../support/wait-for.ts';
import { CONTEXTS, MARK, ORIGIN, originLabels, SYNC, SyncScene } from './support.ts';

let home: SyncScene;
let far: SyncScene;
let proxy: FaultProxy;
let contexts: Readonly<Record<string, Context>>;

interface Context {
  readonly plane: Pick<ControlPlane, 'url' | 'caPem' | 'adminToken'>;
  readonly namespace?: string;
}

/** Starts an operator whose kubeconfig has these contexts. @param names contexts, and flags */
async function start(...names: readonly string[]): Promise<Keyferry> {
  const base64 = (text: string): string => Buffer.from(text).toString('base64');
  const all = Object.entries(contexts).filter(([name]) => names.includes(name));
  const file = path.join(home.plane.folder, `contexts-${names.length}.yaml`);
  const text = stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: all.map(([name, { plane }]) => {
      return { name, cluster: { server: plane.url, 'certificate-authority-data': base64(plane.caPem) } };
    }),
    users: all.map(([name, { plane }]) => ({ name, user: { token: plane.adminToken } })),
    contexts: all.map(([name, { namespace }]) => {
      return { name, context: { cluster: name, user: name, ...(namespace === undefined ? {} : { namespace }) } };
    }),
  });
  await writeFile(file, text);
  const flags = names.filter((name) => name.startsWith('--'));
  return await home.operator(['--cluster-name=unicorn', `--kubeconfig-file=${file}`, ...flags]);
}

before(async () => {
  [home, far] = await Promise.all([SyncScene.open(), SyncScene.open()]);
  await home.namespaces('source', 'team-a');
  await far.namespaces('source', 'inbox');
  proxy = await startFaultProxy({ upstream: far.plane.url, upstreamCaPem: far.plane.caPem });
  const { plane } = far;
  const down = { url: `https://127.0.0.1:${await freePort()}`, caPem: plane.caPem, adminToken: plane.adminToken };
  contexts = {
    'arn:aws:eks:x/far@1': { plane: { url: proxy.url, caPem: proxy.caPem, adminToken: plane.adminToken } },
    inbox: { plane, namespace: 'inbox' },
    self: { plane: home.plane },
    down: { plane: down },
  };
});
after(async () => {
  await Promise.all([home.close(), far.close()]);
  await proxy.stop();
});

const FAR = 'arn:aws:eks:x/far@1';
longIt(
  'a copy is in the namespace of the source, or in that of the context; it follows, is repaired, and goes when it is no longer listed',
  async () => {
    const operator = await start(FAR, 'inbox');
    const source = await home.put(
      home.secrets,
      'source/s',
      { a: '1' },
      { [CONTEXTS]: FAR, [SYNC]: '', 'my.org/note': 'x' },
    );
    const expected = (values: Json): Json => home.secrets.data(values);
    const holds = async (name: string, values: Readonly<Record<string, string>>): Promise<Json> =>
      await far.secrets.becomes(
        name,
        ({ data }) => JSON.stringify(data) === JSON.stringify(expected(values)),
        JSON.stringify(values),
      );
    const made = await holds('source/s', { a: '1' });
    await home.secrets.holds('team-a/s', { a: '1' });
    for (const [label, value] of Object.entries(originLabels('source', 's', 'unicorn')))
      assert.equal(made.metadata.labels[label], value);
    assert.equal(JSON.parse(made.metadata.annotations[ORIGIN]).uid, source.metadata.uid);
    const { uid } = (await home.api.get('/api/v1/namespaces/kube-system')).metadata;
    assert.equal(made.metadata.annotations[MARK], `${uid}/source/s`);
    assert.equal(made.metadata.annotations['my.org/note'], 'x');
    await home.secrets.change('source/s', { a: '2' });
    await holds('source/s', { a: '2' });
    await far.secrets.delete('source/s');
    await holds('source/s', { a: '2' });
    // A mistake leaves the copies of other clusters as they are, and the part in this cluster goes on.
    await home.say(home.secrets, 'source/s', { [CONTEXTS]: `${FAR}, inbox` });
    await home.secrets.warning('source/s', 'IllFormed');
    await home.secrets.change('source/s', { a: '3' });
    await home.secrets.holds('team-a/s', { a: '3' });
    await far.secrets.stayUnchanged(['source/s'], 'a copy whose source names an unknown context');
    await home.say(home.secrets, 'source/s', { [CONTEXTS]: `${FAR},inbox` });
    await far.secrets.stayUnchanged(['source/s'], 'a copy whose source names one cluster twice');
    assert.equal(await far.secrets.find('inbox/s'), undefined);
    await home.say(home.secrets, 'source/s', { [CONTEXTS]: 'inbox' });
    await holds('inbox/s', { a: '3' });
    await far.secrets.gone('source/s');
    await operator.stop();
    // After a restart, nothing is deleted before it is known which cluster is which.
    const kept = await far.secrets.version('inbox/s');
    const again = await start(FAR, 'inbox');
    await home.put(home.secrets, 'source/later', { a: '1' }, { [CONTEXTS]: FAR });
    await holds('source/later', { a: '1' });
    await far.secrets.stayUnchanged(['inbox/s'], 'a copy after a restart');
    assert.equal(await far.secrets.version('inbox/s'), kept);
    await home.say(home.secrets, 'source/s', { [CONTEXTS]: null });
    await far.secrets.gone('inbox/s');
    await home.secrets.holds('team-a/s', { a: '3' });
    await home.secrets.delete('source/later');
    await far.secrets.gone('source/later');
    await again.stop();
  },
);

it('the own cluster is refused, whatever its context is called, and no copy or source goes', async () => {
  const operator = await start('self');
  await home.put(home.secrets, 'source/own', { a: '1' }, { [SYNC]: '', [CONTEXTS]: 'self' });
  await home.secrets.holds('team-a/own', { a: '1' });
  await home.secrets.warning('source/own', 'Unsupported');
  await home.secrets.stayUnchanged(['source/own', 'team-a/own'], 'a source that names its own cluster');
  await operator.stop();
});

it('a cluster that is down, from the start or for a while, delays nobody, and gets what it missed', async () => {
  const operator = await start(FAR, 'down');
  await home.put(home.secrets, 'source/both', { a: '1' }, { [SYNC]: '', [CONTEXTS]: `down,${FAR}` });
  const has = async (value: string): Promise<Json> =>
    await far.secrets.becomes(
      'source/both',
      ({ data }) => JSON.stringify(data) === JSON.stringify(home.secrets.data({ a: value })),
      value,
    );
  await home.secrets.holds('team-a/both', { a: '1' });
  await has('1');
  await home.secrets.warning('source/both', 'ClusterUnreachable');
  proxy.rule({ match: () => true, fault: kubernetesFault(503) });
  await home.secrets.change('source/both', { a: '2' });
  await home.secrets.holds('team-a/both', { a: '2' });
  proxy.clearRules();
  await has('2');
  // It takes requests and answers none: no change at home waits for it, and few requests go there.
  const before = proxy.requests.length;
  proxy.rule({ match: () => true, fault: { kind: 'stall' } });
  const changes = Array.from({ length: 20 }, (_, index) => `stalled ${index}`);
  for (const value of changes) {
    await home.secrets.change('source/both', { a: value });
    await home.secrets.holds('team-a/both', { a: value });
  }
  const sent = proxy.requests.length - before;
  assert.ok(sent < changes.length, `${sent} requests to a cluster that does not answer`);
  proxy.clearRules();
  await has(changes.at(-1) ?? '');
  assert.equal((await operator.probe('/readyz')).status, 200);
  await operator.stop();
});

it('copies that the original made there are adopted, those of another cluster of the same name are not', async () => {
  const { secrets } = home;
  const source = await home.put(secrets, 'source/old', { a: '1' });
  const other = await home.put(secrets, 'source/other', { a: '1' });
  const made = await far.original('inbox', source, { cluster: 'unicorn' });
  const foreign = await far.original('inbox', other, { cluster: 'unicorn', uid: 'of-another-cluster' });
  const operator = await start('inbox');
  for (const name of ['source/old', 'source/other']) await home.say(secrets, name, { [CONTEXTS]: 'inbox' });
  const adopted = await far.secrets.becomes('inbox/old', ({ metadata }) => MARK in metadata.annotations, 'adopted');
  assert.equal(adopted.metadata.uid, made.metadata.uid);
  await secrets.warning('source/other', 'Conflict');
  assert.equal(await far.secrets.version('inbox/other'), foreign.metadata.resourceVersion);
  await secrets.delete('source/old');
  await far.secrets.gone('inbox/old');
  await waitFor(async () => (await far.secrets.find('inbox/other')) !== undefined, { message: 'the foreign copy' });
  await operator.stop();
});

it('a limit on the namespaces of sources holds for other clusters, too: the copy there goes', async () => {
  const first = await start('inbox');
  await home.put(home.secrets, 'source/limited', { a: '1' }, { [CONTEXTS]: 'inbox' });
  await far.secrets.becomes('inbox/limited', () => true, 'there');
  await first.stop();
  const second = await start('inbox', '--source-namespaces=other');
  await far.secrets.gone('inbox/limited');
  await home.secrets.warning('source/limited', 'NotPermitted');
  await second.stop();
});
