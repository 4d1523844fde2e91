/** If the operator is stopped or killed, its next start catches up with all changes and repeats none. */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { readJsonLines } from '../../support/json-lines.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { longIt } from '../../support/long.ts';
import { waitFor } from '../../support/wait-for.ts';
import { within } from '../../support/yardstick.ts';
import { annotations, COPY_LABEL, HOME, mirrorPath, MirrorScene, OWNED_BY, secretPath } from './support.ts';

/** Limit for a stop, ms: far below the 30 s that the kubelet gives. */
const STOP_MS = 5000;

let scene: MirrorScene;
let operator: Keyferry;

before(async () => {
  scene = await MirrorScene.open({ audit: true });
  operator = await scene.operator();
});
after(() => scene.close());
afterEach(async () => {
  if (!operator.running) operator = await scene.operator();
});

const copiesOf = async (mirror: string): Promise<Json[]> =>
  (await scene.api.list('/api/v1/secrets', { labelSelector: COPY_LABEL })).filter(
    ({ metadata }) => metadata.annotations?.[OWNED_BY] === `${HOME}/${mirror}`,
  );

/** Writes of the operator since line `from` of the audit log, each as `create secrets default/x`. */
const writes = (from: number): string[] =>
  readJsonLines(scene.plane.auditLogPath)
    .slice(from)
    .filter(({ userAgent, verb }) => /keyferry/i.test(userAgent) && !['get', 'list', 'watch'].includes(verb))
    .map(({ verb, objectRef }) => `${verb} ${objectRef.resource} ${objectRef.namespace}/${objectRef.name ?? ''}`);
const auditSize = (): number => readJsonLines(scene.plane.auditLogPath).length;

const names = (prefix: string, count: number): string[] => Array.from({ length: count }, (_, n) => `${prefix}-${n}`);

it('an operator catches up with all changes that happened while it was down', async () => {
  const values = { a: '1' };
  const all = ['edited', 'source', 'deleted', 'stolen', 'stripped', 'narrowed', 'dropped'];
  await scene.namespaces('down-a', 'down-b', 'down-gone');
  for (const name of all) {
    await scene.secret(HOME, name, values);
    await scene.mirror(name, ['down-.+']);
  }
  for (const name of all) await scene.ready(name, 'Synced', /^3 copies/);
  await operator.kill9();

  await scene.api.patch(secretPath('down-a', 'edited'), { data: { a: 'aGFuZA==' } });
  await scene.change(HOME, 'source', { a: '2', b: '2' });
  await scene.api.delete(secretPath('down-a', 'deleted'));
  const stolen = await scene.api.patch(secretPath('down-a', 'stolen'), annotations({ [OWNED_BY]: null }));
  await scene.api.patch(secretPath('down-a', 'stripped'), { metadata: { labels: null } });
  await scene.api.patch(mirrorPath('narrowed'), { spec: { destination: { namespaces: ['down-[bn].*'] } } });
  await scene.api.delete(mirrorPath('dropped'));
  await scene.api.delete('/api/v1/namespaces/down-gone');
  await scene.namespaces('down-new');
  assert.equal((await copiesOf('dropped')).length > 0, true, 'no operator removed them');

  operator = await scene.operator();
  await scene.copied('down-a', 'edited', values);
  await scene.copied('down-b', 'source', { a: '2', b: '2' });
  await scene.copied('down-a', 'deleted', values);
  await scene.gone(mirrorPath('dropped'), secretPath('down-a', 'dropped'), secretPath('down-b', 'dropped'));
  await scene.gone(secretPath('down-a', 'narrowed'));
  for (const name of ['edited', 'source', 'deleted', 'stripped', 'narrowed'])
    await scene.copied('down-new', name, name === 'source' ? { a: '2', b: '2' } : values);
  await waitFor(async () => (await scene.find('down-a', 'stripped')).metadata.labels?.[COPY_LABEL] === 'mirrors');
  await scene.ready('stolen', 'Conflict', /down-a/);
  assert.deepEqual(await scene.find('down-a', 'stolen'), stolen);
});

describe('an operator that is killed', () => {
  it('an operator killed in the middle of 200 copies makes only the missing copies after its next start', async () => {
    const from = auditSize();
    const targets = names('half', 200);
    await scene.namespaces(...targets);
    await scene.secret(HOME, 'half', { a: '1' });
    await scene.mirror('half', ['half-\\d+']);
    await waitFor(async () => (await copiesOf('half')).length >= 20, { intervalMs: 1, message: '20 copies' });
    await operator.kill9();
    const made = (await copiesOf('half')).length;
    operator = await scene.operator();
    await scene.ready('half', 'Synced', /^200 copies/);
    assert.equal((await copiesOf('half')).length, 200);
    const done = writes(from).filter((write) => write.includes(' secrets '));
    assert.equal(new Set(done).size, 200, `${made} were there when it was killed`);
    assert.ok(done.length <= 200 + 16, `only requests in flight may be repeated: ${done.length}`);
  });

  longIt(
    'an operator killed in the middle of 200 deletions deletes the other copies and the mirror after its next start',
    async () => {
      await scene.api.delete(mirrorPath('half'));
      await waitFor(async () => (await copiesOf('half')).length <= 180, { intervalMs: 1, message: '20 deletions' });
      await operator.kill9();
      operator = await scene.operator();
      await scene.gone(mirrorPath('half'));
      assert.equal((await copiesOf('half')).length, 0);
      assert.ok(await scene.find(HOME, 'half'), 'the source stays');
    },
  );
});

describe('SIGTERM', () => {
  it('SIGTERM ends the operator with code 0 while the API server does not answer', async () => {
    await scene.plane.pauseApiServer();
    try {
      const { code } = await within(STOP_MS, 'the stop', async () => await operator.stop());
      assert.equal(code, 0, operator.output.slice(-2000));
    } finally {
      scene.plane.resumeApiServer();
    }
  });
});

it('if a mirror changes from ConfigMaps to Secrets while the operator is down, its ConfigMap copies stay until another mirror copies ConfigMaps', async () => {
  const path = '/api/v1/namespaces/typed-a/configmaps/typed';
  await scene.namespaces('typed-a');
  const metadata = { namespace: HOME, name: 'typed' };
  await scene.api.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { a: '1' } });
  await scene.mirror('typed', ['typed-a'], { source: { type: 'configmap' } });
  await waitFor(async () => await scene.api.find(path), { message: 'the copy' });
  await operator.stop();
  await scene.api.patch(mirrorPath('typed'), { spec: { source: { type: 'secret' } } });
  operator = await scene.operator();
  await scene.ready('typed', 'NoSecret');
  assert.ok(await scene.api.find(path), 'nothing shows that there was a copy');
  await scene.mirror('another', ['typed-a'], { source: { type: 'configmap' } });
  await scene.gone(path);
});
