/** Tests the watcher with a scripted server on loopback, byte for byte. */
import assert from 'node:assert/strict';
import { createServer, type ServerResponse } from 'node:http';
import { after, afterEach, beforeEach, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';

import { fixRandom } from '../../../test/support/fixed-random.ts';
import { HeldObjects } from '../../../test/support/held-objects.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { connect, listen } from '../../../test/support/loopback.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { added, bookmark, line, list, object, status } from '../../../test/support/watch-lines.ts';
import { ServedNamespaces } from './served-namespaces.ts';
import { WatchGroup } from './watch-group.ts';
import type { WatchTarget } from './watch-target.ts';
import { Watcher, type WatcherOptions } from './watcher.ts';

const SECRET_TEXT = 'hunter2-hunter2';
const RECONNECT = { baseMs: 5, maxMs: 20, stableMs: 10_000 };

interface Call {
  readonly query: URLSearchParams;
  readonly accept: string;
  readonly response: ServerResponse;
  closed: boolean;
}

let calls: Call[] = [];
let script: ((call: Call) => void)[] = [];
/** The number of the test, in the paths of its requests. */
let round = 0;
/** Puts each request of the present test into `calls`, and answers it with the next function of `script`. */
const server = createServer((request, response) => {
  const url = new URL(request.url ?? '/', 'http://server');
  if (!url.pathname.startsWith(`/apis/${round}/`)) return void response.destroy();
  const call: Call = { query: url.searchParams, accept: request.headers.accept ?? '', response, closed: false };
  response.once('close', () => (call.closed = true));
  calls.push(call);
  script.shift()?.(call);
  return undefined;
});
const api = connect({ after }, await listen({ after }, server));

beforeEach(() => {
  round += 1;
  calls = [];
  script = [];
});

afterEach(() => {
  for (const { response } of calls) response.destroy();
});

/** Answers with these lines and leaves the stream open. */
const open =
  (...lines: string[]) =>
  ({ response }: Call): void => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    if (lines.length > 0) response.write(lines.join(''));
  };
/** Answers with these lines and ends the stream as planned. */
const whole =
  (...lines: string[]) =>
  ({ response }: Call): void => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(lines.join(''));
  };
/** Answers with these lines and breaks the connection when they have arrived. */
const broken =
  (...lines: string[]) =>
  ({ response }: Call): void => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.write(lines.join(''), () => setTimeout(() => response.destroy(), 10));
  };
const refuse =
  (code: number, reason: string, message?: string) =>
  ({ response }: Call): void => {
    response.writeHead(code, { 'content-type': 'application/json' });
    response.end(JSON.stringify(status(code, reason, message)));
  };
const page = (names: string[], version: number, token = '') =>
  whole(
    list(
      version,
      names.map((name) => object(name, version)),
      token,
    ),
  );

const target = (): WatchTarget => ({ collection: 'things', path: `/apis/${round}/things`, metadataOnly: true });

interface Scene extends AsyncDisposable {
  readonly watcher: Watcher;
  readonly held: HeldObjects;
  readonly troubles: unknown[];
}

function start(options: Partial<WatcherOptions> = {}): Scene {
  fixRandom(0.999);
  const held = new HeldObjects();
  const troubles: unknown[] = [];
  const watcher = new Watcher({
    api,
    target: { ...target(), labelSelector: 'a=b' },
    sink: held,
    reconnect: RECONNECT,
    onTrouble: (error) => troubles.push(error),
    ...options,
  }).start();
  return { watcher, held, troubles, [Symbol.asyncDispose]: () => watcher.stop() };
}

/** Waits for the call with index `n`, counted from 0. */
async function call(n: number): Promise<Call> {
  await waitFor(() => calls.length > n, { intervalMs: 2, message: `call ${n}` });
  const found = calls[n];
  assert.ok(found);
  return found;
}

const has = (held: HeldObjects, objects: Record<string, string>): Promise<unknown> =>
  waitFor(() => JSON.stringify(Object.fromEntries(held.objects)) === JSON.stringify(objects), {
    intervalMs: 2,
    message: () => `${JSON.stringify(objects)}; there is ${held.log.join(' · ')}`,
  });

