/** What the three controllers wait for: the first lists of their watches, and the outcome of a claim. */
import assert from 'node:assert/strict';
import { it, test } from 'node:test';

import { nullLog } from '../../../test/support/null-log.ts';
import { ruleScope } from '../../../test/support/rule-scope.ts';
import type { Cluster } from '../../copy/cluster/cluster.ts';
import { type Outcome, PENDING, SYNCED } from '../../copy/model/claim.ts';
import type { KubeApi, KubeObject } from '../../kube/api.ts';
import { MetricRegistry } from '../../observe/metrics/metric-registry.ts';
import type { ControllerContext } from '../common/context.ts';
import { MANAGED_BY_KUBELB, MANAGED_BY_LABEL, ORIGINAL_FINALIZER } from './api.ts';
import { Ccm } from './ccm.ts';
import { Manager } from './manager.ts';
import { Synchronizer } from './synchronizer.ts';

const { signal } = new AbortController();
/** KubeLB's Secret, which answers each request, too. */
const secret: KubeObject = {
  metadata: {
    name: 'x',
    namespace: 'default',
    uid: 'u',
    resourceVersion: '1',
    creationTimestamp: '',
    labels: { [MANAGED_BY_LABEL]: MANAGED_BY_KUBELB },
    finalizers: [ORIGINAL_FINALIZER],
  },
};

/** A cluster whose watches open in their order; `synced` tells when the first list of one is complete. */
function clusterOf(cluster: string, synced: (watch: number) => Promise<unknown>): Cluster {
  const request: KubeApi['request'] = async () =>
    await Promise.resolve({ status: 200, headers: {}, body: Buffer.from(JSON.stringify(secret)) });
  let watches = 0;
  const watch = (): unknown => ({ synced: synced(watches++) });
  const index = { feed: () => ({ sink: {} }), keys: () => [], find: () => undefined };
  return {
    api: { cluster, stream: () => assert.fail('not used'), request },
    watch,
    watchContents: watch,
    store: () => ({ index }),
    reachability: { cause: undefined, onChange: () => undefined },
    watches: [],
  } as unknown as Cluster;
}

const never = new Promise(() => undefined);

function contextOf(synced: (watch: number) => Promise<unknown>): ControllerContext {
  return {
    engine: { enqueueRule: () => undefined, enqueueStatus: () => undefined, enqueueTargets: () => undefined },
    cluster: clusterOf('c', synced),
    clock: { now: () => 0, monotonic: () => 0 },
    config: { controllers: [], syncsecret: { servedNamespaces: [] } },
    metrics: { registry: new MetricRegistry() },
    log: nullLog,
    scope: ruleScope(),
  } as unknown as ControllerContext;
}

for (const [name, watches, create] of [
  ['the manager', 2, (context: ControllerContext) => new Manager(context)],
  // The start does not wait for the management cluster, which may be down.
  [
    'the CCM',
    1,
    (context: ControllerContext) =>
      new Ccm(
        context,
        clusterOf('m', () => never),
        'tenant-one',
      ),
  ],
  ['the synchronizer', 2, (context: ControllerContext) => new Synchronizer(context)],
] as const) {
  it(`${name} is open only when each watch of its own cluster has its first list`, async () => {
    for (let late = 0; late < watches; late++) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const controller = create(contextOf(async (watch) => await (watch === late ? promise : Promise.resolve())));
      let isOpen = false;
      const opened = controller.open(signal).then(() => (isOpen = true));
      await new Promise((later) => setImmediate(later));
      assert.equal(isOpen, false, `watch ${late}`);
      resolve();
      await opened;
    }
  });
}

test('a Secret loses the finalizer of KubeLB when its claim has an outcome: until then only the finalizer shows whose the SyncSecret is', async () => {
  const synchronizer = new Synchronizer(contextOf(() => never));
  const key = synchronizer.store.key('default', 'x');
  synchronizer.store.put(secret);
  const rule = synchronizer.store.get(key);
  assert.ok(rule !== undefined);
  const [claimed] = synchronizer.rules.evaluate(key)?.claims ?? [];
  assert.ok(claimed !== undefined);
  const removed = (outcome: Outcome | undefined): readonly string[] => {
    const claims = outcome === undefined ? [] : [{ ...claimed, outcome }];
    const facts = { key, rule, claims, writes: 0, undeleted: [], deletion: undefined, previous: {}, now: 0 };
    return synchronizer.report({ ...facts, evaluated: synchronizer.store.version(key) })?.removeFinalizers ?? [];
  };
  assert.deepEqual([removed(undefined), removed(PENDING), removed(SYNCED)], [[], [], [ORIGINAL_FINALIZER]]);
});

test('a SyncSecret gets no data of a Secret that lost its label, although the rule of the Secret is not gone yet', () => {
  const synchronizer = new Synchronizer(contextOf(() => never));
  synchronizer.store.put(secret);
  const [claimed] = synchronizer.rules.evaluate(synchronizer.store.key('default', 'x'))?.claims ?? [];
  const kinds = [secret.metadata.labels ?? {}, {}].map((labels) => {
    const view = { state: 'present', version: '2', labels, annotations: {} } as const;
    return claimed?.claim.shape.desiredState(view, undefined, 0).kind;
  });
  assert.deepEqual(kinds, ['be', 'wait']);
});
