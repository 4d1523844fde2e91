/** A third kind, defined as docs/add-a-kind.md describes it, is replicated like Secrets and ConfigMaps. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, it } from 'node:test';

import { clientOf } from '../../../support/kube-client.ts';
import { Operator } from '../../../../src/operator/operator.ts';
import { REPLICATED_KINDS } from '../../../../src/controllers/replicator/rules.ts';
import { findControllerCommand } from '../../../../src/config/commands.ts';
import type { Kind } from '../../../../src/copy/model/kind.ts';
import type { HttpKubeApi } from '../../../../src/kube/http.ts';
import { createLog } from '../../../../src/observe/log.ts';
import { createMetrics } from '../../../../src/observe/metrics/metrics.ts';
import { startControlPlane } from '../../../servers/control-plane.ts';
import { type KindScene, ReplicatorScene } from '../support.ts';

const DOCUMENT = new URL('../../../../docs/add-a-kind.md', import.meta.url);

const SETTINGS: Kind = {
  kind: 'Settings',
  apiVersion: 'example.com/v1',
  groupPath: '/apis/example.com/v1',
  plural: 'settings',
  fields: [{ name: 'data', encoding: 'text' }],
  typed: false,
  minimal: () => ({ data: {} }),
};

let scene: ReplicatorScene;
let api: HttpKubeApi;
let operator: Operator;
let users: KindScene;
const stop = new AbortController();

before(async () => {
  const plane = await startControlPlane({ controllerManager: false });
  scene = new ReplicatorScene(plane);
  await scene.api.apply(block('yaml'));
  await scene.namespaces('source', 'team-a');
  users = scene.of({ ...SETTINGS, encode: (text) => text });
  api = await clientOf(plane);
  const surroundings = { env: {}, hostname: 'test', uniqueId: 'test' };
  const config = findControllerCommand('replicator')?.configure([], surroundings);
  assert.ok(config !== undefined);
  Object.assign(REPLICATED_KINDS, { settings: SETTINGS });
  const runReplicators = Object.keys(REPLICATED_KINDS) as (keyof typeof REPLICATED_KINDS)[];
  operator = new Operator({
    config: { ...config, replicator: { ...config.replicator, runReplicators } },
    api,
    namespace: 'default',
    log: createLog({ level: 'error' }),
    metrics: createMetrics('test'),
    onRollback: (what) => assert.fail(what),
  });
  await operator.open(stop.signal);
  await operator.work(stop.signal);
});

after(async () => {
  stop.abort();
  await operator?.stop();
  await api?.[Symbol.asyncDispose]();
  await scene?.close();
});

/** The first code block of docs/add-a-kind.md in this language that no file is made of. */
function block(language: string): string {
  const text = readFileSync(DOCUMENT, 'utf8');
  const found = new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(text)?.[1];
  assert.ok(found, `the document has a block of ${language}`);
  return found;
}

it('docs/add-a-kind.md shows the same definition of a kind as this test uses', () => {
  const described = block('ts').replaceAll(/\s+/g, ' ');
  for (const [key, value] of Object.entries(SETTINGS)) {
    if (typeof value === 'string') assert.ok(described.includes(`${key}: '${value}'`), key);
  }
  assert.ok(described.includes("fields: [{ name: 'data', encoding: 'text' }]"));
});

it('objects of a third kind, defined as in docs/add-a-kind.md, are pushed, repaired, and deleted with their source', async () => {
  await users.create('source/pushed', { a: '1' }, { 'replicate-to-namespaces': 'team-.*' });
  await users.holds('team-a/pushed', { a: '1' });
  await users.change('team-a/pushed', { a: 'tampered' });
  await users.holds('team-a/pushed', { a: '1' });
  await users.delete('source/pushed');
  await users.gone('team-a/pushed');
});

it('objects of a third kind, defined as in docs/add-a-kind.md, are pulled, and cleared when the source is deleted', async () => {
  await users.create('source/pulled', { a: '1' }, { 'replication-allowed': 'true' });
  await users.create('team-a/pull', {}, { 'replicate-from': 'source/pulled' });
  await users.holds('team-a/pull', { a: '1' });
  await users.delete('source/pulled');
  await users.holds('team-a/pull', {});
});
