/** A rule is evaluated only after the first lists of its watches. Finalizer and status change only after that. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';

import { nullLog } from '../../../test/support/null-log.ts';
import { stubBackend } from '../../../test/support/stub-backend.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { Engine } from '../../copy/engine/engine.ts';
import { type Outcome, PENDING, SYNCED } from '../../copy/model/claim.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import type { Entry } from '../../copy/book/claim-book.ts';
import type { RuleReconciler } from '../../copy/engine/controller.ts';
import type { KubeApi, KubeObject } from '../../kube/api.ts';
import { MetricRegistry } from '../../observe/metrics/metric-registry.ts';
import type { ControllerContext } from '../common/context.ts';
import { ORIGINAL_FINALIZER, SYNC_SECRET_FINALIZER } from './api.ts';
import { CcmReconciler } from './ccm.ts';
import { ManagerReconciler } from './manager.ts';
import { CCM_CONTROLLER, MANAGER_CONTROLLER } from './rules/sync-secret-rule-set.ts';
import { PROPAGATED_ANNOTATION } from './rules/marks.ts';
import { SynchronizerReconciler } from './synchronizer.ts';
import { type SecretRule, secretVersion, SYNCHRONIZER_CONTROLLER } from './rules/synchronizer-rule-set.ts';
import { asKey } from '../../../test/support/keys.ts';
import { ruleScope } from '../../../test/support/rule-scope.ts';

const unused = (): never => assert.fail('not used');
const signal = new AbortController().signal;
const NAMESPACE = 'tenant-one';

const metadata = { name: 'x', namespace: 'default', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
const syncSecret: KubeObject = {
  metadata: {
    ...metadata,
    finalizers: [SYNC_SECRET_FINALIZER],
    annotations: { [PROPAGATED_ANNOTATION]: NAMESPACE },
  },
};
/** A Secret that has KubeLB's finalizer, but lost the label of the synchronizer. */
const leftSecret: KubeObject = { metadata: { ...metadata, finalizers: [ORIGINAL_FINALIZER] } };

const api: KubeApi = { cluster: 'c', request: unused, stream: unused };

interface Situation {
  readonly synced: () => Promise<unknown>;
  readonly api?: KubeApi;
}

/** A context whose engine does nothing. */
function contextOf(its = api): ControllerContext {
  const context = {
    engine: { enqueueRule: () => undefined, enqueueStatus: () => undefined },
    cluster: { api: its },
    clock: { now: () => 0, monotonic: () => 0 },
    config: { deletionTimeoutMs: 0, controllers: [], syncsecret: { servedNamespaces: [] } },
    metrics: { registry: new MetricRegistry() },
    log: nullLog,
    scope: ruleScope(),
    recordEvent: () => undefined,
  };
  return context as unknown as ControllerContext;
}

/** A watch whose list is complete when the test says so. */
function listing(synced: Situation['synced']): { readonly synced: Promise<unknown> } {
  return {
    get synced() {
      return synced();
    },
  };
}

/** Puts the SyncSecret into the store of the reconciler, and adds the watch. */
function withObject<R extends ManagerReconciler | CcmReconciler>(
  reconciler: R,
  object: KubeObject,
  { synced }: Situation,
): R {
  reconciler.watches.add(listing(synced));
  reconciler.store.put(object);
  return reconciler;
}

function synchronizer({ synced, api: its = api }: Situation): {
  readonly reconciler: SynchronizerReconciler;
  readonly rule: RuleKey;
  readonly secret: SecretRule;
} {
  const reconciler = new SynchronizerReconciler(contextOf(its));
  reconciler.watches.add(listing(synced));
  reconciler.secrets.put(leftSecret);
  const rule = reconciler.secrets.key('default', 'x');
  const secret = reconciler.secrets.get(rule);
  assert.ok(secret !== undefined);
  return { reconciler, rule, secret };
}

const RECONCILERS: Readonly<Record<string, (situation: Situation) => RuleReconciler>> = {
  [MANAGER_CONTROLLER]: (situation) => {
    const reconciler = new ManagerReconciler(contextOf(), () => false);
    return withObject(reconciler, { metadata: { ...syncSecret.metadata, annotations: {} } }, situation);
  },
  [CCM_CONTROLLER]: (situation) => {
    const reconciler = new CcmReconciler(contextOf(), {
      name: 'm',
      namespace: NAMESPACE,
      own: { uid: 'cluster' },
      copyOf: () => undefined,
      unreachable: () => undefined,
    });
    return withObject(reconciler, syncSecret, situation);
  },
  [SYNCHRONIZER_CONTROLLER]: (situation) => synchronizer(situation).reconciler,
};

