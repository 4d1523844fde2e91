/** Tests the watches of several namespaces, with a scripted server on loopback. */
import assert from 'node:assert/strict';
import { createServer, type ServerResponse } from 'node:http';
import { after, afterEach, beforeEach, test } from 'node:test';

import { HeldObjects } from '../../../test/support/held-objects.ts';
import { connect, listen } from '../../../test/support/loopback.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { added, list, object, status } from '../../../test/support/watch-lines.ts';
import { ServedNamespaces } from './served-namespaces.ts';
import { WatchGroup, type WatchGroupOptions } from './watch-group.ts';

interface Stream {
  readonly response: ServerResponse;
  isOpen: boolean;
}

/** The lists and streams that the client opened in each namespace. */
let streams: Map<string, Stream[]>;
/** The namespaces in which the server answers 403. */
let forbidden: Set<string>;
/** The status of all answers; `undefined`: 200. */
let failure: number | undefined;

const server = createServer((request, response) => {
  const namespace = /namespaces\/([^/]+)\//.exec(request.url ?? '')?.[1] ?? '';
  const stream = { response, isOpen: true };
  response.once('close', () => (stream.isOpen = false));
  streams.set(namespace, [...(streams.get(namespace) ?? []), stream]);
  const code = failure ?? (forbidden.has(namespace) ? 403 : 200);
  if (code !== 200) {
    response.writeHead(code, { 'content-type': 'application/json' });
    response.end(JSON.stringify(status(code, code === 403 ? 'Forbidden' : 'InternalError')));
    return;
  }
  response.writeHead(200, { 'content-type': 'application/json' });
  if (new URL(request.url ?? '', 'http://server').searchParams.has('watch')) response.flushHeaders();
  else response.end(list(6, [object(`of-${namespace}`, 5, namespace)]));
});
const api = connect({ after }, await listen({ after }, server));

/** Watches a custom API in the whole cluster. */
function watchCustom(options: Pick<WatchGroupOptions, 'onTrouble' | 'custom' | 'neededBy'>): WatchGroup {
  const target = { collection: 'things', path: '/apis/custom/v1/things', metadataOnly: true };
  const reconnect = { baseMs: 5, maxMs: 20, stableMs: 10_000 };
  return new WatchGroup({ api, target, sink: new HeldObjects(), reconnect, ...options }, undefined).start();
}

beforeEach(() => {
  streams = new Map();
  forbidden = new Set();
  failure = undefined;
});

afterEach(() => {
  for (const { response } of [...streams.values()].flat()) response.destroy();
});

const openIn = (namespace: string): number => (streams.get(namespace) ?? []).filter(({ isOpen }) => isOpen).length;

function scene(...names: readonly string[]) {
  const held = new HeldObjects();
  const troubles: string[] = [];
  const group = new WatchGroup(
    {
      api,
      target: { collection: 'things', path: '/api/v1/things', metadataOnly: true },
      sink: held,
      reconnect: { baseMs: 5, maxMs: 20, stableMs: 10_000 },
      onTrouble: (_error, _retryInMs, cause) => {
        const { excused, isKnown } = cause ?? {};
        troubles.push(excused === undefined ? 'other' : `${excused.namespace} ${isKnown}`);
      },
    },
    new ServedNamespaces(names),
  ).start();
  return {
    group,
    held,
    troubles,
    [Symbol.asyncDispose]: async () => await group.stop(),
  };
}

test('of a list of namespaces, one without permission delays no other, and is no excuse if no namespace permits the watch', async () => {
  forbidden.add('a');
  await using group = scene('a', 'b');
  await group.group.synced;
  await waitFor(() => group.held.objects.has('b/of-b'), { message: 'the object of b' });
  await waitFor(() => group.troubles.length > 1, { message: 'the second refusal' });
  assert.deepEqual(group.troubles.slice(0, 2), ['a false', 'a true']);
  const [health] = group.group.health;
  assert.deepEqual([health?.connected, health?.isExcused], [false, true]);
  assert.match(health?.advice ?? '', /^--namespaces names the namespace a, .* no permission .* bind its Role there$/);
  await using alone = scene('a');
  await waitFor(() => alone.troubles.length > 0, { message: 'the refusal' });
  assert.deepEqual(
    alone.group.health.map(({ isExcused }) => isExcused),
    [false],
  );
  forbidden.clear();
  await waitFor(() => group.held.objects.has('a/of-a'), { message: 'the object after the Role' });
});

test('a watch group that starts again drops its objects at once, lists them anew, and ignores late events', async () => {
  await using group = scene('a', 'b');
  await waitFor(() => group.held.objects.size === 2, { message: 'both objects' });
  await waitFor(() => openIn('a') === 1, { message: 'the stream' });
  const [, stream] = streams.get('a') ?? [];
  stream?.response.write(added('late', 7, 'a'));
  group.group.restart();
  assert.deepEqual([group.held.objects.size, group.group.isSynced], [0, false]);
  await waitFor(() => group.held.objects.size === 2 && group.group.isSynced, { message: 'both objects again' });
  await waitFor(() => openIn('a') === 1 && openIn('b') === 1, { message: 'one stream each' });
  assert.deepEqual([...group.held.objects.keys()].toSorted(), ['a/of-a', 'b/of-b']);
});

test('the watch of a custom API reports its own error with the advice, and excuses only a missing API that is optional', async () => {
  for (const [code, isOptional, isExcused, missed] of [
    [404, true, true, true],
    [404, false, false, true],
    [500, true, false, false],
    [403, true, undefined, false],
    [503, true, undefined, false],
  ] as const) {
    failure = code;
    const causes: [string | undefined, boolean | undefined][] = [];
    let isMissed = false;
    const custom = { advice: 'install it', isOptional, onMissing: () => (isMissed = true) };
    const group = watchCustom({
      onTrouble: (_error, _retryInMs, cause) => causes.push([cause?.advice, cause?.isKnown]),
      custom,
    });
    let isSettled = false;
    group.settled.then(
      () => (isSettled = true),
      () => undefined,
    );
    try {
      await waitFor(() => causes.length > 1, { message: 'two failures' });
      const advice = code === 404 || code === 500 ? 'install it' : undefined;
      assert.deepEqual(causes.slice(0, 2), [
        [advice, false],
        [advice, advice !== undefined],
      ]);
      const [health] = group.health;
      assert.match(health?.error ?? '', new RegExp(`${code}`));
      assert.deepEqual([health?.advice, health?.isExcused, isMissed], [advice, isExcused, missed], `${code}`);
      assert.deepEqual([isSettled, group.isSynced], [advice !== undefined, false], `the start waits after ${code}`);
      failure = undefined;
      await group.synced;
      await waitFor(() => group.health[0]?.connected === true, { message: 'the watch' });
      assert.equal(group.health[0]?.advice, undefined);
    } finally {
      await group.stop();
    }
  }
});

test('nothing waits for a watch that no rule needs, and its failure is excused', async () => {
  failure = 503;
  let failures = 0;
  const group = watchCustom({
    onTrouble: () => (failures += 1),
    neededBy: 'nobody',
  });
  await group.synced;
  await waitFor(() => failures > 0, { message: 'a failure' });
  assert.deepEqual([group.isSynced, group.health.map(({ isExcused }) => isExcused)], [false, [true]]);
  failure = undefined;
  await group.stop();
});
