/** What the life of a rule reads and writes, on a real API server. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';

import { type ControlPlane, startControlPlane } from '../../../../test/servers/control-plane.ts';
import { asKey } from '../../../../test/support/keys.ts';
import { clientOf } from '../../../../test/support/kube-client.ts';
import { nullLog } from '../../../../test/support/null-log.ts';
import { ruleLife } from '../../../../test/support/rule-life.ts';
import type { KubeObject, KubeRequest } from '../../../kube/api.ts';
import { ApiError, isConflict, isInvalid } from '../../../kube/errors.ts';
import type { HttpKubeApi } from '../../../kube/http.ts';
import type { Entry } from '../../book/claim-book.ts';
import { type Outcome, LeaveShape, PENDING } from '../../model/claim.ts';
import { type Cause, userCause } from '../../model/cause.ts';
import type { ResourceKey, RuleKey } from '../../model/keys.ts';
import type { RuleState } from '../../model/rule-set.ts';
import type { Controller, Report, RuleChange, RuleEvent, RuleFacts } from '../controller.ts';
import type { RuleStatus } from './condition.ts';
import type { RuleLife } from './rule-life.ts';
import { type RuleObject, RuleStore, ruleVersion } from './rule-store.ts';

const GROUP_PATH = '/apis/kubelb.k8c.io/v1alpha1';
const COLLECTION = `${GROUP_PATH}/namespaces/default/syncsecrets`;
const KIND = { kind: 'SyncSecret', apiVersion: 'kubelb.k8c.io/v1alpha1', groupPath: GROUP_PATH, plural: 'syncsecrets' };
const KEY: RuleKey = asKey('test:default/x');
const TARGET: ResourceKey = asKey('c:Secret/team/x');
const { signal } = new AbortController();
const CALL = { cluster: 'c', method: 'PATCH', path: COLLECTION };
const forbidden = new ApiError(CALL, 403, { reason: 'Forbidden', message: 'no', causes: [] });

interface Status extends RuleStatus {
  readonly phase?: string;
  readonly unknown?: string;
}
type Rule = RuleObject & { readonly status?: Status };

let plane: ControlPlane;
let api: HttpKubeApi;
let requests: KubeRequest[] = [];
/** Called when the server has responded, before the client gets the response. */
let answered: () => Promise<void>;
let store: RuleStore<Rule>;
let life: RuleLife<Rule, Status>;
let events: string[] = [];
let warnings: string[] = [];
/** How often another client had changed the status. */
let foreign = 0;
let now = 0;
/** What the controller of the test asks for, and what it tells. */
let change: RuleChange | undefined;
let report: Report<Status> | undefined;
let facts: Partial<RuleFacts<Rule, Status>> = {};

before(async () => {
  plane = await startControlPlane({ controllerManager: false, crds: true });
  api = await clientOf(plane);
});

after(async () => {
  await api[Symbol.asyncDispose]();
  await plane.stop();
});

beforeEach(() => {
  [requests, events, warnings, foreign, now, change, report, facts] = [[], [], [], 0, 0, undefined, undefined, {}];
  answered = async () => await Promise.resolve();
  store = new RuleStore<Rule>({ controller: 'test', toRule: (object) => object, versionOf: ruleVersion });
  life = newLife();
});

/** A process with the rules of `store`. */
function newLife(): RuleLife<Rule, Status> {
  const controller: Controller<Rule, Status> = {
    rules: { name: 'test', evaluate: () => undefined, markOn: () => undefined, orphanPolicy: () => 'keep' },
    store,
    kindOf: () => KIND,
    open: () => undefined,
    due: () => change,
    report: (given) => {
      if (given.rule !== undefined) facts = given;
      return report;
    },
  };
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
  return ruleLife(controller, {
    api: recording,
    clock: { now: () => now, monotonic: () => now, setTimeout: () => assert.fail('not used') },
    recordEvent: (component, { subject, reason }) => events.push(`${component} ${subject.name} ${reason}`),
    enqueueStatus: () => void (foreign += 1),
    log: { ...nullLog, warn: (message: string) => warnings.push(message) },
  });
}

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
  store.put(await plane.api.create({ apiVersion: KIND.apiVersion, kind: KIND.kind, metadata }));
  return stored();
}

function stored(): Rule {
  const rule = store.get(KEY);
  assert.ok(rule !== undefined);
  return rule;
}

async function onServer(): Promise<Rule> {
  return await plane.api.get(`${COLLECTION}/x`);
}

