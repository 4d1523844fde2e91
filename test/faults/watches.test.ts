/** The operator's watches break, become silent, are refused, or get invalid data. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { after, before, beforeEach, test } from 'node:test';

import { kubernetesFault } from '../servers/fault-rules.ts';
import type { Keyferry } from '../support/keyferry.ts';
import { waitFor } from '../support/wait-for.ts';
import type { ProbeLog } from './probe-log.ts';
import { COPIES, FaultScene, namespaceNames, RECOVERY_MS } from './scene.ts';

const WATCHING = { isWatch: true };
/** The namespaces of the second test, and how many copies they get. */
const MORE_NAMESPACES = Array.from({ length: 20 }, (_, n) => `team-${100 + n}`);
const MORE = 100;
const COPIES_WATCH = { isWatch: true, path: /labelSelector=keyferry/ };

/** If a watch is broken for longer than this (ms), Keyferry is not ready. On a busy machine, this happens here, too. */
const SHORT_GAP_MS = 3000;

let scene: FaultScene;
let keyferry: Keyferry;
let probes: ProbeLog;

before(async () => {
  scene = await FaultScene.open();
});
beforeEach(async () => {
  ({ keyferry, probes } = await scene.restart());
});
after(async () => {
  await scene.close();
});

/** Waits until all watches are open. @returns their number */
async function watchesOpen(): Promise<number> {
  const expected = 3 + 5;
  await waitFor(() => scene.proxy.live(WATCHING).filter(({ status }) => status === 200).length === expected, {
    message: () =>
      `${expected} open watches; there are ${scene.proxy
        .live(WATCHING)
        .map(({ url }) => url)
        .join(' ')}`,
  });
  return expected;
}

test('while one watch or all watches are broken, the operator copies every change', async (t) => {
  let longestMs = 0;
  await watchesOpen();
  for (const match of [COPIES_WATCH, { isWatch: true, path: '/api/v1/namespaces' }, WATCHING]) {
    const from = performance.now();
    assert.ok(scene.proxy.cutAll(match) >= 1);
    await scene.changeSources();
    await scene.api.delete('/api/v1/namespaces/team-3/secrets/source-1');
    t.diagnostic(`right after ${Math.round(await scene.converged())} ms`);
    await watchesOpen();
    longestMs = Math.max(longestMs, performance.now() - from);
    const writes = await scene.writesSince(from);
    assert.equal(writes.get('team-3/source-1'), 3 - (writes.get('team-3/source-1') === 2 ? 1 : 0));
    writes.forEach((n, key) => assert.ok(n === 1 || key === 'team-3/source-1', `${key}: ${n}`));
  }
  assert.ok(!probes.wasUnready(0) || longestMs > SHORT_GAP_MS, 'a short gap does not make the operator unready');
});

test('after watches broke every 100 ms for 5 s, in which namespaces were created and sources changed, all copies are up to date', async (t) => {
  const from = performance.now();
  const cutter = setInterval(() => scene.proxy.cutAll(WATCHING), 100);
  try {
    for (const name of MORE_NAMESPACES) {
      await scene.namespaces(name);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    await scene.changeSources();
    const rest = from + 5000 - performance.now();
    if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest));
  } finally {
    clearInterval(cutter);
  }
  const tookMs = await scene.converged(RECOVERY_MS, [...namespaceNames(), ...MORE_NAMESPACES]);
  const watches = scene.busiestSecond(from, ({ isWatch }) => isWatch);
  t.diagnostic(`right after ${Math.round(tookMs)} ms; busiest second: ${watches} watches opened`);
  assert.ok(watches <= 30, `${watches} watches were opened in one second`);
  const writes = await scene.writesSince(from);
  writes.forEach((n, key) => assert.ok(n <= 2, `${key} was written ${n} times`));
  await watchesOpen();
  await probes.ready(200);
});

test('after a watch gets 410, the operator lists again, and notices objects that were deleted meanwhile', async (t) => {
  const from = performance.now();
  const gone = scene.proxy.rule({
    match: ({ isWatch, query }) => isWatch && query.has('resourceVersion'),
    fault: kubernetesFault(410),
    times: 8,
  });
  scene.proxy.cutAll(WATCHING);
  await scene.api.delete('/api/v1/namespaces/team-5/secrets/source-2');
  await scene.changeSources();
  t.diagnostic(`right after ${Math.round(await scene.converged())} ms`);
  await waitFor(() => gone.hits === 8);
  await watchesOpen();
  const writes = await scene.writesSince(from);
  writes.forEach((n, key) => assert.ok(n === 1 || (key === 'team-5/source-2' && n <= 3), `${key}: ${n}`));
  await probes.ready(200);
});

test('after a truncated list and truncated lines of watches, the operator brings all copies up to date', async (t) => {
  const from = performance.now();
  scene.proxy.rule({
    match: ({ isWatch, query }) => isWatch && query.has('resourceVersion'),
    fault: kubernetesFault(410),
    times: 8,
  });
  const lists = scene.proxy.rule({
    match: ({ isWatch, query }) => !isWatch && query.has('limit'),
    fault: { kind: 'truncate' },
    times: 8,
  });
  scene.proxy.truncateAll(WATCHING);
  await scene.changeSources();
  t.diagnostic(
    `right after ${Math.round(await scene.converged(RECOVERY_MS, [...namespaceNames(), ...MORE_NAMESPACES]))} ms`,
  );
  await watchesOpen();
  assert.equal(lists.hits, 8);
  await scene.assertWrites(from, 1, COPIES + MORE);
  scene.proxy.clearRules();
  await probes.ready(200);
});

test('after 40 broken watches, the operator uses hardly more memory and file descriptors than before', async (t) => {
  const descriptors = async (): Promise<number> => (await readdir(`/proc/${keyferry.pid}/fd`)).length;
  const before = { ...(await keyferry.memory()), descriptors: await descriptors() };
  const cuts = { done: 0 };
  while (cuts.done < 40) {
    await waitFor(
      () => scene.proxy.live({ ...WATCHING, path: 'source-0' }).length + scene.proxy.live(WATCHING).length > 0,
      { intervalMs: 5 },
    );
    cuts.done += scene.proxy.cutAll(WATCHING);
  }
  await watchesOpen();
  await probes.ready(200);
  const afterwards = { ...(await keyferry.memory()), descriptors: await descriptors() };
  t.diagnostic(
    `private ${before.private >> 10} → ${afterwards.private >> 10} KiB, descriptors ${before.descriptors} → ${afterwards.descriptors}`,
  );
  assert.ok(afterwards.private < before.private + 8 * 1024 * 1024);
  assert.ok(afterwards.descriptors <= before.descriptors + 2);
});

test('if all copies are up to date, the operator sends no requests except its watches', async () => {
  const last = () => scene.proxy.requests.findLast(({ isWatch }) => !isWatch);
  await waitFor(() => performance.now() - (last()?.at ?? 0) > 3000, {
    message: () => `three quiet seconds; the last request was ${last()?.method} ${last()?.url}`,
  });
});
