/** Tests how RuleClient and RuleStatuses change rule objects on a real API server. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';

import { readCrd } from '../../../../scripts/crd/read-crds.ts';
import { type ControlPlane, startControlPlane } from '../../../../test/servers/control-plane.ts';
import { clientOf } from '../../../../test/support/kube-client.ts';
import type { KubeObject, KubeRequest, KubeResponse } from '../../../kube/api.ts';
import { isConflict, isInvalid, isObjectGone } from '../../../kube/errors.ts';
import type { HttpKubeApi } from '../../../kube/http.ts';
import { RuleClient } from './rule-client.ts';
import { type RuleEvent, RuleStatuses } from './rule-statuses.ts';
import { RuleStore, ruleVersion } from './rule-store.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';

const GROUP_PATH = '/apis/kubelb.k8c.io/v1alpha1';
const COLLECTION = `${GROUP_PATH}/namespaces/default/syncsecrets`;
const KEY: RuleKey = asKey('test:default/x');
const { signal } = new AbortController();
const unused = (): never => assert.fail('not used');

let plane: ControlPlane;
let api: HttpKubeApi;
let requests: KubeRequest[] = [];
/** Called when the server has responded, before the client gets the response. */
let answered: () => Promise<void>;
let store: RuleStore<KubeObject>;
let client: RuleClient;

before(async () => {
  plane = await startControlPlane({ controllerManager: false });
  api = await clientOf(plane);
  await plane.api.apply(readCrd('syncsecrets'));
});
after(async () => {
  await api[Symbol.asyncDispose]();
  await plane.stop();
});
beforeEach(() => {
  requests = [];
  answered = async () => await Promise.resolve();
  store = new RuleStore({ controller: 'test', toRule: (object) => object, versionOf: ruleVersion });
  const recording = {
    cluster: api.cluster,
    stream: api.stream.bind(api),
    request: async (request: KubeRequest) => {
      requests.push(request);
      const answer = await api.request(request);
      await answered();
      return answer;
    },
  };
  client = new RuleClient({ api: recording, kind: { groupPath: GROUP_PATH, plural: 'syncsecrets' }, store });
});

/** Creates the object on the server and in the store. If the last test left an object, it is deleted first. */
async function createRule(finalizers: readonly string[] = []): Promise<KubeObject> {
  const path = `${COLLECTION}/x`;
  try {
    await plane.api.patch(path, { metadata: { finalizers: null } });
    await plane.api.delete(path);
  } catch (error) {
    assert.match(String(error), /not found/);
  }
  const metadata = { name: 'x', namespace: 'default', finalizers };
  store.put(await plane.api.create({ apiVersion: 'kubelb.k8c.io/v1alpha1', kind: 'SyncSecret', metadata }));
  return stored();
}

function stored(): KubeObject {
  const rule = store.get(KEY);
  assert.ok(rule !== undefined);
  return rule;
}

async function onServer(): Promise<KubeObject> {
  return await plane.api.get(`${COLLECTION}/x`);
}