/** The store now has an earlier object than the server: another version, or an earlier object of the same name. */
function putEarlier(metadata: Partial<KubeObject['metadata']>): void {
  const { metadata: present, ...rest } = stored();
  store = new RuleStore<Rule>({ controller: 'test', toRule: (object) => object, versionOf: ruleVersion });
  store.put({ ...rest, metadata: { ...present, ...metadata } });
  life = newLife();
}

/** The report after an evaluation of the present version. */
async function tell(
  next: Report<Status> | undefined,
  claims: readonly Entry[] = [],
  failure?: Cause,
): Promise<number | undefined> {
  report = next;
  const progress = { writes: 0, undeleted: [], evaluated: store.version(KEY), failure };
  return (await life.report(KEY, claims, progress, signal))?.requeueAfterMs;
}

function entry(outcome: Outcome): Entry {
  const owner = { key: KEY, title: 'x', rank: '' };
  const shape = new LeaveShape(userCause('Reason', 'message'));
  return { target: TARGET, claim: { owner, mode: 'release', source: undefined, shape }, outcome };
}

describe('what is due', () => {
  it('the finalizer is written by one request, in place of those that it replaces; those of other clients stay', async () => {
    await createRule(['example.com/old', 'example.com/other']);
    assert.equal(life.isDue(KEY), false);
    change = { finalizer: 'example.com/a', replaces: ['example.com/old'] };
    assert.equal(life.isDue(KEY), true);
    await life.write(KEY, signal);
    assert.equal(requests.length, 1);
    assert.deepEqual(stored().metadata, (await onServer()).metadata);
    assert.deepEqual(stored().metadata.finalizers, ['example.com/other', 'example.com/a']);
    change = undefined;
    await life.write(KEY, signal);
    assert.equal(requests.length, 1, 'nothing to change');
  });

  it('if another client has changed the object, the write is refused as a conflict', async () => {
    await createRule();
    await plane.api.patch(`${COLLECTION}/x`, { metadata: { finalizers: ['example.com/other'] } });
    change = { finalizer: 'example.com/a' };
    await assert.rejects(life.write(KEY, signal), isConflict);
    assert.deepEqual((await onServer()).metadata.finalizers, ['example.com/other']);
  });

  it('if the object was recreated with the same name, the write is refused, even with the present resourceVersion', async () => {
    const { uid } = (await createRule()).metadata;
    const { metadata } = await createRule();
    putEarlier({ uid });
    change = { finalizer: 'example.com/b' };
    await assert.rejects(life.write(KEY, signal), isInvalid);
    assert.deepEqual((await onServer()).metadata, metadata);
  });

  it('if the object is gone, the write is not an error', async () => {
    await createRule();
    await plane.api.delete(`${COLLECTION}/x`);
    change = { finalizer: 'example.com/a' };
    await life.write(KEY, signal);
    assert.equal(requests.length, 1);
  });

  it('if the list of finalizers is kept in part, the write reads the whole list first', async () => {
    await createRule(['example.com/other']);
    putEarlier({ finalizers: ['…'] });
    change = { finalizer: 'example.com/a' };
    await life.write(KEY, signal);
    assert.deepEqual((await onServer()).metadata.finalizers, ['example.com/other', 'example.com/a']);
  });
});

it('getLive gives the version of the rule on the server; if the rule is gone there, it is gone', async () => {
  await createRule();
  const live = async (): Promise<RuleState> => await life.getLive(KEY, TARGET, signal);
  assert.deepEqual(await live(), { state: 'there', version: store.version(KEY) });
  await plane.api.patch(`${COLLECTION}/x`, { immutable: true });
  const later = await live();
  assert.ok(later.state === 'there' && later.version !== store.version(KEY));
  await plane.api.delete(`${COLLECTION}/x`);
  assert.deepEqual(await live(), { state: 'gone' });
});

