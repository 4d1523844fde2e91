/**
 * A cluster is changed over with the commands of docs/config-syncer.md alone: real kubectl, real keyferry, copies with the
 * marks of the original. `status`, `plan` and `explain` speak of them.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { it } from 'node:test';

import { codeBlocks } from '../../../support/markdown.ts';
import { realCommands } from '../../../support/real-commands.ts';
import { SYNC, SyncScene } from '../support.ts';

const ROOT = path.join(import.meta.dirname, '../../../..');

it('the commands of the section "Switch over" change a cluster over, and status, plan and explain say what is what', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = stack.adopt(await SyncScene.open(), (opened) => opened.close());
  const { secrets, api, plane } = scene;
  await scene.namespaces('source', 'team-a', 'team-b', 'kubeops', 'keyferry');
  const run = await realCommands(plane.kubeconfigPath);
  const labels = { app: 'config-syncer' };
  for (const [namespace, name, image] of [
    ['kubeops', 'config-syncer', 'appscode/config-syncer'],
    ['keyferry', 'keyferry', 'keyferry'],
  ]) {
    const template = { metadata: { labels }, spec: { containers: [{ name, image }] } };
    await api.create({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name, namespace },
      spec: { selector: { matchLabels: labels }, template },
    });
  }
  const given = { [SYNC]: 'kubernetes.io/metadata.name in (team-a,team-b)' };
  const source = await scene.put(secrets, 'source/s', { a: '1' }, given);
  const cluster = 'unicorn';
  await scene.original('team-a', source, { cluster });
  await secrets.create('team-b/s', { own: '1' });
  const far = await scene.put(secrets, 'source/far', { a: '1' });
  await scene.original('team-a', far, { cluster: 'pegasus' });
  await scene.say(secrets, 'source/far', { ...given, 'kubed.appscode.com/sync-contexts': 'other' });
  const uid = (await secrets.find('team-a/s')).metadata.uid;

  const blocks = codeBlocks(readFileSync(path.join(ROOT, 'docs/config-syncer.md'), 'utf8')).filter(
    ({ heading, language }) => heading === 'Switch over' && language === 'sh',
  );
  const [look = '', stop = '', check = '', back = ''] = blocks.map(({ text }) => text);
  const { stdout: planned, code } = await run(look);
  assert.equal(code, 3, 'a conflict');
  assert.match(planned, /^cluster: config-syncer still runs \(Deployment kubeops\/config-syncer\)/m);
  assert.match(planned, /^ {2}adopt +Secret +team-a +s +Secret source\/s /m);
  assert.match(planned, /^! conflict +Secret +team-b +s +Secret source\/s /m);
  assert.match(planned, /^ {2}create +Secret +team-b +far +Secret source\/far/m);
  const unread = 'Copies in other clusters (kubed.appscode.com/sync-contexts) are not read';
  assert.ok(planned.includes(unread));
  await run(stop);
  const { spec } = await api.get('/apis/apps/v1/namespaces/kubeops/deployments/config-syncer');
  assert.equal(spec.replicas, 0);
  assert.doesNotMatch((await run(look)).stdout, /still runs/);
  const untouched = ['source/s', 'team-b/s', 'source/far', 'team-a/far'];
  const before = await secrets.versions(untouched);
  const { stdout: unnamed } = await run('keyferry plan');
  assert.doesNotMatch(unnamed, /source\/s/, 'config-syncer counts only if it made a copy');
  await scene.operator(['run', '--cluster-name=unicorn']);
  await secrets.holds('team-b/far', { a: '1' });
  await secrets.warning('source/s', 'Conflict');
  for (const reason of ['OriginConflict', 'IllFormed']) await secrets.warning('source/far', reason);
  const { stdout: status } = await run(check);
  assert.match(status, /source\/s|source +s/);
  assert.match(status, /OriginConflict/);
  assert.match(status, /Conflict/);
  assert.ok(status.includes(unread));
  const adopted = await secrets.becomes(
    'team-a/s',
    ({ metadata }) => metadata.annotations['keyferry.dev/target'] === 'team-a/s',
    'adopted',
  );
  assert.equal(adopted.metadata.uid, uid);
  assert.equal(await secrets.versions(untouched), before);
  const { stdout: settled } = await run(look);
  assert.doesNotMatch(settled, /^(adopt|create|update|delete) /m);
  const { stdout: explained } = await run(
    'keyferry explain --controllers=config-syncer --config-syncer-cluster-name=unicorn secret team-a/s',
  );
  assert.match(explained, /source\/s/);
  assert.ok(explained.includes(unread));
  await run(back);
  const replicas = async (place: string): Promise<number> =>
    (await api.get(`/apis/apps/v1/namespaces/${place}`)).spec.replicas;
  assert.equal(await replicas('keyferry/deployments/keyferry'), 0);
  assert.equal(await replicas('kubeops/deployments/config-syncer'), 1);
  await scene.say(secrets, 'source/far', { 'kubed.appscode.com/sync-contexts': null });
  assert.ok(!(await run(look)).stdout.includes(unread));
});