describe('a finalizer', () => {
  it('addFinalizer sends the finalizer and other changes in one request, and stores the response', async () => {
    const rule = await createRule(['example.com/other']);
    await client.addFinalizer(rule, 'example.com/a', { annotations: { 'example.com/note': 'n' } }, signal);
    assert.equal(requests.length, 1);
    assert.deepEqual(stored(), await onServer());
    assert.deepEqual(stored().metadata.finalizers, ['example.com/other', 'example.com/a']);
    assert.deepEqual(stored().metadata.annotations, { 'example.com/note': 'n' });
    await client.addFinalizer(stored(), 'example.com/a', {}, signal);
    assert.equal(requests.length, 1, 'nothing to change');
  });

  it('addFinalizer removes the finalizers in `replaces`, and keeps those of other clients', async () => {
    const rule = await createRule(['example.com/old', 'example.com/other']);
    await client.addFinalizer(rule, 'example.com/a', { replaces: ['example.com/old'] }, signal);
    assert.deepEqual(stored().metadata.finalizers, ['example.com/other', 'example.com/a']);
  });

  it('if another client has changed the object, adding or removing a finalizer is refused as a conflict, and the finalizer of the other client stays', async () => {
    const rule = await createRule();
    await plane.api.patch(`${COLLECTION}/x`, { metadata: { finalizers: ['example.com/other'] } });
    await assert.rejects(client.addFinalizer(rule, 'example.com/a', {}, signal), isConflict);
    await assert.rejects(
      client.removeFinalizers(await staleWith('example.com/a'), ['example.com/a'], {}, signal),
      isConflict,
    );
    assert.deepEqual((await onServer()).metadata.finalizers, ['example.com/other']);
  });

  it('if the object was recreated with the same name, adding or removing a finalizer is refused, even with the present resourceVersion', async () => {
    const { uid } = (await createRule()).metadata;
    const { metadata, ...rest } = await createRule(['example.com/a']);
    const earlier = { ...rest, metadata: { ...metadata, uid } };
    await assert.rejects(client.addFinalizer(earlier, 'example.com/b', {}, signal), isInvalid);
    await assert.rejects(client.removeFinalizers(earlier, ['example.com/a'], {}, signal), isInvalid);
    assert.deepEqual((await onServer()).metadata, metadata);
  });

  it('adding a finalizer to an object that is gone is not an error', async () => {
    const rule = await createRule();
    await plane.api.delete(`${COLLECTION}/x`);
    await client.addFinalizer(rule, 'example.com/a', {}, signal);
    assert.equal(requests.length, 1);
  });

  it('addFinalizer fails if the API server does not store the finalizer, for example because a webhook removes it', async () => {
    const rule = await createRule();
    const request = async (): Promise<KubeResponse> => {
      return await Promise.resolve({ status: 200, headers: {}, body: Buffer.from(JSON.stringify(rule)) });
    };
    const kind = { groupPath: GROUP_PATH, plural: 'syncsecrets' };
    const deaf = new RuleClient({ api: { cluster: 'c', stream: unused, request }, kind });
    await assert.rejects(deaf.addFinalizer(rule, 'example.com/a', {}, signal), /did not store the finalizer/);
  });

  it('removeFinalizers removes several finalizers by one request, and keeps those of other clients', async () => {
    const rule = await createRule(['example.com/a', 'example.com/other', 'example.com/b']);
    const names = ['example.com/a', 'example.com/b', 'example.com/c'];
    await client.removeFinalizers(rule, names, {}, signal);
    assert.deepEqual(stored(), await onServer());
    assert.deepEqual(stored().metadata.finalizers, ['example.com/other']);
    await client.removeFinalizers(stored(), names, {}, signal);
    assert.equal(requests.length, 1, 'nothing to remove');
  });

  it('when the last finalizer of a deleted object is removed, the object is gone; removing the finalizer again is not an error', async () => {
    await createRule(['example.com/a']);
    await plane.api.delete(`${COLLECTION}/x`);
    store.put(await onServer());
    const rule = stored();
    await client.removeFinalizers(rule, ['example.com/a'], {}, signal);
    await assert.rejects(client.get('default/x', signal), (error) => isObjectGone(error, 'x'));
    assert.equal(stored(), rule, 'the watch reports the deletion');
    await client.removeFinalizers(rule, ['example.com/a'], {}, signal);
    assert.equal(requests.length, 3);
  });
});

it('writeStatus replaces the whole earlier status, and is refused if the object was recreated with the same name', async () => {
  const earlier = await createRule();
  const rule = await createRule();
  await client.writeStatus(rule, { phase: 'Pending', observedGeneration: 1 }, signal);
  await client.writeStatus(rule, { phase: 'Synced' }, signal);
  assert.deepEqual(stored(), await onServer());
  assert.deepEqual((stored() as { status?: unknown }).status, { phase: 'Synced' });
  assert.deepEqual(await client.get('default/x', signal), stored());
  assert.equal(ruleVersion(stored()), ruleVersion(rule));
  await assert.rejects(client.writeStatus(earlier, { phase: 'Failed' }, signal), isInvalid);
  assert.deepEqual(stored(), await onServer());
  await plane.api.delete(`${COLLECTION}/x`);
  await client.writeStatus(rule, { phase: 'Failed' }, signal);
});