test('a watcher lists the collection in pages, watches it from the version of the list, and continues from that of the last event', async () => {
  const events = [line('MODIFIED', object('a', 9)), line('DELETED', object('b', 10)), bookmark(12)];
  script = [page(['a', 'b'], 7, 'next'), page(['c'], 7), open(...events)];
  await using scene = start();
  await scene.watcher.synced;
  await has(scene.held, { 'n/a': '9', 'n/c': '7' });
  assert.deepEqual(scene.held.log, ['put a@7', 'put b@7', 'put c@7', 'prune n/a,n/b,n/c@7', 'put a@9', 'remove b']);
  const stream = await call(2);
  assert.deepEqual(
    calls.map(({ query }) =>
      ['labelSelector', 'limit', 'continue', 'watch', 'allowWatchBookmarks', 'resourceVersion'].map((name) =>
        query.get(name),
      ),
    ),
    [
      ['a=b', '500', null, null, null, null],
      ['a=b', '500', 'next', null, null, null],
      ['a=b', null, null, '1', 'true', '7'],
    ],
  );
  assert.match(calls[0]?.accept ?? '', /as=PartialObjectMetadataList;g=meta\.k8s\.io/);
  assert.match(stream.accept, /as=PartialObjectMetadata;g=meta\.k8s\.io/);
  const timeout = Number(stream.query.get('timeoutSeconds'));
  assert.ok(timeout >= 240 && timeout <= 290);
  script = [open()];
  stream.response.end();
  assert.equal((await call(3)).query.get('resourceVersion'), '12', 'the version of the bookmark');
});

test('a page has fewer objects if the objects are large', async () => {
  const large = (names: string[], version: number, token = ''): ((call: Call) => void) =>
    whole(
      JSON.stringify({
        metadata: { resourceVersion: String(version), continue: token },
        items: names.map((name) => ({ ...object(name, version), padding: 'x'.repeat(1024 * 1024) })),
      }),
    );
  script = [
    large(['a', 'b', 'c'], 5, 'lost'),
    page(['a'], 5, 'first'),
    large(['b', 'c'], 5, 'lost'),
    large(['b', 'c'], 5, 'lost'),
    large(['b', 'c'], 5, 'lost'),
    whole(
      JSON.stringify({
        metadata: { resourceVersion: '5', continue: 'second' },
        items: [{ ...object('b', 5), padding: 'x'.repeat(3 * 1024 * 1024) }],
      }),
    ),
    whole(JSON.stringify({ metadata: { resourceVersion: '5' }, items: null })),
    open(added('d', 6)),
  ];
  await using scene = start();
  await has(scene.held, { 'n/a': '5', 'n/b': '5', 'n/d': '6' });
  assert.deepEqual(
    calls.map(({ query }) => [query.get('limit'), query.get('continue')]),
    [
      ['500', null],
      ['63', null],
      ['126', 'first'],
      ['16', 'first'],
      ['2', 'first'],
      ['1', 'first'],
      ['2', 'second'],
      [null, null],
    ],
  );
  assert.deepEqual(scene.troubles, []);
});

test('a page of a list never has more than 500 objects, or 50 with their data', async () => {
  for (const [metadataOnly, limit] of [
    [true, '500'],
    [false, '50'],
  ] as const) {
    calls = [];
    script = [page(['a'], 5, 'first'), page(['b'], 5, 'second'), page(['c'], 5)];
    await using scene = start({ target: { ...target(), metadataOnly } });
    await has(scene.held, { 'n/a': '5', 'n/b': '5', 'n/c': '5' });
    await call(3);
    assert.deepEqual(
      calls.slice(0, 3).map(({ query }) => query.get('limit')),
      [limit, limit, limit],
    );
  }
});

test('if the version of each new list is too old already, the lists have growing pauses', async () => {
  const waits: number[] = [];
  script = [page([], 1), refuse(410, 'Expired'), page([], 2), refuse(410, 'Expired'), page([], 3), open()];
  await using scene = start({
    reconnect: { baseMs: 4, maxMs: 32, stableMs: 10_000 },
    onTrouble: (_, retryInMs) => waits.push(Math.round(retryInMs)),
  });
  await waitFor(() => scene.watcher.health.connected);
  assert.deepEqual(waits, [4, 8]);
});

test('if the continue token has expired, the list starts again', async () => {
  script = [page(['a', 'gone'], 5, 'next'), refuse(410, 'Expired'), page(['a'], 8), open()];
  await using scene = start();
  await scene.watcher.synced;
  await has(scene.held, { 'n/a': '8' });
  await waitFor(() => scene.watcher.health.connected);
});

