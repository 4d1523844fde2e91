/**
 * A cluster is changed over with the commands of docs/reflector.md alone: real kubectl, real keyferry, mirrors with the
 * marks of the original. `status`, `plan` and `explain` speak of them.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { it } from 'node:test';

import { codeBlocks } from '../../../support/markdown.ts';
import { realCommands } from '../../../support/real-commands.ts';
import { annotations, autoInto, ReflectorScene } from '../support.ts';

const ROOT = path.join(import.meta.dirname, '../../../..');

it('the commands of the section "Switch over" change a cluster over, and status, plan and explain say what is what', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = stack.adopt(await ReflectorScene.open(), (opened) => opened.close());
  const { secrets, api, plane } = scene;
  await scene.namespaces('source', 'team-a', 'team-b');
  const run = await realCommands(plane.kubeconfigPath);
  const labels = { app: 'reflector' };
  await scene.namespaces('keyferry');
  for (const [namespace, name, image] of [
    ['kube-system', 'reflector', 'emberstack/kubernetes-reflector'],
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
  const source = await scene.put(secrets, 'source/s', { a: '1' }, autoInto('team-.*'));
  const made = async (place: string, reflects: string): Promise<void> => {
    const [namespace, name] = place.split('/');
    const marks = { reflects, 'auto-reflects': 'True', 'reflected-version': source.metadata.resourceVersion };
    await api.create({ ...source, metadata: { namespace, name, annotations: annotations(marks) } });
  };
  await made('team-a/s', 'source/s');
  await made('team-a/gone', 'source/gone');
  await secrets.create('team-b/s', { own: '1' });
  await scene.put(secrets, 'team-a/pull', {}, { reflects: 'source/s' });
  const uid = (await secrets.find('team-a/s')).metadata.uid;

  const blocks = codeBlocks(readFileSync(path.join(ROOT, 'docs/reflector.md'), 'utf8')).filter(
    ({ heading, language }) => heading === 'Switch over' && language === 'sh',
  );
  const [look = '', stop = '', check = '', back = ''] = blocks.map(({ text }) => text);
  const { stdout: planned, code } = await run(look);
  assert.equal(code, 3, 'a conflict');
  assert.match(planned, /^cluster: reflector still runs \(Deployment kube-system\/reflector\)/m);
  assert.match(planned, /^ {2}adopt +Secret +team-a +s +Secret source\/s /m);
  assert.match(planned, /^ {2}update +Secret +team-a +pull +Secret team-a\/pull /m);
  assert.match(planned, /^! conflict +Secret +team-b +s +Secret source\/s /m);
  assert.match(planned, /^ {2}leave +Secret +team-a +gone +source\/gone .*its source does not exist/m);
  const { stdout: adopting } = await run('keyferry plan --controllers=reflector --adopt-orphans');
  assert.match(adopting, /^✗ delete +Secret +team-a +gone +Secret source\/gone /m);
  await run(stop);
  const { spec } = await api.get('/apis/apps/v1/namespaces/kube-system/deployments/reflector');
  assert.equal(spec.replicas, 0);
  assert.doesNotMatch((await run(look)).stdout, /still runs/);
  const { stdout: unnamed } = await run('keyferry plan');
  assert.doesNotMatch(unnamed, /source\/s/, 'the copies of the original do not make reflector count');
  const before = await secrets.versions(['source/s', 'team-b/s', 'team-a/gone']);
  await scene.operator();
  await secrets.holds('team-a/pull', { a: '1' });
  await secrets.warning('source/s', 'Conflict');
  const { stdout: status } = await run(check);
  assert.match(status, /source\/s|source +s/);
  assert.match(status, /Conflict/);
  assert.equal((await secrets.find('team-a/s')).metadata.uid, uid);
  assert.equal(await secrets.versions(['source/s', 'team-b/s', 'team-a/gone']), before);
  const { stdout: settled } = await run(look);
  assert.doesNotMatch(settled, /^(adopt|create|update|delete) /m);
  const { stdout: explained } = await run('keyferry explain --controllers=reflector secret team-a/s');
  assert.match(explained, /source\/s/);
  // A copy that Keyferry made shows that it serves reflector.
  await scene.namespaces('team-c');
  await secrets.holds('team-c/s', { a: '1' });
  const explain = async (flags: string): Promise<string> =>
    (await run(`keyferry explain secret team-c/s ${flags}`)).stdout;
  assert.match(await explain(''), /^Secret team-c\/s is a copy of secret source\/s, /);
  assert.match(
    await explain('--controllers=mirrors'),
    /^Secret team-c\/s has the mark of reflector, which this command does not/,
  );
  assert.match((await run('keyferry status')).stdout, /^✗ reflector +Secret source\/s /m);
  await run(back);
  const replicas = async (place: string): Promise<number> =>
    (await api.get(`/apis/apps/v1/namespaces/${place}`)).spec.replicas;
  assert.equal(await replicas('keyferry/deployments/keyferry'), 0);
  assert.equal(await replicas('kube-system/deployments/reflector'), 1);
  await scene.put(secrets, 'source/nobody', { a: '1' }, autoInto('team-a', { 'allowed-namespaces': ',' }));
  const { stdout: nobody } = await run('keyferry explain --controllers=reflector secret source/nobody');
  assert.match(nobody, /reflection-allowed-namespaces selects no namespace/);
});
