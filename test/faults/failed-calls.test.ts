/** Requests that the API server refuses, answers late or with an error, or carries out without an answer. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';

import { kubernetesFault } from '../servers/fault-rules.ts';
import type { ProxyRequest } from '../servers/fault-rules.ts';
import { rowsOf } from '../support/long.ts';
import { waitFor } from '../support/wait-for.ts';
import type { ProbeLog } from './probe-log.ts';
import { COPIES, FaultScene, namespaceNames } from './scene.ts';

const WRITES = new Set(['POST', 'PATCH', 'PUT', 'DELETE']);
const isWrite = ({ method, path }: ProxyRequest): boolean => WRITES.has(method) && /\/secrets(\/|$)/.test(path);

/** How many times each write is refused. */
const TRIES = 6;
/**
 * The shortest pause before the last try, ms. The first pause is at least 50 ms, and each further pause is twice as
 * long. A timer may fire 5 ms early.
 */
const LAST_PAUSE_MS = 50 * 2 ** (TRIES - 2) - 5;
let scene: FaultScene;
let probes: ProbeLog;

before(async () => {
  scene = await FaultScene.open();
});
beforeEach(async () => {
  ({ probes } = await scene.restart());
});
after(async () => {
  await scene.close();
});

/** Matches every n-th of the requests for which `wanted` is true. */
function every(nth: number, wanted: (request: ProxyRequest) => boolean): (request: ProxyRequest) => boolean {
  let count = 0;
  return (request) => wanted(request) && (count += 1) % nth === 0;
}

/** When writes after `from` got this status, by the path of the copy. */
function failedTries(from: number, code: number): ReadonlyMap<string, readonly number[]> {
  const tries = new Map<string, number[]>();
  for (const { at, status, url } of scene.proxy.requests) {
    if (at < from || status !== code) continue;
    const [copy = ''] = url.split('?');
    tries.set(copy, [...(tries.get(copy) ?? []), at]);
  }
  return tries;
}

const removeCopies = async (): Promise<void> => {
  for (const namespace of namespaceNames()) await scene.api.delete(`/api/v1/namespaces/${namespace}/secrets`);
};

for (const status of rowsOf([503, 500] as const, 1)) {
  test(`if writes get ${status} ${TRIES} times, the operator repeats them after growing pauses, and each is carried out one time`, async (t) => {
    const from = performance.now();
    const rule = scene.proxy.rule({ match: isWrite, fault: kubernetesFault(status) });
    await scene.changeSources();
    const isTried = (): boolean => {
      const tries = [...failedTries(from, status).values()];
      return tries.length === COPIES && tries.every(({ length }) => length >= TRIES);
    };
    await waitFor(isTried, { message: `${TRIES} tries of each` });
    rule.clear();
    t.diagnostic(`right after ${Math.round(await scene.converged())} ms; ${rule.hits} tries`);
    for (const [copy, tries] of failedTries(from, status)) {
      const pauseMs = (tries[TRIES - 1] ?? 0) - (tries[TRIES - 2] ?? 0);
      assert.ok(pauseMs >= LAST_PAUSE_MS, `${copy} was tried again after ${pauseMs} ms`);
    }
    await scene.assertWrites(from, 1);
  });
}

test('if the creation of a copy gets no answer, the operator recognizes the copy as its own and does not create it again', async (t) => {
  await removeCopies();
  await scene.converged();
  const from = await scene.caughtUp();
  const rule = scene.proxy.rule({
    match: ({ method, path }) => method === 'POST' && path.endsWith('/secrets'),
    fault: { kind: 'lose-answer' },
    times: 50,
  });
  await removeCopies();
  t.diagnostic(`right after ${Math.round(await scene.converged())} ms; ${rule.hits} answers lost`);
  assert.ok(rule.hits >= 20);
  const writes = await scene.writesSince(from);
  writes.forEach((n, key) => assert.equal(n, 2, `${key}: deleted once, created once`));
  assert.equal(writes.size, 50);
  await waitFor(async () => {
    const mirrors = await scene.api.list('/apis/mirrors.kts.studio/v1alpha2/secretmirrors');
    return mirrors.every(({ status }) => status.conditions.every((one: { status: string }) => one.status === 'True'));
  });
});

test('if updates of copies get no answer, the operator does not repeat them', async (t) => {
  const from = performance.now();
  const updates = scene.proxy.rule({
    match: ({ method, path }) => method === 'PATCH' && /\/secrets\//.test(path),
    fault: { kind: 'lose-answer' },
    times: 20,
  });
  await scene.changeSources();
  t.diagnostic(`right after ${Math.round(await scene.converged())} ms; ${updates.hits} answers lost`);
  assert.equal(updates.hits, 20);
  await scene.assertWrites(from, 1);
});

test('if answers come late, and connections break before the server gets a write, each copy is written one time', async (t) => {
  const from = performance.now();
  scene.proxy.rule({ match: every(2, isWrite), fault: { kind: 'delay', ms: 1500 }, times: 20 });
  scene.proxy.rule({ match: isWrite, fault: { kind: 'cut' }, times: 20 });
  await scene.changeSources();
  t.diagnostic(`right after ${Math.round(await scene.converged())} ms`);
  await scene.assertWrites(from, 1);
});

test("if a user puts a Secret in the place of a copy after the operator's decision and before its write, the Secret stays", async () => {
  const path = '/api/v1/namespaces/team-4/secrets/source-2';
  const { promise, resolve } = Promise.withResolvers<void>();
  const rule = scene.proxy.rule({
    match: ({ method, path: at }) => method === 'PATCH' && at === path,
    fault: { kind: 'hold', until: promise },
    times: 1,
  });
  await scene.changeSources();
  await waitFor(() => rule.hits === 1);
  await scene.api.delete(path);
  const metadata = { name: 'source-2', namespace: 'team-4' };
  const users = await scene.api.create({ apiVersion: 'v1', kind: 'Secret', metadata, data: { theirs: 'eA==' } });
  resolve();
  await waitFor(async () => {
    const mirror = await scene.api.get('/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/mirror-2');
    return mirror.status.conditions.some(
      (one: { reason: string; message: string }) => one.reason === 'Conflict' && /team-4/.test(one.message),
    );
  });
  const left = await scene.api.get(path);
  assert.deepEqual(
    [left.metadata.uid, left.metadata.resourceVersion, left.data],
    [users.metadata.uid, users.metadata.resourceVersion, users.data],
  );
  await scene.api.delete(path);
  await scene.converged();
});

test('if namespaces are created while all connections are refused for 5 s, they get their copies afterwards', async (t) => {
  const from = performance.now();
  const names = ['team-50', 'team-51', 'team-52'];
  await scene.proxy.refuse();
  await scene.namespaces(...names);
  await scene.changeSources();
  t.diagnostic(`unready after ${Math.round(await probes.ready(503))} ms`);
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, from + 5000 - performance.now())));
  await scene.proxy.accept();
  t.diagnostic(`right after ${Math.round(await scene.converged(10_000, [...namespaceNames(), ...names]))} ms`);
  // A copy may have two writes: if the new namespace arrives before the new source, it first gets the old content.
  const writes = await scene.writesSince(from);
  writes.forEach((n, key) =>
    assert.ok(n === 1 || (n === 2 && names.includes(key.split('/')[0] ?? '')), `${key}: ${n}`),
  );
  assert.equal(writes.size, 65);
  await probes.ready(200);
});
