/** Tests leader election on a real API server. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { HttpKubeApi } from '../../../src/kube/http.ts';
import { type LeaderElectorOptions, LeaderElector } from '../../../src/kube/leader-election/elector.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import type { Json } from '../../support/api.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { assertWithin, currentStretch, within, Yardstick } from '../../support/yardstick.ts';
import { kubeApi } from './api.ts';

/** Multiplies all durations on a busy machine, because there every renewal of a Lease takes longer. */
const slower = Math.min(4, Math.ceil(await currentStretch()));
const SHORT = { leaseDurationMs: 3000 * slower, renewDeadlineMs: 2000 * slower, retryMs: 400 };
/** The durations that client-go has by default. */
const DEFAULTS = { leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryMs: 2000 };
const LOST = /^Error: lost leadership/;
const LEASES = '/apis/coordination.k8s.io/v1/namespaces/default/leases';

let plane: ControlPlane;
let api: HttpKubeApi;

before(async () => {
  plane = await startControlPlane({ controllerManager: false });
  api = await kubeApi(plane.kubeconfigPath);
});
after(async () => {
  await api[Symbol.asyncDispose]();
  await plane.stop();
});

/** One replica of the leader election. It runs until `stop`, and records when its work starts and stops. */
class Replica {
  readonly log: string[] = [];
  readonly errors: unknown[] = [];
  readonly reasons: unknown[] = [];
  readonly elector: LeaderElector;
  /** After its abort signal, the work of this replica ends only when this promise settles. */
  drained: Promise<void> = Promise.resolve();
  working = false;
  readonly #stop = new AbortController();
  /** The error that ended the run; `undefined` after a `stop`. */
  failure: unknown;
  readonly #ended: Promise<void>;

  constructor(name: string, identity: string, options: Partial<LeaderElectorOptions> = SHORT) {
    const onError = (error: unknown): void => void this.errors.push(error);
    this.elector = new LeaderElector({ api, namespace: 'default', name, identity, onError, ...DEFAULTS, ...options });
    const running = this.elector.run({
      signal: this.#stop.signal,
      onStartedLeading: async (signal) => {
        this.log.push('started');
        this.working = true;
        await new Promise<void>((resolve) => {
          signal.addEventListener('abort', () => {
            resolve();
          });
        });
        this.reasons.push(signal.reason);
        await this.drained;
        this.working = false;
        this.log.push('stopped');
      },
    });
    this.#ended = running.catch((error: unknown) => {
      this.failure = error;
    });
  }

  async leading(): Promise<void> {
    await waitFor(() => this.working, { intervalMs: 10, message: 'the replica to lead' });
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

const read = (name: string): Promise<Json> => plane.api.get(`${LEASES}/${name}`);

test("while the API server hangs, the leader's work is aborted before its Lease expires; afterwards another replica leads", async () => {
  await using replica = new Replica('hang', 'a');
  await replica.leading();
  using yardstick = new Yardstick();
  await plane.pauseApiServer();
  const begin = performance.now();
  try {
    await waitFor(() => replica.log.includes('stopped'), { intervalMs: 10 });
    // The renew deadline counts in real time. Only the 200 ms above it are scaled by the load of the machine.
    assertWithin(performance.now() - begin - SHORT.renewDeadlineMs, 200, 'the abort', yardstick.worst);
    assert.match(String(replica.reasons[0]), LOST);
    assert.equal(replica.elector.isLeader, false);
  } finally {
    plane.resumeApiServer();
  }
  await waitFor(() => replica.failure !== undefined, { message: 'the run to end' });
  assert.match(String(replica.failure), LOST);
  await using next = new Replica('hang', 'b');
  await next.leading();
  assert.deepEqual(replica.log, ['started', 'stopped']);
  assert.ok(replica.errors.length > 0, 'failed attempts are reported');
});

test('when another holder writes the Lease, the leader aborts its work and does not overwrite the Lease', async () => {
  await using replica = new Replica('stolen', 'a');
  await replica.leading();
  const stolenAt = new Date().toISOString();
  const durationS = 2 * slower;
  await plane.api.patch(`${LEASES}/stolen`, {
    spec: { holderIdentity: 'thief', leaseDurationSeconds: durationS, renewTime: stolenAt.replace('Z', '000Z') },
  });
  const limitMs = 2 * SHORT.retryMs + 200;
  await within(limitMs, 'the next renewal', () => waitFor(() => replica.log.includes('stopped'), { intervalMs: 10 }));
  assert.equal((await read('stolen')).spec.holderIdentity, 'thief');
  assert.equal(replica.elector.leader, 'thief');
  await using next = new Replica('stolen', 'b');
  await next.leading();
  const { acquireTime, leaseTransitions } = (await read('stolen')).spec;
  const heldMs = Date.parse(acquireTime) - Date.parse(stolenAt);
  assert.ok(heldMs >= durationS * 1000 - 10, `the thief had ${heldMs} ms`);
  assert.equal(leaseTransitions, 1);
});

test('if the holder in the Lease is cleared by hand, the leader aborts its work and does not take the Lease again', async () => {
  const drained = Promise.withResolvers<void>();
  await using replica = new Replica('cleared', 'a');
  replica.drained = drained.promise;
  await replica.leading();
  try {
    await plane.api.patch(`${LEASES}/cleared`, { spec: { holderIdentity: '' } });
    await waitFor(() => replica.reasons.length === 1, { intervalMs: 10, message: 'the work to be aborted' });
    assert.match(String(replica.reasons[0]), LOST);
    const isFree = async (): Promise<boolean> => (await read('cleared')).spec.holderIdentity === '';
    await staysTrue(isFree, 3 * SHORT.retryMs, 'the Lease has no holder while the work ends');
  } finally {
    drained.resolve();
  }
  await waitFor(() => replica.failure !== undefined, { intervalMs: 10, message: 'the run to end' });
  assert.match(String(replica.failure), LOST);
  assert.deepEqual(replica.log, ['started', 'stopped']);
  await using next = new Replica('cleared', 'b');
  await next.leading();
});

test('if the Lease is deleted by hand, the leader creates it again and its work continues', async () => {
  await using replica = new Replica('deleted', 'a');
  await replica.leading();
  await plane.api.delete(`${LEASES}/deleted`);
  await waitFor(async () => (await read('deleted')).spec.holderIdentity === 'a');
  assert.deepEqual(replica.log, ['started']);
  assert.deepEqual(replica.errors, []);
});

test('while the API server hangs, a leader and a standby stop within 2.4 s', async () => {
  const leader = new Replica('end', 'a');
  await leader.leading();
  const standby = new Replica('end', 'b');
  await waitFor(() => standby.elector.leader === 'a');
  await plane.pauseApiServer();
  try {
    await within(2400, 'the end', async () => await Promise.all([leader.stop(), standby.stop()]));
  } finally {
    plane.resumeApiServer();
  }
});

test("if the leader's work fails, the leader's run ends with this error and the Lease is released", async () => {
  const failure = new Error('no port');
  const elector = new LeaderElector({
    api,
    namespace: 'default',
    name: 'fails',
    identity: 'a',
    onError: () => undefined,
    ...SHORT,
  });
  const run = elector.run({ signal: new AbortController().signal, onStartedLeading: () => Promise.reject(failure) });
  await assert.rejects(run, failure);
  assert.equal((await read('fails')).spec.holderIdentity ?? '', '');
});