describe('the end of a rule', () => {
  it('what is told of a rule that is gone is told only if its object is still there, and is no rule', async () => {
    await createRule();
    let isRule = true;
    store = new RuleStore<Rule>({
      controller: 'test',
      toRule: (object) => (isRule ? object : undefined),
      versionOf: ruleVersion,
    });
    life = newLife();
    const remarks = [{ type: 'Warning', reason: 'RuleRemoved', message: '' }] as const;
    await tell({ remarks });
    assert.deepEqual(events, [], 'it is a rule again');
    isRule = false;
    await tell({ remarks: [] });
    assert.equal(requests.length, 1, 'nothing is told');
    let written = 0;
    const once = { remarks, written: (): undefined => void (written += 1) };
    answered = async () => await Promise.reject(new Error('the answer is lost'));
    await assert.rejects(tell(once));
    assert.equal(written, 0, 'nothing is told yet');
    answered = async () => await Promise.resolve();
    await tell(once);
    assert.deepEqual([events, written], [[`${KEY} x RuleRemoved`], 1]);
    await plane.api.delete(`${COLLECTION}/x`);
    await tell({ remarks });
    assert.equal(events.length, 1, 'it is deleted');
  });

  it('several finalizers are removed by one request; those of other clients stay', async () => {
    await createRule(['example.com/a', 'example.com/other', 'example.com/b']);
    const removeFinalizers = ['example.com/a', 'example.com/b', 'example.com/c'];
    await tell({ removeFinalizers });
    assert.equal(requests.length, 1);
    assert.deepEqual((await onServer()).metadata.finalizers, ['example.com/other']);
    await tell({ removeFinalizers });
    assert.equal(requests.length, 1, 'nothing to remove');
  });

  it('if the stored version is not the present one, the object is read once more; one of the same name stays as it is', async () => {
    await createRule(['example.com/a', 'example.com/b']);
    putEarlier({ resourceVersion: '1' });
    const removeFinalizers = ['example.com/a'];
    await tell({ removeFinalizers });
    assert.deepEqual((await onServer()).metadata.finalizers, ['example.com/b']);
    await createRule(['example.com/a']);
    putEarlier({ resourceVersion: '1', uid: 'earlier' });
    await tell({ removeFinalizers }).catch((error: unknown) => assert.ok(isInvalid(error), String(error)));
    assert.deepEqual((await onServer()).metadata.finalizers, ['example.com/a']);
  });

  it('when the last finalizer of a deleted object is removed, the object is gone, and then the rule', async () => {
    await createRule(['example.com/a']);
    await plane.api.delete(`${COLLECTION}/x`);
    store.put(await onServer());
    const rule = stored();
    await tell({ removeFinalizers: ['example.com/a'] });
    assert.equal(stored(), rule, 'the watch reports the deletion');
    await tell({ removeFinalizers: ['example.com/a'] });
    assert.equal(store.get(KEY), undefined, 'a rule without a watch ends, too');
  });

  it('a report of a deleted rule says what remains; if its status cannot be written, its finalizer goes all the same', async () => {
    await createRule(['example.com/a']);
    await plane.api.delete(`${COLLECTION}/x`);
    store.put(await onServer());
    const invalid = { phase: 1 as unknown as string };
    assert.equal(await tell({ status: invalid, againMs: 60_000 }, [entry(PENDING)]), 5000);
    assert.equal(facts.deletion?.remaining.length, 1);
    assert.deepEqual(warnings.splice(0), ['the status of a rule that is being deleted cannot be written']);
    // The permissions of an original may not include the status: that is no news.
    answered = async () => await Promise.reject(forbidden);
    assert.equal(await tell({ status: { phase: 'A' }, againMs: 60_000 }, [entry(PENDING)]), 5000);
    assert.deepEqual(warnings, []);
    answered = async () => await Promise.resolve();
    assert.equal(await tell({ status: invalid, removeFinalizers: ['example.com/a'] }, []), 5000);
    assert.equal(facts.deletion?.isDone, true);
    await assert.rejects(onServer(), /not found/);
  });
});

it('nothing is reported before the finalizer is there, or of an earlier version; a failure is', async () => {
  await createRule();
  const stale = { writes: 0, undeleted: [], evaluated: 'earlier' };
  report = { status: { phase: 'Synced' } };
  await life.report(KEY, [entry(PENDING)], stale, signal);
  change = { finalizer: 'example.com/a' };
  await tell(report, [entry(PENDING)]);
  assert.deepEqual(facts, {});
  await tell(report, [entry(PENDING)], userCause('Refused', 'no'));
  assert.deepEqual(facts.claims, []);
  assert.equal(requests.length, 1);
});

