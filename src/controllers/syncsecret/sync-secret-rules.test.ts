/** How long a deleted SyncSecret waits for its target, and what its status says meanwhile. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { userCause, type Cause } from '../../copy/model/cause.ts';
import { type Claim, type Outcome, PENDING, RELEASED, LeaveShape } from '../../copy/model/claim.ts';
import type { Entry } from '../../copy/book/claim-book.ts';
import type { RuleLife } from '../../copy/engine/life/rule-life.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue.ts';
import { SYNC_SECRET_FINALIZER } from './api.ts';
import { MetricRegistry } from '../../observe/metrics/metric-registry.ts';
import type { ControllerContext } from '../common/context.ts';
import { ManagerRules } from './rules/sync-secret-rule-set.ts';
import { SyncSecretController } from './sync-secret-rules.ts';
import type { KubeApi, KubeObject } from '../../kube/api.ts';
import { ApiError } from '../../kube/errors.ts';
import { nullLog } from '../../../test/support/null-log.ts';
import { asKey } from '../../../test/support/keys.ts';
import type { ResourceKey, RuleKey } from '../../copy/model/keys.ts';
import { ruleLife } from '../../../test/support/rule-life.ts';
import { ruleScope } from '../../../test/support/rule-scope.ts';
import type { SyncSecretRule } from './rules/rule.ts';

const RULE: RuleKey = asKey('syncsecret-ccm:default/x');
const MARK = 'example.com/mark';
/** Monotonic ms when this process sees the deletion. The time in the object comes from another clock. */
const START = 5000;
const LIMIT_MS = 60_000;
const SOON_MS = 5000;
const LATER_MS = 20_000;

const waiting: Outcome = { state: 'waiting', for: 'target', ...userCause('Terminating', 'a finalizer') };
const refused: Outcome = {
  state: 'error',
  ...userCause('Forbidden', 'admission webhook "secret-hook" denied the request: no', 'a webhook refused it'),
};
const down: Cause = userCause('ClusterUnreachable', 'the cluster management does not answer');
const call = { cluster: 'c', method: 'PATCH', path: '/apis/kubelb.k8c.io/v1alpha1/syncsecrets' };
const forbidden = new ApiError(call, 403, { reason: 'Forbidden', message: 'no', causes: [] });
const signal = new AbortController().signal;

interface Situation {
  readonly finalizers?: readonly string[];
  readonly isDeleted?: boolean;
  readonly isMarked?: boolean;
  readonly unreachable?: Cause;
  /** Every write of a status fails with this error. */
  readonly statusError?: Error;
}

const unused = (): never => assert.fail('not used');

/** A rule set that releases all its rules. */
class ReleasedRules extends ManagerRules {
  override isActive(): boolean {
    return false;
  }
}

/** The shared duties of CCM and manager, with marks and an unreachable cluster that the test sets. */
class TestController extends SyncSecretController {
  readonly rules = new ReleasedRules(ruleScope(), { store: this.store, isServed: () => true });
  protected readonly target = 'its copy';
  marks: readonly string[] = [];
  cause: Cause | undefined;

  protected isRule(): boolean {
    return true;
  }

  protected override marksOf(): readonly string[] {
    return this.marks;
  }

  protected override unreachable(): Cause | undefined {
    return this.cause;
  }

  open = unused;
  protected reportOn = unused;
}

/** One SyncSecret and a clock that the test sets. */
class Scene {
  now = START;
  /** The writes and events of the reconciler, in their order. */
  readonly calls: string[] = [];
  /** Warnings in the log. */
  readonly warnings: string[] = [];
  readonly #controller: TestController;
  readonly #life: RuleLife<SyncSecretRule, object>;
  readonly #object: KubeObject;

