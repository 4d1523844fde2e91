/**
 * SyncSecret: at every write of CCM and manager, the connection breaks or the program is killed. Each case creates,
 * changes and deletes a SyncSecret. In each of these three stages, one write of each program fails: either the server
 * does not get it, or the server carries it out and the answer is lost.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';

import { isWrite as isSuccessfulWrite, lineOf } from '../scenarios/syncsecret/requests.ts';
import { syncSecretPath, syncSecretsPath, SyncSecretScene } from '../scenarios/syncsecret/support.ts';
import type { FaultProxy } from '../servers/fault-proxy.ts';
import type { ProxyRequest } from '../servers/fault-rules.ts';
import type { Json } from '../support/api.ts';
import type { Tenant } from '../support/sync-secret-clusters.ts';
import { waitFor } from '../support/wait-for.ts';

type Program = 'ccm' | 'manager';
type Stage = 'made' | 'changed' | 'deleted';
type Moment = 'before' | 'after';

/** A write of a program: the proxy that it passes, its method, and a part of its URL. */
interface Step {
  readonly proxy: 'link' | 'tenantProxy' | 'managerProxy';
  readonly method: string;
  readonly path: RegExp;
}

const PROXIES = { ccm: ['link', 'tenantProxy'], manager: ['managerProxy'] } as const;
const SYNC_SECRETS = /\/syncsecrets\?/;
const SYNC_SECRET = /\/syncsecrets\/[^/?]+(\?|$)/;
const STATUS = /\/syncsecrets\/[^/?]+\/status/;
const SECRETS = /\/secrets\?/;
const SECRET = /\/secrets\/[^/?]+(\?|$)/;

/** All writes of each stage, in order. */
const STEPS: Readonly<Record<Stage, Readonly<Record<Program, readonly Step[]>>>> = {
  made: {
    ccm: [
      { proxy: 'tenantProxy', method: 'PATCH', path: SYNC_SECRET },
      { proxy: 'link', method: 'POST', path: SYNC_SECRETS },
      { proxy: 'tenantProxy', method: 'PATCH', path: STATUS },
    ],
    manager: [
      { proxy: 'managerProxy', method: 'PATCH', path: SYNC_SECRET },
      { proxy: 'managerProxy', method: 'POST', path: SECRETS },
      { proxy: 'managerProxy', method: 'PATCH', path: STATUS },
    ],
  },
  changed: {
    ccm: [
      { proxy: 'link', method: 'PATCH', path: SYNC_SECRET },
      { proxy: 'tenantProxy', method: 'PATCH', path: STATUS },
    ],
    manager: [
      { proxy: 'managerProxy', method: 'PATCH', path: SECRET },
      { proxy: 'managerProxy', method: 'PATCH', path: STATUS },
    ],
  },
  deleted: {
    ccm: [
      { proxy: 'link', method: 'DELETE', path: SYNC_SECRET },
      { proxy: 'tenantProxy', method: 'PATCH', path: SYNC_SECRET },
    ],
    manager: [
      { proxy: 'managerProxy', method: 'DELETE', path: SECRET },
      { proxy: 'managerProxy', method: 'PATCH', path: SYNC_SECRET },
    ],
  },
};
const CASES = [0, 1, 2];
const MOMENTS: readonly Moment[] = ['before', 'after'];
const NAMESPACE = 'written';
/** Phases that a SyncSecret may have for some time, on a slow machine or after a fault. */
const INTERMEDIATE = new Set(['Pending', 'Terminating']);

let scene: SyncSecretScene;
let tenant: Tenant;

before(async () => {
  scene = await SyncSecretScene.open();
  await scene.namespaces(NAMESPACE);
});
beforeEach(async () => ({ tenant } = await scene.kept()));
afterEach(() => scene.clear());
after(() => scene.close());

const proxyOf = (step: Step): FaultProxy => scene.clusters[step.proxy];
const isAt = (step: Step, { method, url }: ProxyRequest): boolean => method === step.method && step.path.test(url);

/** Breaks the connection at the next write of this kind. @returns a function that waits until it is broken */
function cut(step: Step, moment: Moment): () => Promise<void> {
  const match = (request: ProxyRequest): boolean => isAt(step, request);
  const kind = moment === 'before' ? 'cut' : 'lose-answer';
  const rule = proxyOf(step).rule({ match, fault: { kind }, times: 1 });
  return async () => {
    await waitFor(() => rule.hits === 1, { message: () => `${step.method} ${step.path}\n${scene.tail()}` });
  };
}

/**
 * Stalls a program's next write of this kind.
 * @returns a function that waits until the write is stalled, kills the program, and starts it again
 */
