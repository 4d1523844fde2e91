/**
 * For each controller: the server refuses requests, watches break at random, or the process is killed. Afterwards, no
 * copy is missing, and no copy is left that should be deleted.
 */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';

import { kubernetesFault } from '../servers/fault-rules.ts';
import type { ProxyRequest } from '../servers/fault-rules.ts';
import type { Keyferry } from '../support/keyferry.ts';
import { rowsOf } from '../support/long.ts';
import { waitFor } from '../support/wait-for.ts';
import type { ProbeLog } from './probe-log.ts';
import { COPIES, FaultScene, namespaceNames, RECOVERY_MS } from './scene.ts';
import { RULES, CONTROLLERS } from './controllers.ts';

const WATCHING = { isWatch: true };
const THROTTLED_MS = 8000;
const RETRY_AFTER_S = 1;
/** Clocks and timers of two processes may differ by this much, ms. */
const TOLERANCE_MS = 50;

for (const controller of CONTROLLERS) {
  describe(controller.name, () => {
    let scene: FaultScene;
    let keyferry: Keyferry;
    let probes: ProbeLog;
    before(async () => {
      scene = await FaultScene.open({ controller });
    });
    beforeEach(async () => {
      ({ keyferry, probes } = await scene.restart());
    });
    after(() => scene.close());

    for (const k of rowsOf([0, COPIES / 2, COPIES - 1, 1], 3)) {
      test(`${controller.name}: if the operator is killed after ${k} of ${COPIES} deletions, it deletes the rest after a restart`, async () => {
        let deletions = 0;
        const isBeyond = ({ method, path }: ProxyRequest): boolean =>
          method === 'DELETE' && path.includes('/secrets/') && (deletions += 1) > k;
        const hang = scene.proxy.rule({ match: isBeyond, fault: { kind: 'stall' } });
        const rules = Array.from({ length: RULES }, (_, n) => n);
        for (const n of rules) await controller.drop(scene, n);
        const left = async (): Promise<number> =>
          (await scene.api.list('/api/v1/secrets', { labelSelector: controller.copyLabel })).filter(
            ({ metadata }) => metadata.namespace !== 'marker',
          ).length;
        await waitFor(async () => hang.hits > 0 && (await left()) === COPIES - k, {
          message: `${k} deletions; ${scene.logTail()}`,
        });
        probes.excused = true;
        await keyferry.kill9();
        scene.proxy.clearRules();
        const next = await scene.operator();
        await next.ready();
        await waitFor(async () => (await left()) === 0, { message: 'the copies to go' });
        for (const n of rules) {
          await scene.dropped(n);
          await controller.restore(scene, n);
        }
        await scene.converged();
      });
    }

    test(`${controller.name}: while half of all requests get 429 and watches break, the operator waits as long as Retry-After says; then it makes every copy`, async (t) => {
      const from = performance.now();
      let count = 0;
      const isSecond = (): boolean => (count += 1) % 2 === 0;
      const storm = scene.proxy.rule({ match: isSecond, fault: kubernetesFault(429, RETRY_AFTER_S) });
      while (performance.now() < from + THROTTLED_MS) {
        scene.proxy.cutAll(WATCHING);
        await scene.changeSources();
        await new Promise((resolve) => setTimeout(resolve, THROTTLED_MS / 4));
      }
      const until = performance.now();
      storm.clear();
      t.diagnostic(`right after ${Math.round(await scene.converged())} ms; ${storm.hits} refusals`);
      await scene.watchesOpen();
      const attempts = scene.proxy.requests.filter(({ isWatch, at }) => isWatch && at >= from && at < until);
      assert.ok(attempts.some(({ status }) => status === 429));
      for (const [index, { url, at, status }] of attempts.entries()) {
        if (status !== 429) continue;
        const watch = nameOf(url);
        const next = attempts.slice(index + 1).find((attempt) => nameOf(attempt.url) === watch);
        const waited = (next?.at ?? until) - at;
        assert.ok(next === undefined || waited >= RETRY_AFTER_S * 1000 - TOLERANCE_MS, `${watch} after ${waited} ms`);
      }
    });

    test(`${controller.name}: if 40 namespaces are created while watches break at random, each copy in them is written one time`, async (t) => {
      const from = performance.now();
      const names = Array.from({ length: 40 }, (_, n) => `team-${1000 + n}`);
      const stop = new AbortController();
      const cutting = (async () => {
        while (!stop.signal.aborted) {
          scene.proxy.cutAll((request: ProxyRequest) => request.isWatch && Math.random() < 0.5);
          await new Promise((resolve) => setTimeout(resolve, Math.random() * 150));
        }
      })();
      try {
        for (let n = 0; n < names.length; n += 4) {
          await scene.namespaces(...names.slice(n, n + 4));
          await new Promise((resolve) => setTimeout(resolve, Math.random() * 150));
        }
      } finally {
        stop.abort();
        await cutting;
      }
      t.diagnostic(`right after ${Math.round(await scene.converged(RECOVERY_MS, [...namespaceNames(), ...names]))} ms`);
      await scene.watchesOpen();
      await scene.assertWrites(from, 1, names.length * RULES);
    });
  });
}

/** The URL of a watch without resourceVersion and timeout. It shows which watch is opened again. */
function nameOf(url: string): string {
  const { pathname, searchParams } = new URL(url, 'http://server');
  return `${pathname} ${searchParams.get('labelSelector') ?? ''}${searchParams.get('fieldSelector') ?? ''}`;
}