for (const [how, gone] of [
  ['a 410 as an ERROR event', open(line('ERROR', status(410, 'Expired')))],
  ['a 410 as the answer', refuse(410, 'Gone')],
  ['a 404 of the collection', refuse(404, 'NotFound')],
  ['the answer that the version does not exist yet', refuse(504, 'Timeout', 'Too large resource version: 4')],
] as const) {
  test(`after ${how} everything is listed again, and objects that the new list lacks are dropped`, async () => {
    script = [page(['a', 'b'], 3), broken(bookmark(4)), gone, page(['b', 'c'], 10), open()];
    await using scene = start();
    await has(scene.held, { 'n/b': '10', 'n/c': '10' });
    assert.equal(calls[2]?.query.get('resourceVersion'), '4');
    assert.equal(scene.held.log.at(-1), 'prune n/b,n/c@10');
    await call(4);
  });
}

test('after a cut between events, in the middle of a line or of the list, the next stream continues from the last event', async () => {
  const half = added('never', 99).slice(0, 40);
  script = [
    broken(list(2, [object('a', 2)]).slice(0, 40)),
    page(['a'], 2),
    broken(added('b', 3), half),
    whole(added('c', 4), half),
    broken(added('d', 5)),
    open(added('e', 6)),
  ];
  await using scene = start();
  await has(scene.held, { 'n/a': '2', 'n/b': '3', 'n/c': '4', 'n/d': '5', 'n/e': '6' });
  assert.deepEqual(
    calls.map(({ query }) => query.get('resourceVersion')),
    [null, null, '2', '3', '4', '5'],
  );
  assert.equal(scene.troubles.length, 4);
});

test('the error for a malformed watch event does not quote the event', async () => {
  script = [
    page([], 2),
    broken(`{"type":"ADDED","object":{"metadata":{"annotations":{"x":"${SECRET_TEXT}" oops}}}}\n`),
    open(`{"${SECRET_TEXT}`, '\n'),
    open(line('SURPRISE', object('a', 3))),
    open(added('a', 3)),
  ];
  await using scene = start();
  await has(scene.held, { 'n/a': '3' });
  assert.equal(scene.troubles.length, 3);
  for (const trouble of scene.troubles) {
    assert.ok(trouble instanceof Error);
    const text = `${trouble.message} ${trouble.stack ?? ''} ${String(trouble.cause)}`;
    for (const piece of [SECRET_TEXT, SECRET_TEXT.slice(0, 8)]) assert.ok(!text.includes(piece), text);
  }
});

test('after an ERROR event everything is listed again, but after a 429, or a 500 as the answer, the watch continues', async () => {
  const busy = whole(line('ERROR', status(429, 'TooManyRequests', 'later')));
  const poisoned = whole(line('ERROR', status(500, 'InternalError', 'unable to decode an object')));
  const refused = refuse(500, 'InternalError');
  script = [page(['a'], 2), broken(), busy, refused, poisoned, page(['b'], 5), open()];
  await using scene = start();
  await call(6);
  assert.deepEqual(Object.fromEntries(scene.held.objects), { 'n/b': '5' });
  assert.deepEqual(
    calls.map(({ query }) => query.get('resourceVersion')),
    [null, '2', '2', '2', '2', null, '5'],
  );
});

test('if a list is older than what the watch has seen, also before a list that failed, this is a rollback', async () => {
  let rollbacks = 0;
  script = [page([], 9), refuse(410, 'Expired'), refuse(500, 'InternalError'), page([], 3), open()];
  await using scene = start({ onRollback: () => (rollbacks += 1) });
  await waitFor(() => scene.held.log.includes('prune @3'), { message: () => scene.held.log.join(' · ') });
  assert.equal(rollbacks, 1);
});

test('after an ERROR event the watcher closes the stream, although the server keeps it open', async () => {
  script = [page([], 1), open(line('ERROR', status(500, 'InternalError', 'oops'))), page(['a'], 2), open()];
  await using scene = start();
  await has(scene.held, { 'n/a': '2' });
  const stream = await call(1);
  await waitFor(() => stream.closed, { intervalMs: 2, message: 'the first stream to be closed' });
});

test('a watch group of namespaces is synced when the list of each namespace is complete', async () => {
  script = [page([], 1)];
  const group = new WatchGroup(
    { api, target: target(), sink: new HeldObjects(), reconnect: RECONNECT },
    new ServedNamespaces(['a', 'b']),
  ).start();
  try {
    const second = await call(1);
    await waitFor(() => group.isSyncedIn('a') || group.isSyncedIn('b'), { intervalMs: 2, message: 'one list' });
    assert.notEqual(group.isSyncedIn('a'), group.isSyncedIn('b'));
    assert.equal(group.isSyncedIn('c'), false);
    const state = Promise.race([group.synced.then(() => 'synced'), setImmediate('not yet')]);
    assert.deepEqual([await state, group.isSynced], ['not yet', false]);
    page([], 1)(second);
    await group.synced;
    assert.ok(group.isSynced);
  } finally {
    await group.stop();
  }
});

