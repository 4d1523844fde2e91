/** What is told of a SyncSecret that is being deleted, and when its finalizer goes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ruleScope } from '../../../test/support/rule-scope.ts';
import { asKey } from '../../../test/support/keys.ts';
import { userCause } from '../../copy/model/cause.ts';
import { LeaveShape, type Outcome } from '../../copy/model/claim.ts';
import type { Entry } from '../../copy/book/claim-book.ts';
import type { Deletion } from '../../copy/engine/life/deletions.ts';
import { MetricRegistry } from '../../observe/metrics/metric-registry.ts';
import type { ControllerContext } from '../common/context.ts';
import { OWN_FINALIZERS, SYNC_SECRET_FINALIZER } from './api.ts';
import { ManagerRules } from './rules/sync-secret-rule-set.ts';
import { SyncSecretController, type SyncSecretReport } from './sync-secret-rules.ts';

const LIMIT_MS = 60_000;
const refused: Outcome = {
  state: 'error',
  ...userCause('Forbidden', 'admission webhook "secret-hook" denied the request: no', 'a webhook refused it'),
};
const unused = (): never => assert.fail('not used');

/** The shared duties of CCM and manager. */
class TestController extends SyncSecretController {
  readonly rules = new ManagerRules(ruleScope(), { store: this.store, isServed: () => true });
  protected readonly target = 'its copy';
  protected isRule = (): boolean => true;
  open = unused;
  protected reportOn = unused;
}

/** The reports on one SyncSecret that is being deleted, at these times, ms. */
function reports(times: readonly number[], deletion: Partial<Deletion> = {}): (SyncSecretReport | undefined)[] {
  let monotonic = 0;
  const context = {
    engine: { enqueueRule: () => undefined },
    clock: { now: () => 0, monotonic: () => monotonic },
    metrics: { registry: new MetricRegistry() },
  };
  const controller = new TestController('ccm', context as unknown as ControllerContext);
  const deleted = { deletionTimestamp: '2026-11-21T10:00:00Z', finalizers: [SYNC_SECRET_FINALIZER] };
  const metadata = { name: 'x', namespace: 'n', uid: 'u', resourceVersion: '1', creationTimestamp: '', ...deleted };
  controller.store.put({ metadata });
  const key = controller.store.key('n', 'x');
  const rule = controller.store.get(key);
  assert.ok(rule !== undefined);
  const owner = { key, title: 'SyncSecret n/x', rank: '' };
  const shape = new LeaveShape(userCause('Reason', 'message'));
  const claim = { owner, mode: 'release', source: undefined, shape } as const;
  const entry: Entry = { target: asKey('c:SyncSecret/t/u'), claim, outcome: refused };
  return times.map((ms) => {
    monotonic = ms;
    const step = { remaining: [entry], isDone: false, isTimedOut: false, remainingMs: LIMIT_MS - ms, ...deletion };
    const facts = { key, rule, claims: [entry], deletion: step, previous: {}, now: 0, undeleted: [], writes: 0 };
    return controller.report({ ...facts, evaluated: controller.store.version(key) });
  });
}

test('the status and the event of a SyncSecret that is being deleted have the public message, which names no webhook', () => {
  const [first, waiting] = reports([0, 5000]);
  assert.deepEqual(first, { againMs: 1500 });
  const [condition] = waiting?.status?.conditions ?? [];
  assert.equal(condition?.message, 'SyncSecret is being deleted; a webhook refused it');
  const [last] = reports([LIMIT_MS], { isDone: true, isTimedOut: true });
  assert.match(
    last?.events?.[0]?.message ?? '',
    /^the SyncSecret no longer waits .* Last state: a webhook refused it$/,
  );
  assert.deepEqual(last?.removeFinalizers, [...OWN_FINALIZERS]);
});