function kill(program: Program, step: Step, moment: Moment): () => Promise<void> {
  const proxies = PROXIES[program].map((name) => scene.clusters[name]);
  const from = performance.now();
  let isHalted = false;
  const isStep = (request: ProxyRequest): boolean => !isHalted && isAt(step, request) && (isHalted = true);
  const fault = moment === 'before' ? 'stall' : 'lose-answer';
  const rules = [
    proxyOf(step).rule({ match: isStep, fault: { kind: fault } }),
    ...proxies.map((proxy) =>
      proxy.rule({ match: ({ method }) => isHalted && method !== 'GET', fault: { kind: 'stall' } }),
    ),
  ];
  const isReached = (): boolean =>
    proxyOf(step).requests.some(
      (one) => one.at >= from && one.fault === fault && (moment === 'before' || one.endedAt !== undefined),
    );
  return async () => {
    await waitFor(isReached, { message: () => `${step.method} ${step.path}\n${scene.tail()}` });
    await scene.endKept([program]);
    for (const rule of rules) rule.clear();
    await (program === 'ccm' ? scene.keptCcm() : scene.keptManager());
  };
}

/** How many writes each object needs in a stage, without writes of its status. */
function neededWrites(stage: Stage, copy: Json, secret: Json): Record<string, number> {
  const origin = `syncsecrets ${NAMESPACE}/one`;
  const there = `syncsecrets ${tenant.namespace}/${copy.metadata.name}`;
  const made = `secrets ${tenant.namespace}/${secret.metadata.name}`;
  return {
    made: { [`patch ${origin}`]: 1, [`create ${there}`]: 1, [`patch ${there}`]: 1, [`create ${made}`]: 1 },
    changed: { [`patch ${there}`]: 1, [`patch ${made}`]: 1 },
    deleted: { [`patch ${origin}`]: 1, [`delete ${there}`]: 1, [`patch ${there}`]: 1, [`delete ${made}`]: 1 },
  }[stage];
}

/**
 * Creates, changes and deletes a SyncSecret, and checks the writes of each stage.
 * @param arm prepares a fault. It returns a function that waits until the fault is over
 */
async function live(index: number, arm: (program: Program, step: Step) => () => Promise<void>): Promise<void> {
  const path = syncSecretPath(NAMESPACE, 'one');
  const phases: string[] = [];
  const note = ({ object }: { object: Json }): unknown => phases.push(object.status?.phase);
  await using watches = new AsyncDisposableStack();
  watches.use(await scene.tenantApi.watch(syncSecretsPath(NAMESPACE), note));
  watches.use(await scene.managementApi.watch(syncSecretsPath(tenant.namespace), note));
  let object: Json;
  let chain: Json;
  const actions: Readonly<Record<Stage, () => Promise<unknown>>> = {
    made: async () => (object = await scene.create(NAMESPACE, 'one', { a: 'first' })),
    changed: () => scene.change(scene.tenantApi, object, { a: 'second' }),
    deleted: () => scene.tenantApi.delete(path),
  };
  const checks: Readonly<Record<Stage, () => Promise<unknown>>> = {
    made: async () => (chain = await scene.arrived(tenant, object, { a: 'first' })),
    changed: () => scene.arrived(tenant, object, { a: 'second' }),
    deleted: async () => {
      await scene.gone(scene.tenantApi, object);
      await scene.gone(scene.managementApi, chain.copy, chain.secret);
    },
  };
  for (const stage of ['made', 'changed', 'deleted'] as const) {
    phases.length = 0;
    const later = scene.requests(tenant).fromNow();
    const steps = STEPS[stage];
    const faults = (['ccm', 'manager'] as const).flatMap((program) => {
      const step = steps[program][index];
      return step === undefined ? [] : [arm(program, step)];
    });
    await actions[stage]();
    await Promise.all(faults.map((isOver) => isOver()));
    await checks[stage]();
    if (stage !== 'deleted') await scene.phase(object, 'Synced', { reason: 'Synced' });
    const secrets = await scene.managementApi.list(`/api/v1/namespaces/${tenant.namespace}/secrets`);
    assert.equal(secrets.length, stage === 'deleted' ? 0 : 1, 'one Secret, and no other one');

    const counts: Record<string, number> = {};
    for (const entry of later()) {
      if (!isSuccessfulWrite(entry) || entry.code >= 300) continue;
      counts[lineOf(entry)] = (counts[lineOf(entry)] ?? 0) + 1;
    }
    const needed = neededWrites(stage, chain.copy, chain.secret);
    const statuses = 2 + phases.filter((phase) => INTERMEDIATE.has(phase)).length;
    for (const [line, count] of Object.entries(counts)) {
      const most = line.includes('/status ') ? statuses : (needed[line] ?? 0) + 1;
      assert.ok(count <= most, `${stage}: ${line} was done ${count} times\n${JSON.stringify(phases)}\n${scene.tail()}`);
    }
    for (const line of Object.keys(needed)) assert.ok(counts[line] !== undefined, `${stage}: ${line}`);
  }
}

for (const moment of MOMENTS) {
  const when = moment === 'before' ? 'before it is sent' : 'after it was carried out';
  describe(`a SyncSecret at a fault of a write, ${when}`, () => {
    for (const index of CASES) {
      it(`a SyncSecret is created, changed and deleted although, in each stage, the connection of a write breaks ${when} (case ${index + 1})`, async () => {
        await live(index, (_program, step) => cut(step, moment));
      });

      it(`a SyncSecret is created, changed and deleted although, in each stage, its program is killed at a write ${when} (case ${index + 1})`, async () => {
        await live(index, (program, step) => kill(program, step, moment));
      });
    }
  });
}