test('in a watch group, the list of one namespace removes only objects of this namespace from the sink', async () => {
  script = [page([], 1), page([], 1)];
  const pruned: (string | undefined)[] = [];
  const sink = {
    upsert: () => true,
    remove: () => undefined,
    prune: (_keys: unknown, _version: string, namespace?: string) => void pruned.push(namespace),
  };
  const group = new WatchGroup(
    { api, target: target(), sink, reconnect: RECONNECT },
    new ServedNamespaces(['a', 'b']),
  ).start();
  try {
    await group.synced;
    assert.deepEqual(new Set(pruned), new Set(['a', 'b']));
  } finally {
    await group.stop();
  }
});

test('after a 410 a new list begins at once, and until it is complete the namespace counts as synced but not as listed', async () => {
  script = [page([], 1), open(line('ERROR', status(410, 'Expired')))];
  const reconnect = { baseMs: 600_000, maxMs: 600_000, stableMs: 10_000 };
  const sink = new HeldObjects();
  const group = new WatchGroup({ api, target: target(), sink, reconnect }, new ServedNamespaces(['a'])).start();
  try {
    await group.synced;
    const second = await call(2);
    assert.deepEqual([group.isSyncedIn('a'), group.isListedIn('a')], [true, false]);
    page([], 2)(second);
    await waitFor(() => group.isListedIn('a'), { intervalMs: 2, message: 'the second list' });
  } finally {
    await group.stop();
  }
});

test('a stream that is silent for too long is closed, and a new stream is opened at once, without a report', async () => {
  script = [page(['a'], 1), open(), open(added('b', 3))];
  const clock = new ManualClock();
  await using scene = start({ idleLimitMs: 150, clock });
  const { response } = await call(1);
  await waitFor(() => scene.watcher.health.connected);
  await clock.advance(10);
  response.write(line('MODIFIED', object('a', 2)));
  await has(scene.held, { 'n/a': '2' });
  await clock.advance(140);
  assert.equal(calls.length, 2);
  await clock.advance(60);
  await has(scene.held, { 'n/a': '2', 'n/b': '3' });
  assert.equal(calls[2]?.query.get('resourceVersion'), '2');
  assert.deepEqual(scene.troubles, []);
  assert.equal((await call(1)).closed, true);
});

test('a stream that never sends anything is followed by a list, because its version may not exist', async () => {
  script = [page(['a'], 5), open(), page(['a', 'b'], 6), open()];
  const clock = new ManualClock();
  await using scene = start({ clock });
  await scene.watcher.synced;
  await call(1);
  await clock.advance(120_000);
  await has(scene.held, { 'n/a': '6', 'n/b': '6' });
  await waitFor(() => calls.length === 4 && scene.watcher.health.connected, { message: 'another stream' });
  assert.deepEqual(scene.troubles, []);
});

test('a stream with regular bookmarks is not replaced', async () => {
  script = [page(['a'], 1), open()];
  const clock = new ManualClock();
  await using scene = start({ idleLimitMs: 200, clock });
  const { response } = await call(1);
  for (let version = 3; version < 13; version += 1) {
    response.write(bookmark(version) + added('b', version));
    await has(scene.held, { 'n/a': '1', 'n/b': String(version) });
    await clock.advance(150);
  }
  assert.equal(calls.length, 2);
  assert.deepEqual(scene.troubles, []);
});

test('a watcher counts as connected neither before its list is complete nor during a second list', async () => {
  script = [page(['a'], 2, 'next')];
  await using scene = start();
  const last = await call(1);
  assert.deepEqual([scene.watcher.health.synced, scene.watcher.health.connected], [false, false]);
  script = [open(bookmark(3))];
  page([], 2)(last);
  await waitFor(() => scene.watcher.health.connected);
  script = [refuse(410, 'Expired')];
  (await call(2)).response.destroy();
  const again = await call(4);
  assert.equal(scene.watcher.health.connected, false);
  assert.match(scene.watcher.health.error ?? '', /410 Expired/);
  script = [open()];
  page(['a'], 5)(again);
  await waitFor(() => scene.watcher.health.connected);
  assert.equal(scene.watcher.health.error, undefined);
});