describe('the status of a rule', () => {
  interface Status {
    readonly phase: string;
    readonly unknown?: string;
  }
  type Rule = KubeObject & { readonly status?: Status };

  const isSame = (a: Status, b: Status): boolean => a.phase === b.phase && a.unknown === b.unknown;
  const warning = (reason: string): RuleEvent => ({ type: 'Warning', reason, message: '' });
  let events: string[] = [];
  let now = 0;
  let statuses: RuleStatuses<Rule, Status>;
  /** How often `RuleStatuses` reported that another client had changed the status. */
  let foreign = 0;

  beforeEach(() => {
    events = [];
    foreign = 0;
    const recordEvent = ({ metadata }: Rule, { reason }: RuleEvent): void => {
      events.push(`${metadata.name} ${reason}`);
    };
    const onForeign = (): void => void (foreign += 1);
    statuses = new RuleStatuses<Rule, Status>({ client, store, isSame, recordEvent, onForeign, now: () => now });
  });

  const write = async (status: Status, ...reasons: readonly string[]): Promise<void> => {
    await statuses.write(KEY, stored(), { status, events: reasons.map(warning) }, signal);
  };

  it('a status is written only if it changes, even if the CRD lacks one of its fields and the server drops this field', async () => {
    await createRule();
    for (const status of [{ phase: 'Synced' }, { phase: 'Synced', unknown: 'dropped' }]) {
      await write(status);
      await write(status);
      assert.deepEqual(statuses.latest(KEY, stored()), status);
    }
    assert.equal(requests.length, 2);
    assert.deepEqual(stored(), await onServer());
    assert.deepEqual((stored() as Rule).status, { phase: 'Synced' });
    await createRule();
    assert.deepEqual(statuses.latest(KEY, stored()), {}, 'another object with the same name');
  });

  /**
   * Another client writes a status, and the watch reports it. @returns whether `RuleStatuses` noticed the other client
   */
  async function forged(status: Status | null): Promise<boolean> {
    const before = foreign;
    await plane.api.patch(`${COLLECTION}/x/status`, { status });
    store.put(await onServer());
    return foreign > before;
  }

  it('if another client changes or removes a status, Keyferry writes it again', async () => {
    await createRule();
    await write({ phase: 'Failed' });
    for (const other of [{ phase: 'Synced' }, null]) {
      const before = requests.length;
      assert.equal(await forged(other), true);
      await write({ phase: 'Failed' });
      assert.equal(requests.length, before + 1);
      assert.deepEqual(((await onServer()) as Rule).status, { phase: 'Failed' });
    }
    assert.equal(await forged({ phase: 'Failed' }), false, 'the same status is no change');
  });

  it('if the server stores a status in another form, Keyferry does not write the status again', async () => {
    await createRule();
    await write({ phase: 'Synced', unknown: 'dropped' });
    const before = requests.length;
    const rule: Rule = { ...stored(), status: { phase: 'Normalized' } };
    store.put(rule);
    assert.equal(foreign, 0);
    await write({ phase: 'Synced', unknown: 'dropped' });
    assert.equal(requests.length, before);
    assert.equal(await forged({ phase: 'Other' }), true);
    await write({ phase: 'Synced', unknown: 'dropped' });
    assert.equal(requests.length, before + 1, 'the status of another client is replaced');
  });

  it('if the watch reports a status before the response to its write arrives, it does not count as a change by another client', async () => {
    await createRule();
    answered = async () => void store.put(await onServer());
    await write({ phase: 'Synced' });
    assert.equal(foreign, 0);
    assert.equal(await forged({ phase: 'Other' }), true);
  });

  it('if another client replaces a status again and again, Keyferry writes it at growing intervals', async () => {
    await createRule();
    await write({ phase: 'Failed' });
    const before = requests.length;
    const end = now + 600_000;
    while (now < end) {
      await forged({ phase: 'Synced' });
      const again = await statuses.write(KEY, stored(), { status: { phase: 'Failed' }, events: [] }, signal);
      now += again?.requeueAfterMs ?? 1000;
    }
    const writes = requests.length - before;
    assert.ok(writes >= 15 && writes <= 40, `${writes} writes in 10 minutes`);
  });

  it('if the write of a status fails several times, the events of the status are recorded only once', async () => {
    const rule = await createRule();
    const invalid = { phase: 1 as unknown as string };
    await assert.rejects(write(invalid, 'A'), isInvalid);
    await assert.rejects(write(invalid, 'A'), isInvalid);
    assert.deepEqual(events, ['x A']);
    await write({ phase: 'Failed' }, 'A');
    assert.deepEqual(events, ['x A']);
    await write({ phase: 'Synced' });
    await write({ phase: 'Failed' }, 'A');
    assert.deepEqual(events, ['x A', 'x A'], 'it happened again');
    statuses.record(KEY, rule, [warning('B')]);
    await write({ phase: 'Failed' });
    statuses.record(KEY, rule, [warning('B')]);
    assert.deepEqual(events, ['x A', 'x A', 'x B']);
  });

  it('after a failed write of a status, the events of a recreated object are recorded, although they are the same', async () => {
    await createRule();
    const invalid = { phase: 1 as unknown as string };
    await assert.rejects(write(invalid, 'A'), isInvalid);
    await createRule();
    await assert.rejects(write(invalid, 'A'), isInvalid);
    assert.deepEqual(events, ['x A', 'x A']);
  });
});

/** The object with an outdated resourceVersion and this finalizer. */
async function staleWith(finalizer: string): Promise<KubeObject> {
  const object = await onServer();
  return { ...object, metadata: { ...object.metadata, finalizers: [finalizer], resourceVersion: '1' } };
}
