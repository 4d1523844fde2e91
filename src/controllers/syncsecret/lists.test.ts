/** A rule is evaluated only after the first lists of its watches. Finalizer and status change only after that. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';

import { asKey } from '../../../test/support/keys.ts';
import { nullLog } from '../../../test/support/null-log.ts';
import { ruleLife } from '../../../test/support/rule-life.ts';
import { ruleScope } from '../../../test/support/rule-scope.ts';
import { stubBackend } from '../../../test/support/stub-backend.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import type { Cluster } from '../../copy/cluster/cluster.ts';
import { Engine } from '../../copy/engine/engine.ts';
import type { Life, RuleLife } from '../../copy/engine/life/rule-life.ts';
import { type Outcome, PENDING, SYNCED } from '../../copy/model/claim.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import type { RuleSet } from '../../copy/model/rule-set.ts';
import type { KubeApi, KubeObject, KubeRequest } from '../../kube/api.ts';
import { MetricRegistry } from '../../observe/metrics/metric-registry.ts';
import type { ControllerContext } from '../common/context.ts';
import { ORIGINAL_FINALIZER, SYNC_SECRET_FINALIZER } from './api.ts';
import { Ccm } from './ccm.ts';
import { Manager } from './manager.ts';
import { PROPAGATED_ANNOTATION } from './rules/marks.ts';
import { CCM_CONTROLLER, MANAGER_CONTROLLER } from './rules/sync-secret-rule-set.ts';
import { SYNCHRONIZER_CONTROLLER } from './rules/synchronizer-rule-set.ts';
import { Synchronizer } from './synchronizer.ts';

const { signal } = new AbortController();
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

/** A server that answers each request with this object. */
function serverOf(object: KubeObject, sent: KubeRequest[] = []): KubeApi {
  const request: KubeApi['request'] = async (call) => {
    sent.push(call);
    return await Promise.resolve({ status: 200, headers: {}, body: Buffer.from(JSON.stringify(object)) });
  };
  return { cluster: 'c', stream: () => assert.fail('not used'), request };
}

/** A cluster whose watches are listed when `synced` settles. */
function clusterOf(api: KubeApi, synced: Promise<unknown>): Cluster {
  const watch = (): unknown => ({ synced });
  const index = { feed: () => ({ sink: {} }), keys: () => [], find: () => undefined };
  const reachability = { cause: undefined, onChange: () => undefined };
  const cluster = { api, watch, watchContents: watch, store: () => ({ index }), reachability, watches: [] };
  return cluster as unknown as Cluster;
}

type Created = Ccm | Manager | Synchronizer;

function create(name: string, api: KubeApi, synced: Promise<unknown> = Promise.resolve()): Created {
  const context = {
    engine: { enqueueRule: () => undefined, enqueueStatus: () => undefined, enqueueTargets: () => undefined },
    cluster: clusterOf(api, synced),
    clock: { now: () => 0, monotonic: () => 0 },
    config: { controllers: [], syncsecret: { servedNamespaces: [] } },
    metrics: { registry: new MetricRegistry() },
    log: nullLog,
    scope: ruleScope(),
  } as unknown as ControllerContext;
  if (name === MANAGER_CONTROLLER) return new Manager(context);
  if (name === SYNCHRONIZER_CONTROLLER) return new Synchronizer(context);
  return new Ccm(context, clusterOf({ ...api, cluster: 'm' }, synced), NAMESPACE);
}

function lifeOf(controller: Created, api: KubeApi): Life & Pick<RuleLife, 'open'> {
  return controller instanceof Synchronizer ? ruleLife(controller, { api }) : ruleLife(controller, { api });
}

/** The report on the rule `default/x`, whose claim has this outcome. */
async function report(
  controller: Created,
  api: KubeApi,
  outcome: Outcome | undefined,
  evaluated?: string,
): Promise<void> {
  const rule = controller.store.key('default', 'x');
  const evaluation = await (controller.rules as RuleSet).evaluate(rule, { ownedBy: () => [] });
  const claims =
    outcome === undefined ? [] : (evaluation?.claims ?? []).map(({ target, claim }) => ({ target, claim, outcome }));
  await lifeOf(controller, api).report(rule, claims, { writes: 0, undeleted: [], evaluated }, signal);
}

describe('no rule is evaluated before the lists that its claims depend on', () => {
  for (const [name, object] of [
    [MANAGER_CONTROLLER, { metadata: { ...syncSecret.metadata, annotations: {} } }],
    [CCM_CONTROLLER, syncSecret],
    [SYNCHRONIZER_CONTROLLER, leftSecret],
  ] as const) {
    it(`${name} evaluates no rule before the first lists of its watches are complete`, async () => {
      const { promise: synced, resolve } = Promise.withResolvers<void>();
      const api = serverOf({ metadata: { ...metadata, uid: 'cluster' } });
      const controller = create(name, api, synced);
      const engine = new Engine({ onError: (_loop, _key, error) => assert.fail(String(error)) });
      for (const backend of ['c', 'm']) engine.backends.add(stubBackend(backend));
      const life = lifeOf(controller, api);
      void life.open(signal);
      controller.store.put(object);
      let isAsked = false;
      const listed: Life['listed'] = async (...args) => {
        isAsked = true;
        await life.listed(...args);
      };
      const rules = controller.rules;
      engine.add({
        rules,
        listed,
        isDue: () => false,
        write: life.write,
        getLive: life.getLive,
        report: async () => await Promise.resolve(undefined),
      });
      const rule: RuleKey = asKey(`${name}:default/x`);
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

test('a Secret keeps the finalizer of KubeLB until the claim from its present version has an outcome', async () => {
  const sentFor = async (outcome: Outcome | undefined, evaluated?: string): Promise<number> => {
    const sent: KubeRequest[] = [];
    const api = serverOf(leftSecret, sent);
    const controller = create(SYNCHRONIZER_CONTROLLER, api);
    controller.store.put(leftSecret);
    const now = controller.store.version(controller.store.key('default', 'x'));
    await report(controller, api, outcome, evaluated === 'now' ? now : evaluated);
    return sent.length;
  };
  assert.equal(await sentFor(undefined), 0);
  assert.equal(await sentFor(SYNCED), 0);
  assert.equal(await sentFor(SYNCED, 'before'), 0);
  assert.equal(await sentFor(undefined, 'now'), 0);
  assert.equal(await sentFor(PENDING, 'now'), 0);
  assert.notEqual(await sentFor(SYNCED, 'now'), 0);
});

test('no status is written for a SyncSecret without the finalizer', async () => {
  for (const [finalizers, reported] of [
    [[SYNC_SECRET_FINALIZER], 1],
    [[], 0],
  ] as const) {
    const sent: KubeRequest[] = [];
    const object = { metadata: { ...metadata, finalizers: [...finalizers], generation: 1 } };
    const api = serverOf(object, sent);
    const controller = create(MANAGER_CONTROLLER, api);
    controller.store.put(object);
    await report(controller, api, SYNCED, controller.store.version(controller.store.key('default', 'x')));
    assert.equal(sent.length, reported);
  }
});