describe('the status of a rule', () => {
  const warning = (reason: string): RuleEvent => ({ type: 'Warning', reason, message: '' });
  const write = async (status: Status, ...reasons: readonly string[]): Promise<number | undefined> =>
    await tell({ status, events: reasons.map(warning) });

  it('a status is written only if it changes, even if the CRD lacks one of its fields and the server drops this field', async () => {
    await createRule();
    for (const status of [{ phase: 'Synced' }, { phase: 'Synced', unknown: 'dropped' }]) {
      await write(status);
      store.put(await onServer());
      await write(status);
      await write(status);
      assert.deepEqual(facts.previous, status);
    }
    assert.equal(requests.length, 2);
    assert.deepEqual((await onServer()).status, { phase: 'Synced' });
    await createRule();
    await write({});
    assert.deepEqual(facts.previous, {}, 'another object with the same name');
  });

  it('a write replaces the whole earlier status, and is refused if the object was recreated with the same name', async () => {
    const { uid } = (await createRule()).metadata;
    await createRule();
    const version = store.version(KEY);
    await write({ phase: 'Pending', observedGeneration: 1 } as Status);
    await write({ phase: 'Synced' });
    assert.deepEqual((await onServer()).status, { phase: 'Synced' });
    assert.equal(store.version(KEY), version);
    putEarlier({ uid });
    await assert.rejects(write({ phase: 'Failed' }), isInvalid);
    assert.deepEqual((await onServer()).status, { phase: 'Synced' });
    await plane.api.delete(`${COLLECTION}/x`);
    await write({ phase: 'Failed' });
  });

  /** Another client writes a status, and the watch reports it. @returns whether this was noticed */
  async function forged(status: Status | null): Promise<boolean> {
    const earlier = foreign;
    await plane.api.patch(`${COLLECTION}/x/status`, { status });
    store.put(await onServer());
    return foreign > earlier;
  }

  it('if another client changes or removes a status, Keyferry writes it again', async () => {
    await createRule();
    await write({ phase: 'Failed' });
    for (const other of [{ phase: 'Synced' }, null]) {
      const sent = requests.length;
      assert.equal(await forged(other), true);
      await write({ phase: 'Failed' });
      assert.equal(requests.length, sent + 1);
      assert.deepEqual((await onServer()).status, { phase: 'Failed' });
    }
    assert.equal(await forged({ phase: 'Failed' }), false, 'the same status is no change');
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
    const sent = requests.length;
    while (now < 600_000) {
      await forged({ phase: 'Synced' });
      now += (await write({ phase: 'Failed' })) ?? 1000;
    }
    const writes = requests.length - sent;
    assert.ok(writes >= 15 && writes <= 40, `${writes} writes in 10 minutes`);
  });

  it('if the write of a status fails several times, the events of the status are recorded only once', async () => {
    await createRule();
    const invalid = { phase: 1 as unknown as string };
    await assert.rejects(write(invalid, 'A'), isInvalid);
    await assert.rejects(write(invalid, 'A'), isInvalid);
    assert.deepEqual(events, ['test:default/x x A']);
    await write({ phase: 'Failed' }, 'A');
    assert.deepEqual(events, ['test:default/x x A']);
    await write({ phase: 'Synced' });
    await write({ phase: 'Failed' }, 'A');
    assert.deepEqual(events, ['test:default/x x A', 'test:default/x x A'], 'it happened again');
    await assert.rejects(write(invalid, 'A'), isInvalid);
    await createRule();
    await assert.rejects(write(invalid, 'A'), isInvalid);
    assert.equal(events.length, 4, 'a recreated object has events of its own');
  });

  it('if the state of a failed write was over meanwhile, its event is recorded again when the state comes back', async () => {
    await createRule();
    await write({ phase: 'Synced' });
    await assert.rejects(write({ phase: 1 as unknown as string }, 'A'), isInvalid);
    await write({ phase: 'Synced' });
    await write({ phase: 'Failed' }, 'A');
    assert.deepEqual(events, ['test:default/x x A', 'test:default/x x A']);
  });

  it('a remark is recorded once, as long as it is so; not if an earlier process wrote the same status', async () => {
    await createRule();
    const told = async (phase: string, ...reasons: readonly string[]): Promise<string[]> => {
      await tell({ status: { phase }, remarks: reasons.map(warning) });
      return events.splice(0);
    };
    assert.deepEqual(await told('a', 'A'), ['test:default/x x A']);
    assert.deepEqual(await told('b', 'A', 'B'), ['test:default/x x B']);
    assert.deepEqual(await told('b'), []);
    assert.deepEqual(await told('b', 'A'), ['test:default/x x A']);
    life = newLife();
    assert.deepEqual(await told('b', 'A'), [], 'an earlier process recorded it');
    assert.deepEqual(await told('b', 'A', 'B'), ['test:default/x x B']);
  });
});
