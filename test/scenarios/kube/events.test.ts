/** Tests the Events that Keyferry writes, on a real API server. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { KubeApi } from '../../../src/kube/api.ts';
import {
  type EventInput,
  EventRecorder,
  type EventRecorderOptions,
  type EventSubject,
} from '../../../src/kube/event-recorder.ts';
import type { HttpKubeApi } from '../../../src/kube/http.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import type { Json } from '../../support/api.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { waitFor } from '../../support/wait-for.ts';
import { within } from '../../support/yardstick.ts';
import { kubeApi } from './api.ts';

let plane: ControlPlane;
let api: HttpKubeApi;

before(async () => {
  plane = await startControlPlane({ controllerManager: false });
  api = await kubeApi(plane.kubeconfigPath);
  await plane.api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop' } });
});
after(async () => {
  await api[Symbol.asyncDispose]();
  await plane.stop();
});

function recorder(more: Partial<EventRecorderOptions> = {}): EventRecorder & AsyncDisposable {
  const made = new EventRecorder({ api, instance: 'keyferry-0', ...more });
  return Object.assign(made, { [Symbol.asyncDispose]: () => made.stop() });
}

/** The object that an Event is about: a ConfigMap. It need not exist, because the API server does not check this. */
function subject(name: string, more: Partial<EventSubject> = {}): EventSubject {
  return { apiVersion: 'v1', kind: 'ConfigMap', namespace: 'shop', name, uid: `uid-of-${name}`, ...more };
}

function noSecret(of: EventSubject, message = 'secret shop/db not found'): EventInput {
  return { subject: of, type: 'Warning', reason: 'NoSecret', message };
}

/** Reads the Events of an object with the request of `kubectl describe`. */
async function eventsOf({ uid, namespace = 'default' }: EventSubject): Promise<Json[]> {
  return plane.api.list(`/api/v1/namespaces/${namespace}/events`, { fieldSelector: `involvedObject.uid=${uid}` });
}

async function written(recorder: EventRecorder): Promise<void> {
  await waitFor(() => recorder.pending === 0, { message: 'all events to be written' });
}

const MINUTE = 60_000;

test('equal messages about one object become a single Event, which is written at most once a minute', async () => {
  const methods: string[] = [];
  const counted: KubeApi = {
    cluster: api.cluster,
    request: (request) => {
      methods.push(request.method);
      return api.request(request);
    },
    stream: (request) => api.stream(request),
  };
  const clock = new ManualClock();
  await using events = recorder({ api: counted, clock });
  const mirror = subject('db');
  events.record('mirrors.kts.studio', noSecret(mirror));
  await written(events);
  for (let i = 0; i < 10; i++) events.record('mirrors.kts.studio', noSecret(mirror));
  await clock.advance(MINUTE - 1);
  events.record('mirrors.kts.studio', noSecret(mirror));
  await clock.advance(1);
  assert.deepEqual([methods, events.pending], [['POST'], 0]);
  events.record('mirrors.kts.studio', noSecret(mirror));
  await written(events);
  const found = await eventsOf(mirror);
  assert.equal(found.length, 1);
  const [event] = found;
  assert.match(event.metadata.name, /^db\.[0-9a-f]{20}$/);
  assert.equal(event.metadata.namespace, 'shop');
  assert.equal(event.count, 13);
  assert.deepEqual(event.source, { component: 'mirrors.kts.studio' });
  assert.equal(event.reportingComponent, 'mirrors.kts.studio');
  assert.equal(event.reportingInstance, 'keyferry-0');
  assert.deepEqual([event.type, event.reason, event.message], ['Warning', 'NoSecret', 'secret shop/db not found']);
  assert.equal(event.involvedObject.kind, 'ConfigMap');
  assert.equal(Date.parse(event.lastTimestamp) - Date.parse(event.firstTimestamp), MINUTE);
  assert.deepEqual(methods, ['POST', 'PATCH']);
});

test('another object, reason, type or message gets an Event of its own', async () => {
  await using events = recorder();
  const input = noSecret(subject('own'));
  const others = [{ reason: 'SyncError' }, { type: 'Normal' as const }, { message: 'else' }];
  for (const other of [{}, ...others]) events.record('mirrors.kts.studio', { ...input, ...other });
  events.record('mirrors.kts.studio', noSecret(subject('own', { uid: 'recreated' })));
  await written(events);
  assert.equal((await eventsOf(input.subject)).length, 4);
  assert.equal((await eventsOf(subject('own', { uid: 'recreated' }))).length, 1);
});

test('an event that an earlier process wrote is not written again; if it occurs later, the Event gets the new time', async () => {
  const input = noSecret(subject('restarted'));
  const clock = new ManualClock();
  const began = clock.now();
  for (let process = 0; process < 2; process++) {
    await using events = recorder({ clock });
    events.record('mirrors.kts.studio', input);
    await written(events);
    const [event, ...others] = await eventsOf(input.subject);
    assert.deepEqual([event.count, event.firstTimestamp, others.length], [1, event.lastTimestamp, 0]);
    if (process === 0) continue;
    await clock.advance(MINUTE);
    events.record('mirrors.kts.studio', input);
    await written(events);
    const [later] = await eventsOf(input.subject);
    assert.equal(later.count, 2);
    assert.equal(Date.parse(later.lastTimestamp), Math.floor((began + MINUTE) / 1000) * 1000);
  }
});

