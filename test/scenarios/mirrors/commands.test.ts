/** Ways to run Keyferry for SecretMirrors: the original's command and flags, its pattern syntax, and the probes. */
import assert from 'node:assert/strict';
import { after, afterEach, before, it } from 'node:test';

import { freePort } from '../../servers/ports.ts';
import { HttpClient } from '../../support/http.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { waitFor } from '../../support/wait-for.ts';
import { HOME, mirrorPath, MirrorScene, OWNED_BY, secretPath } from './support.ts';

let scene: MirrorScene;
const running: Keyferry[] = [];

before(async () => {
  scene = await MirrorScene.open({ controllerManager: false });
});
after(() => scene.close());
afterEach(async () => {
  for (const operator of running.splice(0)) await operator.stop();
});

const start = async (options: Parameters<MirrorScene['operator']>[0]): Promise<Keyferry> => {
  const operator = await scene.operator(options);
  running.push(operator);
  return operator;
};

it("`keyferry mirrors` accepts the original's flags and environment variables, and listens on the addresses in them", async () => {
  const ports = new Set<number>();
  while (ports.size < 3) ports.add(await freePort());
  const [metrics, probes, status] = [...ports];
  const operator = await start({
    command: 'mirrors',
    statusAddress: `127.0.0.1:${status}`,
    args: [
      `--metrics-bind-address=127.0.0.1:${metrics}`,
      `--health-probe-bind-address=127.0.0.1:${probes}`,
      '--leader-elect',
      '--zap-devel=false',
      '--zap-encoder=json',
      '--zap-log-level=info',
      '--zap-stacktrace-level=error',
    ],
    env: { ENABLE_WEBHOOKS: 'false', POD_NAMESPACE: HOME },
  });
  await scene.namespaces('command-a');
  await scene.secret(HOME, 'command', { a: '1' });
  await scene.mirror('command', ['command-.']);
  await scene.copied('command-a', 'command', { a: '1' });
  await scene.ready('command', 'Synced');
  const lease = await scene.api.get('/apis/coordination.k8s.io/v1/namespaces/default/leases/7e6f5103.kts.studio');
  assert.ok(lease.spec.holderIdentity);
  const ofMetrics = new HttpClient(`http://127.0.0.1:${metrics}`);
  const ofProbes = new HttpClient(`http://127.0.0.1:${probes}`);
  try {
    const series = 'mirrors_sync_total{mirror="default/command",source_type="secret",destination_type="namespaces"}';
    const read = async (): Promise<string> => (await ofMetrics.send('/metrics')).text;
    await waitFor(async () => (await read()).includes(series), { message: series });
    assert.match(await read(), /^mirrors_ns_current_count\{mirror="default\/command",source_type="secret"\} 1$/m);
    await scene.api.delete(mirrorPath('command'));
    await waitFor(async () => !(await read()).includes('default/command'), { message: 'its series to end' });
    assert.equal((await ofMetrics.send('/healthz')).status, 404);
    for (const path of ['/healthz', '/readyz']) assert.equal((await ofProbes.send(path)).status, 200, path);
  } finally {
    ofMetrics.close();
    ofProbes.close();
  }
  assert.ok(operator.running);
});

it("a copy of the original stays if a pattern matches only a part of the namespace's name; with --mirrors-regex=search it is updated, and a restart without the flag deletes it", async () => {
  await scene.namespaces('part-a', 'not-part-a', 'not-part-b');
  for (const [where, mirror] of [
    ['part-a', 'part'],
    ['not-part-a', 'part'],
    ['not-part-b', 'other'],
  ] as const) {
    const annotations = { [OWNED_BY]: `${HOME}/${mirror}` };
    await scene.secret(where, 'part', { a: 'old' }, { metadata: { annotations } });
  }
  await scene.secret(HOME, 'part', { a: '1' });
  await scene.mirror('part', ['part-.']);
  const whole = await start({});
  await scene.copied('part-a', 'part', { a: '1' });
  await scene.ready('part', 'Synced');
  assert.equal((await scene.find('not-part-a', 'part')).data.a, scene.value('old'));
  await whole.stop();
  const search = await start({ args: ['--mirrors-regex=search'] });
  await scene.copied('not-part-a', 'part', { a: '1' });
  await scene.ready('part', 'Conflict', /not-part-b/);
  await search.stop();
  await start({});
  await scene.gone(secretPath('not-part-a', 'part'));
  assert.equal((await scene.find('not-part-b', 'part')).data.a, scene.value('old'));
});

it('after a start, /healthz answers 200 immediately, and /readyz answers 503 until the caches are complete', async () => {
  const silent = scene.plane;
  await silent.pauseApiServer();
  let operator: Keyferry;
  try {
    operator = await Keyferry.start({ kubeconfig: silent.kubeconfigPath });
    running.push(operator);
    await waitFor(async () => (await operator.probe('/healthz')).status === 200, { message: '/healthz' });
    const unready = await operator.probe('/readyz');
    assert.equal(unready.status, 503);
  } finally {
    silent.resumeApiServer();
  }
  await operator.ready();
  assert.match((await operator.probe('/readyz?verbose')).text, /secretmirrors/);
});
