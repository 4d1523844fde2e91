import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { startControlPlane } from '../servers/control-plane.ts';
import type { ControlPlane } from '../servers/control-plane.ts';
import { Keyferry } from './keyferry.ts';
import { failOnLeaks } from './leaks.ts';
import { parseMetrics } from './prometheus.ts';
import { within } from './yardstick.ts';

describe('Keyferry as a process', () => {
  let plane: ControlPlane;
  before(async () => {
    plane = await startControlPlane({ controllerManager: false, crds: true });
  });
  after(() => plane.stop());

  it('a test can read logs, probes, metrics and memory of a running Keyferry, and its exit code after its end', async () => {
    await using keyferry = await Keyferry.start({ kubeconfig: plane.kubeconfigPath });
    await keyferry.ready();
    assert.ok(((await keyferry.metric('process_start_time_seconds')) ?? 0) > 1e9);
    const { rss, private: own, peakRss } = await keyferry.memory();
    assert.ok(own > 1e6 && own < rss && rss <= peakRss && peakRss < 1e9);
    assert.ok((await keyferry.cpuSeconds()) > 0);
    const { code } = await within(5000, 'the stop', async () => await keyferry.stop());
    assert.equal(code, 0, keyferry.output);
    assert.ok(keyferry.logs().length > 0);
    assert.deepEqual((await keyferry.kill9()).code, 0);
  });

  it('if Keyferry exits before it is ready, ready() rejects with the reason from its log', async () => {
    await using keyferry = await Keyferry.start({ kubeconfig: '/nowhere/kubeconfig' });
    await assert.rejects(keyferry.ready(), /ended before it was ready[^]*nowhere/);
    assert.notEqual((await keyferry.ended()).code, 0);
  });

  it('kill9() kills the Keyferry process with SIGKILL', async () => {
    await using keyferry = await Keyferry.start({ kubeconfig: plane.kubeconfigPath });
    assert.equal((await keyferry.kill9()).signal, 'SIGKILL');
    assert.equal(keyferry.running, false);
  });
});

describe('metrics of Keyferry', () => {
  it('parseMetrics() reads each sample with its labels, and throws if a line is neither sample nor comment', () => {
    assert.deepEqual(parseMetrics('# HELP a b\na 1\nb{x="y",z="\\"q\\\\"} +Inf\n'), [
      { name: 'a', labels: {}, value: 1 },
      { name: 'b', labels: { x: 'y', z: '"q\\' }, value: Infinity },
    ]);
    assert.throws(() => parseMetrics('not a sample'), /no sample/);
  });
});

failOnLeaks();