test('while the server refuses, the waits of a watcher grow, and are at least as long as a Retry-After', async () => {
  const waits: number[] = [];
  script = [
    ...Array.from({ length: 5 }, () => refuse(503, 'ServiceUnavailable')),
    page([], 2),
    whole(line('ERROR', status(429, 'TooManyRequests', 'later', 1))),
    open(),
  ];
  await using scene = start({
    reconnect: { baseMs: 4, maxMs: 32, stableMs: 10_000 },
    onTrouble: (_, retryInMs) => waits.push(Math.round(retryInMs)),
  });
  await waitFor(() => calls.length === 8 && scene.watcher.health.connected);
  assert.deepEqual(waits.slice(0, 5), [4, 8, 16, 32, 32]);
  assert.ok((waits[5] ?? 0) >= 1000);
});

test('if a server refuses calls after an outage, the watcher tries again after a short wait', async () => {
  const waits: number[] = [];
  const drop = ({ response }: Call): void => void response.destroy();
  // Without `close` the connection is kept, and a call on it that breaks is sent again at once.
  const gateway = ({ response }: Call): void => void response.writeHead(502, { Connection: 'close' }).end();
  script = [drop, gateway, drop, refuse(403, 'Forbidden'), refuse(403, 'Forbidden'), page([], 5), open()];
  await using scene = start({
    reconnect: { baseMs: 4, maxMs: 32, stableMs: 10_000 },
    onTrouble: (_, retryInMs) => waits.push(Math.round(retryInMs)),
  });
  await scene.watcher.synced;
  assert.deepEqual(waits, [4, 8, 16, 4, 8]);
});

test('if a server ends every watch at once, the watcher waits between its tries', async () => {
  script = [page([], 2), open(), ...Array.from({ length: 500 }, () => whole())];
  await using scene = start({ reconnect: { baseMs: 100, maxMs: 400, stableMs: 10_000 } });
  await scene.watcher.synced;
  const stream = await call(1);
  const from = performance.now();
  stream.response.end();
  await call(7);
  const tookMs = performance.now() - from;
  // The first pause may be 0. The next ones are 100, 200 and three times 400 ms.
  assert.ok(tookMs > 1400, `six calls in ${tookMs} ms`);
});

test('when reopenIfSilent has closed a stream, the next stream continues from the last version', async () => {
  script = [page(['a'], 1), open(added('b', 3)), open(added('c', 4))];
  await using scene = start();
  await has(scene.held, { 'n/a': '1', 'n/b': '3' });
  scene.watcher.reopenIfSilent(0);
  await has(scene.held, { 'n/a': '1', 'n/b': '3', 'n/c': '4' });
  assert.equal(calls[2]?.query.get('resourceVersion'), '3');
});

test('stopping a watcher ends its lists, streams and waits', async () => {
  const stages: readonly (readonly ((call: Call) => void)[])[] = [
    [() => undefined],
    [open(list(1).slice(0, 10))],
    [page(['a'], 1, 'next'), () => undefined],
    [page(['a'], 1), () => undefined],
    [page(['a'], 1), open(added('b', 2))],
    [refuse(503, 'ServiceUnavailable')],
  ];
  for (const stage of stages) {
    calls = [];
    script = [...stage];
    const scene = start({ reconnect: { baseMs: 60_000, maxMs: 60_000, stableMs: 1 } });
    const last = await call(stage.length - 1);
    await new Promise((resolve) => setTimeout(resolve, 20));
    await scene.watcher.stop();
    await waitFor(() => last.closed, { message: 'the connection to be closed' });
    assert.equal(scene.watcher.health.connected, false);
    assert.equal(calls.length, stage.length);
  }
});

test('after three hundred broken streams no listener, timer or connection is left', async () => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error): unknown => warnings.push(warning);
  process.on('warning', onWarning);
  script = [page([], 2), open(), ...Array.from({ length: 300 }, (_, n) => broken(added('a', n + 3)))];
  await using scene = start({ reconnect: { baseMs: 0.1, maxMs: 0.2, stableMs: 10_000 } });
  const stream = await call(1);
  const before = process.getActiveResourcesInfo().length;
  stream.response.destroy();
  await waitFor(() => scene.troubles.length >= 301);
  await waitFor(() => process.getActiveResourcesInfo().length <= before + 2, {
    message: 'what was opened to be closed',
  });
  process.off('warning', onWarning);
  assert.deepEqual(warnings, []);
});

test('of a stalled stream, the time without a connection counts from its last byte', async () => {
  script = [page(['a'], 1), open(bookmark(2)), () => undefined];
  const clock = new ManualClock();
  await using scene = start({ idleLimitMs: 200, clock });
  await waitFor(() => scene.watcher.health.connected);
  await clock.advance(250);
  await call(2);
  const { connected, silentMs } = scene.watcher.health;
  assert.deepEqual([connected, silentMs], [false, 250]);
});