  constructor({
    finalizers = [SYNC_SECRET_FINALIZER],
    isDeleted = true,
    isMarked = false,
    unreachable,
    statusError,
  }: Situation = {}) {
    this.#object = {
      metadata: {
        name: 'x',
        namespace: 'default',
        uid: 'u',
        resourceVersion: '1',
        creationTimestamp: '',
        ...(isDeleted ? { deletionTimestamp: '2026-11-21T10:00:00Z' } : {}),
        finalizers,
      },
    };
    const request: KubeApi['request'] = async ({ path, body }) => {
      const patch: unknown = JSON.parse(String(body));
      if (path.endsWith('/status')) {
        const [, { value }] = patch as [object, { value: { phase: string; conditions: [{ message: string }] } }];
        const text = `${value.phase}: ${value.conditions[0].message}`;
        this.calls.push(`status ${statusError === undefined ? text : 'refused'}`);
        if (statusError !== undefined) throw statusError;
      } else {
        const { annotations = {} } = (patch as { metadata: { annotations?: object } }).metadata;
        this.calls.push(['finalizer', ...Object.keys(annotations)].join(' '));
      }
      return await Promise.resolve({ status: 200, body: Buffer.from(JSON.stringify(this.#object)) });
    };
    const clock = { now: () => 0, monotonic: () => this.now, setTimeout: unused };
    const context = { engine: { enqueueRule: () => undefined }, clock, metrics: { registry: new MetricRegistry() } };
    this.#controller = new TestController('ccm', context as unknown as ControllerContext);
    this.#life = ruleLife(this.#controller, {
      api: { cluster: 'c', request, stream: unused },
      clock,
      log: { ...nullLog, warn: (message: string) => this.warnings.push(message) },
      deletionTimeoutMs: LIMIT_MS,
      recordEvent: (_rule, { reason, message }) => this.calls.push(`event ${reason}: ${message}`),
    });
    this.#controller.store.put(this.#object);
    this.#controller.marks = isMarked ? [MARK] : [];
    this.#controller.cause = unreachable;
  }

  async update(...outcomes: readonly Outcome[]): Promise<RunResult | undefined> {
    const owner = { key: RULE, title: 'SyncSecret default/x', rank: '' };
    const shape = new LeaveShape(userCause('Reason', 'message'));
    const target: ResourceKey = asKey('c:SyncSecret/t/u');
    const claim: Claim = { owner, mode: 'release', source: undefined, shape };
    const entries = outcomes.map((outcome): Entry => ({ target, claim, outcome }));
    const progress = { writes: 0, undeleted: [], evaluated: this.#controller.store.version(RULE) };
    return await this.#life.report(RULE, entries, progress, signal);
  }
}

describe('a SyncSecret that is being deleted', () => {
  it('a SyncSecret that is being deleted loses finalizer and marks at once when its copy is gone', async () => {
    const scene = new Scene({ isMarked: true });
    assert.equal(await scene.update(RELEASED), undefined);
    assert.deepEqual(scene.calls, [`finalizer ${MARK}`]);
  });

  it('after some seconds, the status of a SyncSecret that is being deleted says what it waits for; the next check is at the time limit', async () => {
    const scene = new Scene();
    const { requeueAfterMs = LIMIT_MS } = (await scene.update(RELEASED, waiting)) ?? {};
    assert.ok(requeueAfterMs < SOON_MS);
    assert.deepEqual(scene.calls, []);
    scene.now += SOON_MS;
    assert.deepEqual(await scene.update(RELEASED, waiting), { requeueAfterMs: LIMIT_MS - SOON_MS });
    assert.deepEqual(scene.calls, ['status Terminating: SyncSecret is being deleted; a finalizer']);
  });

  it('a SyncSecret that is being deleted loses its finalizer at the time limit, with an event', async () => {
    const scene = new Scene();
    await scene.update(PENDING);
    scene.now += LIMIT_MS;
    assert.equal(await scene.update(PENDING), undefined);
    assert.deepEqual(scene.calls, [
      'event DeletionTimeout: the SyncSecret no longer waits for its copy, which will be deleted when possible.',
      'finalizer',
    ]);
  });

  it('if the management cluster is unreachable, the status of a SyncSecret that is being deleted says so; its time limit stays the same', async () => {
    const scene = new Scene({ unreachable: down });
    await scene.update(PENDING);
    scene.now += SOON_MS;
    assert.deepEqual(await scene.update(PENDING), { requeueAfterMs: LIMIT_MS - SOON_MS });
    assert.deepEqual(scene.calls, [`status Terminating: SyncSecret is being deleted; ${down.message}`]);
  });

  it('the status and the event of a SyncSecret that is being deleted have the public message, which names no webhook', async () => {
    const scene = new Scene();
    for (const ms of [0, SOON_MS, LIMIT_MS]) {
      scene.now += ms;
      await scene.update(refused);
    }
    assert.equal(scene.calls.length, 3);
    assert.match(scene.calls[0] ?? '', /^status Terminating: .*; a webhook refused it$/);
    assert.match(scene.calls[1] ?? '', /Last state: a webhook refused it$/);
  });

  it('if writing the status of a SyncSecret that is being deleted is forbidden, it still loses its finalizer at the time limit', async () => {
    const scene = new Scene({ statusError: forbidden });
    await scene.update(waiting);
    scene.now += SOON_MS;
    const result = await scene.update(waiting);
    assert.ok((result?.requeueAfterMs ?? LIMIT_MS) < LATER_MS);
    scene.now += LIMIT_MS;
    assert.equal(await scene.update(waiting), undefined);
    assert.deepEqual(
      scene.calls.map((call) => call.split(':')[0]),
      ['status refused', 'event DeletionTimeout', 'finalizer'],
    );
    assert.deepEqual(scene.warnings, [], 'the permissions of KubeLB do not include the status');
  });

  it('if writing the status of a SyncSecret that is being deleted fails, but is not forbidden, a warning is logged', async () => {
    const scene = new Scene({ statusError: new Error('the connection was closed') });
    await scene.update(waiting);
    scene.now += SOON_MS;
    await scene.update(waiting);
    assert.deepEqual(scene.warnings, ['the status of a rule that is being deleted cannot be written']);
  });

  it('if a deleted SyncSecret has only the finalizer of another client, its status says that it is being deleted; no event is recorded', async () => {
    const scene = new Scene({ finalizers: ['example.com/other'] });
    await scene.update(waiting);
    assert.deepEqual(scene.calls, ['status Terminating: SyncSecret is being deleted']);
  });
});

it('a SyncSecret that must no longer be copied, but is not deleted, waits for its target without a time limit and without a status', async () => {
  const scene = new Scene({ isDeleted: false, isMarked: true });
  assert.deepEqual(await scene.update(waiting), { requeueAfterMs: LIMIT_MS });
  scene.now += 2 * LIMIT_MS;
  assert.deepEqual(await scene.update(waiting), { requeueAfterMs: LIMIT_MS });
  assert.deepEqual(scene.calls, []);
  await scene.update(RELEASED);
  assert.deepEqual(scene.calls, [`finalizer ${MARK}`]);
});