test('an object gets at most 25 new Events in ten minutes, and other objects are not affected', async () => {
  const clock = new ManualClock();
  await using events = recorder({ clock });
  const noisy = subject('noisy');
  for (let index = 0; index < 40; index++) events.record('mirrors.kts.studio', noSecret(noisy, `message ${index}`));
  events.record('mirrors.kts.studio', noSecret(subject('bystander')));
  await written(events);
  assert.equal((await eventsOf(noisy)).length, 25);
  assert.equal((await eventsOf(subject('bystander'))).length, 1);
  await clock.advance(10 * MINUTE);
  events.record('mirrors.kts.studio', noSecret(noisy, 'message 39'));
  await written(events);
  assert.equal((await eventsOf(noisy)).length, 26);
});

test('an event about a cluster-scoped object is written to the namespace default', async () => {
  await using events = recorder();
  const { namespace: _, ...namespaced } = subject('shop', { kind: 'Namespace' });
  events.record('mirrors.kts.studio', noSecret(namespaced));
  await written(events);
  assert.equal((await eventsOf(namespaced)).length, 1);
});

test('if a user deletes an Event, the next equal message creates the Event again with its count continued', async () => {
  const clock = new ManualClock();
  await using events = recorder({ clock });
  const mirror = subject('forgotten');
  events.record('mirrors.kts.studio', noSecret(mirror));
  await written(events);
  const [first] = await eventsOf(mirror);
  await plane.api.delete(`/api/v1/namespaces/shop/events/${first.metadata.name}`);
  await clock.advance(MINUTE);
  events.record('mirrors.kts.studio', noSecret(mirror));
  await written(events);
  const found = await eventsOf(mirror);
  assert.deepEqual(
    found.map((event) => [event.metadata.name, event.count]),
    [[first.metadata.name, 2]],
  );
});

test('many events of one namespace neither delay nor displace the events of another namespace', async () => {
  const posted: string[] = [];
  const watched: KubeApi = {
    cluster: api.cluster,
    request: (request) => {
      posted.push(request.path);
      return api.request(request);
    },
    stream: (request) => api.stream(request),
  };
  const drops: string[] = [];
  await using events = recorder({ api: watched, onDrop: (input) => drops.push(input.subject.name) });
  for (let index = 0; index < 260; index += 1) events.record('mirrors.kts.studio', noSecret(subject(`noisy-${index}`)));
  events.record('mirrors.kts.studio', noSecret(subject('quiet', { namespace: 'default' })));
  assert.deepEqual(
    drops,
    Array.from({ length: 10 }, (_, index) => `noisy-${index + 250}`),
  );
  await written(events);
  assert.equal(posted.length, 251);
  const turn = posted.indexOf('/api/v1/namespaces/default/events');
  assert.ok(turn === 0 || turn === 1, `it had to wait for ${turn} others`);
  events.record('mirrors.kts.studio', noSecret(subject('noisy-259')));
  await written(events);
  assert.equal(drops.length, 10, 'there is room again');
});

test('an Event with a long object name or message is truncated to the limits of the API server', async () => {
  await using events = recorder({ onDrop: () => assert.fail('dropped') });
  const mirror = subject(`${'n'.repeat(240)}.${'m'.repeat(12)}`);
  events.record('mirrors.kts.studio', noSecret(mirror, '🔑'.repeat(1000)));
  await written(events);
  const [event] = await eventsOf(mirror);
  assert.ok(Buffer.byteLength(event.message) <= 1024);
});

test('an Event that the API server refuses is dropped at once, and the drop is reported', async () => {
  const drops: string[] = [];
  await using events = recorder({ onDrop: (input, error) => drops.push(`${input.subject.name}: ${error.message}`) });
  events.record('mirrors.kts.studio', noSecret(subject('nowhere', { namespace: 'no-such-namespace' })));
  await waitFor(() => drops.length > 0);
  assert.match(drops[0] ?? '', /^nowhere: .*404 NotFound/);
  assert.deepEqual([drops.length, events.pending], [1, 0]);
});

test('while the API server hangs, record() does not block; events of all namespaces beyond the limit are dropped, and the others are written later', async () => {
  const drops: string[] = [];
  const record = (events: EventRecorder, namespace: string, name: string): void =>
    events.record('mirrors.kts.studio', noSecret(subject(name, { namespace })));
  await using full = recorder({ onDrop: (input) => drops.push(input.subject.name) });
  await using events = recorder({ onDrop: () => assert.fail('dropped') });
  await plane.pauseApiServer();
  try {
    for (let index = 0; index < 1002; index++) record(full, `place-${index % 5}`, `waiting-${index}`);
    assert.deepEqual([full.pending, drops], [1000, ['waiting-1000', 'waiting-1001']]);
    await full.stop({ drainMs: 0 });
    for (const name of ['late', 'later', 'late']) record(events, 'shop', name);
    assert.equal(events.pending, 2);
  } finally {
    plane.resumeApiServer();
  }
  await written(events);
  for (const name of ['late', 'later']) assert.equal((await eventsOf(subject(name))).length, 1);
});

test('stop() writes the waiting events; while the API server hangs, stop() ends within 700 ms and drops them', async () => {
  const drops: string[] = [];
  const onDrop = (input: Pick<EventInput, 'subject'>): unknown => drops.push(input.subject.name);
  const quick = recorder({ onDrop });
  const mirror = subject('last-words');
  for (let i = 0; i < 3; i++) quick.record('mirrors.kts.studio', noSecret(mirror));
  await quick.stop();
  assert.deepEqual(
    (await eventsOf(mirror)).map((event) => event.count),
    [3],
  );
  quick.record('mirrors.kts.studio', noSecret(mirror));
  assert.equal(drops.length, 1);

  const stuck = recorder({ onDrop });
  await plane.pauseApiServer();
  try {
    stuck.record('mirrors.kts.studio', noSecret(mirror, 'never written'));
    await within(700, 'the stop', async () => {
      await stuck.stop({ drainMs: 300 });
    });
    assert.deepEqual([drops.length, stuck.pending], [2, 0]);
  } finally {
    plane.resumeApiServer();
  }
});
