/**
 * A cluster is changed over, and back, with the commands of docs/mittwald.md alone: real kubectl, real keyferry, copies
 * with the marks of the original. `status`, `plan` and `explain` speak of them.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { it } from 'node:test';

import { codeBlocks } from '../../../support/markdown.ts';
import { realCommands } from '../../../support/real-commands.ts';
import { MittwaldScene, OPEN } from '../support.ts';

const ROOT = path.join(import.meta.dirname, '../../../..');

it('the commands of the section "Switch over" change a cluster over, and status, plan and explain say what is what', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = stack.adopt(await MittwaldScene.open(), (opened) => opened.close());
  const { secrets, configMaps, api, plane } = scene;
  await scene.namespaces('keyferry', 'source', 'team-a', 'team-b', 'team-c');
  const run = await realCommands(plane.kubeconfigPath);
  const deployment = async (namespace: string, name: string, replicas: number): Promise<void> => {
    const labels = { app: name };
    const template = { metadata: { labels }, spec: { containers: [{ name, image: `quay.io/mittwald/${name}` }] } };
    const spec = { replicas, selector: { matchLabels: labels }, template };
    await api.create({ apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name, namespace }, spec });
  };
  const replicas = async (namespace: string, name: string): Promise<number> =>
    (await api.get(`/apis/apps/v1/namespaces/${namespace}/deployments/${name}`)).spec.replicas;
  await deployment('kube-system', 'kubernetes-replicator', 1);
  await deployment('keyferry', 'keyferry', 1);
  const source = await scene.put(secrets, 'source/s', { a: '1' }, { to: 'team-[abc]' });
  const made = await scene.original(secrets, 'team-a', source);
  await scene.original(secrets, 'team-a/gone', source);
  await scene.put(secrets, 'team-b/s', { own: '1' });
  await scene.put(configMaps, 'source/open', { a: '1' }, OPEN);
  await scene.put(configMaps, 'team-a/pull', { own: '1' }, { from: 'source/open' });
  await scene.put(configMaps, 'source/closed', { a: '1' });
  await scene.put(configMaps, 'team-a/denied', { own: '1' }, { from: 'source/closed' });
  await scene.put(secrets, 'source/half', { a: '1' }, { to: 'team|a', 'strip-labels': 'false' });

  const blocks = codeBlocks(readFileSync(path.join(ROOT, 'docs/mittwald.md'), 'utf8')).filter(
    ({ heading, language }) => heading === 'Switch over' && language === 'sh',
  );
  const [look = '', stop = '', check = '', back = ''] = blocks.map(({ text }) => text);
  const { stdout: planned, code } = await run(look);
  assert.equal(code, 3, 'a conflict');
  assert.match(
    planned,
    /^cluster: kubernetes-replicator still runs \(Deployment kube-system\/kubernetes-replicator\)/m,
  );
  for (const row of [
    /^ {2}adopt +Secret +team-a +s +Secret source\/s /m,
    /^! conflict +Secret +team-b +s +Secret source\/s /m,
    /^ {2}create +Secret +team-c +s +Secret source\/s /m,
    /^ {2}leave +Secret +team-a +gone .*no source of this name/m,
    /^ {2}update +ConfigMap +team-a +pull +ConfigMap team-a\/pull /m,
    /^! fail +ConfigMap +team-a +denied .*Denied/m,
    /"team\|a" matches whole names only; kubernetes-replicator also matches team-a, team-b, team-c/,
    /strip-labels: "false" keeps the labels/,
  ])
    assert.match(planned, row);
  await run(stop);
  assert.equal(await replicas('kube-system', 'kubernetes-replicator'), 0);
  const names = ['source/s', 'team-b/s', 'team-a/gone'];
  const before = await secrets.versions(names);
  const { stdout: unnamed } = await run('keyferry plan');
  assert.doesNotMatch(unnamed, /source\/s/, 'mittwald counts only if it made a copy');
  const operator = await scene.operator();
  await configMaps.holds('team-a/pull', { a: '1', own: '1' });
  await secrets.holds('team-c/s', { a: '1' });
  await secrets.warning('source/s', 'Conflict');
  const { stdout: status } = await run(check);
  assert.match(status, /Conflict/);
  assert.match(status, /to pull a ConfigMap, its source must have/);
  assert.equal((await secrets.find('team-a/s')).metadata.uid, made.metadata.uid);
  assert.equal(await secrets.versions(names), before);
  const { stdout: settled } = await run(look);
  assert.doesNotMatch(settled, /^(adopt|create|update|delete) /m);
  const { stdout: explained } = await run('keyferry explain --controllers=mittwald secret team-a/s');
  assert.match(explained, /source\/s/);
  await operator.stop();
  await run(back);
  assert.deepEqual(
    [await replicas('keyferry', 'keyferry'), await replicas('kube-system', 'kubernetes-replicator')],
    [0, 1],
  );
});