describe('no rule is evaluated before the lists that its claims depend on', () => {
  for (const [controller, create] of Object.entries(RECONCILERS)) {
    it(`${controller} evaluates no rule before the first lists of its watches are complete`, async () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const engine = new Engine({ onError: (_loop, _key, error) => assert.fail(String(error)) });
      for (const name of ['c', 'm']) engine.backends.add(stubBackend(name));
      const reconciler = create({ synced: () => promise });
      let isAsked = false;
      engine.addReconciler({
        rules: reconciler.rules,
        needsPreparation: (one) => reconciler.needsPreparation?.(one) === true,
        getLive: unused,
        updateStatus: async () => await Promise.resolve(undefined),
        listed: async (...args) => {
          isAsked = true;
          await reconciler.listed?.(...args);
        },
      });
      const rule: RuleKey = asKey(`${controller}:default/x`);
      engine.enqueueRule(rule);
      const started = engine.start(signal);
      try {
        await waitFor(() => isAsked, { message: 'the rule to be taken up' });
        await new Promise((later) => setImmediate(later));
        assert.equal(engine.claims.versionOf(rule), undefined);
        resolve();
        await started;
        assert.notEqual(engine.claims.versionOf(rule), undefined);
        assert.equal([...engine.book.of(rule)].length, 1);
      } finally {
        await engine.stop();
      }
    });
  }
});

describe('the finalizer of KubeLB on a Secret that is no longer offered', () => {
  /** The number of requests that a status update sends. */
  async function requests(outcome: Outcome | undefined, evaluated: 'now' | 'before' | 'never'): Promise<number> {
    let sent = 0;
    const counting: KubeApi = {
      ...api,
      request: async ({ path }) => {
        sent += 1;
        const object = { ...leftSecret, metadata: { ...leftSecret.metadata, uid: 'of another Secret' } };
        return await Promise.resolve({
          status: 200,
          headers: {},
          body: Buffer.from(JSON.stringify({ path, ...object })),
        });
      },
    };
    const { reconciler, rule, secret } = synchronizer({ synced: unused, api: counting });
    const evaluation = reconciler.rules.evaluate(rule);
    const claimed = evaluation?.claims[0];
    assert.ok(claimed !== undefined);
    const entries: Entry[] = outcome === undefined ? [] : [{ ...claimed, outcome }];
    const versions = { now: secretVersion(secret), before: 'earlier', never: undefined };
    await reconciler.updateStatus(rule, entries, { writes: 0, undeleted: [], evaluated: versions[evaluated] }, signal);
    return sent;
  }

  it('a Secret keeps the finalizer of KubeLB until the claim from its present version has an outcome', async () => {
    assert.equal(await requests(undefined, 'never'), 0);
    assert.equal(await requests(SYNCED, 'never'), 0);
    assert.equal(await requests(SYNCED, 'before'), 0);
    assert.equal(await requests(undefined, 'now'), 0);
    assert.equal(await requests(PENDING, 'now'), 0);
    assert.notEqual(await requests(SYNCED, 'now'), 0);
  });
});

test('no status is written for a SyncSecret without the finalizer', async () => {
  for (const [finalizers, reported] of [
    [[SYNC_SECRET_FINALIZER], 1],
    [[], 0],
  ] as const) {
    let sent = 0;
    const object = { metadata: { ...metadata, finalizers: [...finalizers], generation: 1 } };
    const its = {
      ...api,
      request: async () => {
        sent += 1;
        return await Promise.resolve({ status: 200, body: Buffer.from(JSON.stringify(object)) });
      },
    };
    const reconciler = withObject(new ManagerReconciler(contextOf(its), () => false), object, { synced: unused });
    const rule = reconciler.store.key('default', 'x');
    const evaluation = reconciler.rules.evaluate(rule);
    const claimed = evaluation?.claims[0];
    assert.ok(claimed !== undefined && evaluation !== undefined);
    const progress = { writes: 0, undeleted: [], evaluated: evaluation.version };
    await reconciler.updateStatus(rule, [{ ...claimed, outcome: SYNCED }], progress, signal);
    assert.equal(sent, reported);
  }
});
