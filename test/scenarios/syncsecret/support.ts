/**
 * Shared by the scenarios of SyncSecret: two clusters, the programs, and actions of users. A test file opens one scene,
 * and each test uses a tenant of its own. After each test, `clear` removes what is left.
 */
import assert from 'node:assert/strict';

import type { Json, TestApi } from '../../support/api.ts';
import { assertNoCanaries, makeCanary } from '../../support/canary.ts';
import type { PairOptions } from '../../support/cluster-pair.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { SyncSecretClusters } from '../../support/sync-secret-clusters.ts';
import type { ProgramOptions, Tenant } from '../../support/sync-secret-clusters.ts';
import { PATIENCE_MS, waitFor } from '../../support/wait-for.ts';
import { within } from '../../support/yardstick.ts';
import { Requests } from './requests.ts';

export const ORIGINAL_FINALIZER = 'kubelb.k8c.io/cleanup';
/** The label that offers a Secret to the synchronizer. */
export const OFFERED = { 'kubelb.k8c.io/managed-by': 'kubelb' };

/** Flags for a program that copies all labels and annotations, as KubeLB does. */
export const ALL_TRAVEL = { args: ['--propagate-labels=.*', '--propagate-annotations=.*'] };

const API = '/apis/kubelb.k8c.io/v1alpha1';
const OFFERED_SELECTOR = Object.entries(OFFERED)
  .map(([key, value]) => `${key}=${value}`)
  .join(',');

/** The number of requests that `clear` sends at the same time to each cluster. */
const CLEAR_PARALLEL = 8;

/** Selects the Secrets that the manager made. */
const MADE_SELECTOR = 'keyferry.dev/copy=syncsecret';

type Values = Readonly<Record<string, string>>;

export const syncSecretsPath = (namespace: string): string => `${API}/namespaces/${namespace}/syncsecrets`;
export const syncSecretPath = (namespace: string, name: string): string => `${syncSecretsPath(namespace)}/${name}`;
export const secretPath = (namespace: string, name: string): string =>
  `/api/v1/namespaces/${namespace}/secrets/${name}`;
/** The path of an object that the server returned. */
export const pathOf = ({ kind, metadata }: Json): string =>
  kind === 'Secret' ? secretPath(metadata.namespace, metadata.name) : syncSecretPath(metadata.namespace, metadata.name);

/** A program that `clear` lets run. */
interface Kept {
  readonly program: Keyferry;
  readonly options: ProgramOptions;
}

/** The objects in the management cluster that belong to a tenant's SyncSecret. */
export interface Chain {
  /** The SyncSecret in the management cluster. */
  readonly copy: Json;
  /** The Secret in the management cluster. */
  readonly secret: Json;
}

export class SyncSecretScene {
  readonly clusters: SyncSecretClusters;
  /** A client for users of the tenant's cluster. */
  readonly tenantApi: TestApi;
  /** A client for users of the management cluster. */
  readonly managementApi: TestApi;
  /** Text that every value starts with. A test fails if this text appears in a log. */
  readonly canary = makeCanary('value');
  #operators: Keyferry[] = [];
  /** The programs that `clear` lets run. */
  readonly #kept: { tenant?: Tenant; ccm?: Kept; manager?: Kept } = {};
  /** Output of the programs that `clear` has stopped. */
  #outputs: string[] = [];

  private constructor(clusters: SyncSecretClusters) {
    this.clusters = clusters;
    this.tenantApi = clusters.tenantPlane.api;
    this.managementApi = clusters.managementPlane.api;
  }

  /** Starts both clusters. No program runs yet. */
  static async open(options: PairOptions = {}): Promise<SyncSecretScene> {
    return new SyncSecretScene(await SyncSecretClusters.start(options));
  }

  /** Makes a new tenant. Its CCM does not run yet. */
  tenant(name?: string): Promise<Tenant> {
    return this.clusters.addTenant(name);
  }

  /** Starts the CCM of a tenant and waits until it is ready. */
  async ccm(tenant: Tenant, options: ProgramOptions = {}): Promise<Keyferry> {
    return await this.#ready(await this.clusters.ccm(tenant, options));
  }

  /** Starts the manager and waits until it is ready. */
  async manager(options: ProgramOptions = {}): Promise<Keyferry> {
    return await this.#ready(await this.clusters.manager(options));
  }

  /** Starts a manager, and the CCM of a new tenant. @param options of both programs */
  async running(
    options: ProgramOptions = {},
  ): Promise<{ readonly tenant: Tenant; readonly ccm: Keyferry; readonly manager: Keyferry }> {
    const tenant = await this.tenant();
    const [ccm, manager] = await Promise.all([this.ccm(tenant, options), this.manager(options)]);
    return { tenant, ccm, manager };
  }

  /**
   * The same as `running`, but for all tests of a file: `clear` lets these programs run. Only what a test has ended is
   * started again. A start takes a third of a second of processor time, and few tests need a new process.
   */
  async kept(options: ProgramOptions = {}): ReturnType<SyncSecretScene['running']> {
    const [{ tenant, ccm }, manager] = await Promise.all([this.keptCcm(options), this.keptManager(options)]);
    return { tenant, ccm, manager };
  }

  /** The CCM of `kept`. Fails if it runs with other options. */
  async keptCcm(options: ProgramOptions = {}): Promise<{ readonly tenant: Tenant; readonly ccm: Keyferry }> {
    const tenant = (this.#kept.tenant ??= await this.tenant());
    return { tenant, ccm: await this.#keep('ccm', options, () => this.ccm(tenant, options)) };
  }

  /** The manager of `kept`. Fails if it runs with other options. */
  async keptManager(options: ProgramOptions = {}): Promise<Keyferry> {
    return await this.#keep('manager', options, () => this.manager(options));
  }

  async #keep(which: 'ccm' | 'manager', options: ProgramOptions, start: () => Promise<Keyferry>): Promise<Keyferry> {
    const kept = this.#kept[which];
    if (kept?.program.running === true) {
      assert.deepEqual(options, kept.options, `the kept ${which} runs with other options`);
      return kept.program;
    }
    const program = await start();
    this.#kept[which] = { program, options };
    return program;
  }

  /** Ends programs of `kept`. */
  async endKept(which: readonly ('ccm' | 'manager')[] = ['ccm', 'manager']): Promise<void> {
    await Promise.all(which.map(async (one) => await this.#kept[one]?.program.kill9()));
  }

  /** A value with the canary, encoded for the field `data`. */
  value(text: string): string {
    return Buffer.from(`${this.canary}${text}`).toString('base64');
  }

  data(values: Values): Record<string, string> {
    return Object.fromEntries(Object.entries(values).map(([key, text]) => [key, this.value(text)]));
  }

  /** Creates namespaces in the tenant's cluster that do not exist yet. */
  async namespaces(...names: readonly string[]): Promise<void> {
    await this.tenantApi.apply(names.map((name) => ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })));
  }

  /**
   * Creates a SyncSecret whose values start with the canary. `more` can set any field.
   * @param api default: the tenant's cluster
   */
  async create(namespace: string, name: string, values: Values, more: Json = {}, api = this.tenantApi): Promise<Json> {
    return await api.create({
      apiVersion: 'kubelb.k8c.io/v1alpha1',
      kind: 'SyncSecret',
      data: this.data(values),
      ...more,
      metadata: { ...more.metadata, namespace, name },
    });
  }

  /** Replaces the data of a SyncSecret or Secret. @param object as the server returned it */
  async change(api: TestApi, object: Json, values: Values): Promise<Json> {
    return await api.patch(pathOf(object), [{ op: 'add', path: '/data', value: this.data(values) }], 'json');
  }

  /** The copy of a tenant's SyncSecret; `undefined` if there is none. */
  async findCopy(tenant: Tenant, { metadata }: Json): Promise<Json> {
    return await this.managementApi.find(syncSecretPath(tenant.namespace, metadata.uid));
  }

  /** The Secret of a SyncSecret in the management cluster; `undefined` if there is none. */
  async findSecret({ metadata }: Json): Promise<Json> {
    return await this.managementApi.find(secretPath(metadata.namespace, metadata.uid));
  }

  /**
   * Waits until the Secret of a tenant's SyncSecret has exactly these values, which start with the canary.
   * @param limitMs fails if it takes longer, ms on an idle machine
   */
  async arrived(tenant: Tenant, object: Json, values: Values, limitMs?: number): Promise<Chain> {
    const what = `${object.metadata.namespace}/${object.metadata.name}`;
    return await this.holds(what, () => this.findCopy(tenant, object), values, limitMs);
  }

  /** Does the same as `arrived` for a SyncSecret that was created in the management cluster. */
  async made(object: Json, values: Values, limitMs?: number): Promise<Chain> {
    const { namespace, name } = object.metadata;
    return await this.holds(
      `${namespace}/${name}`,
      () => this.managementApi.find(syncSecretPath(namespace, name)),
      values,
      limitMs,
    );
  }

  /**
   * Waits until the Secret of the SyncSecret that `find` returns has exactly these values.
   * @returns copy and Secret; the copy was read after the Secret
   */
  async holds(what: string, find: () => Promise<Json>, values: Values, limitMs?: number): Promise<Chain> {
    const wanted = this.data(values);
    let copy: Json;
    let secret: Json;
    const look = async (): Promise<Chain | false> => {
      copy = await find();
      secret = copy === undefined ? undefined : await this.findSecret(copy);
      if (secret === undefined || !sameData(secret.data ?? {}, wanted)) return false;
      // Read the copy again. The manager writes its finalizer before the Secret, but the first read may not have it
      // yet.
      const latest = await find();
      return latest?.metadata.uid === copy.metadata.uid && { copy: latest, secret };
    };
    const message = (): string =>
      `the Secret of ${what}; copy ${copy === undefined ? 'missing' : JSON.stringify(copy.status ?? 'without status')}, ` +
      `keys in the Secret: ${secret === undefined ? 'no Secret' : Object.keys(secret.data ?? {}).join(', ')}\n${this.tail()}`;
    if (limitMs === undefined) return await waitFor(look, { message });
    return await within(limitMs, what, () => waitFor(look, { timeoutMs: limitMs + PATIENCE_MS, message }));
  }

  /**
   * Waits until the status of a SyncSecret names its present generation and this phase, and its condition Synced has
   * this reason and message.
   * @param api default: the tenant's cluster
   * @returns the SyncSecret
   */
  async phase(
    object: Json,
    phase: string,
    { reason = '', message = /(?:)/, api = this.tenantApi }: { reason?: string; message?: RegExp; api?: TestApi } = {},
  ): Promise<Json> {
    let seen: Json;
    const look = async (): Promise<Json> => {
      seen = await api.get(pathOf(object));
      const condition = seen.status?.conditions?.find(({ type }: Json) => type === 'Synced');
      return (
        seen.status?.phase === phase &&
        seen.status.observedGeneration === seen.metadata.generation &&
        (reason === '' || condition?.reason === reason) &&
        message.test(condition?.message ?? '') &&
        seen
      );
    };
    return await waitFor(look, {
      message: () =>
        `${object.metadata.name} to be ${phase} ${reason} ${message}; it is ${JSON.stringify(seen?.status)}\n${this.tail()}`,
    });
  }

  /** Waits until none of these objects of one cluster exists. */
  async gone(api: TestApi, ...objects: readonly Json[]): Promise<void> {
    for (const object of objects) {
      const path = pathOf(object);
      await waitFor(async () => (await api.find(path)) === undefined, {
        message: () => `${path} to be gone\n${this.tail()}`,
      });
    }
  }

  /** Waits for an event on a SyncSecret or Secret. @param api default: the tenant's cluster */
  async event(object: Json, reason: string, message = /(?:)/, api = this.tenantApi): Promise<Json> {
    const { namespace, name } = object.metadata;
    const fieldSelector = `involvedObject.kind=${object.kind ?? 'SyncSecret'},involvedObject.name=${name}`;
    let seen: Json[] = [];
    return await waitFor(
      async () => {
        seen = await api.list(`/api/v1/namespaces/${namespace}/events`, { fieldSelector });
        return seen.find((one) => one.reason === reason && message.test(one.message));
      },
      {
        message: () =>
          `event ${reason} ${message}; there are ${seen.map((one) => `${one.reason} ${one.message}`).join('; ')}`,
      },
    );
  }

  /** Reads the requests of CCM and manager in both clusters. */
  requests({ user }: Tenant): Requests {
    const { tenantPlane, managementPlane, ccmUser, managerUser } = this.clusters;
    const users = [
      [tenantPlane, ccmUser],
      [managementPlane, user],
      [managementPlane, managerUser],
    ] as const;
    return new Requests(users, () => this.tail());
  }

  /** The last lines of the programs' logs, for messages of failed tests. */
  tail(): string {
    return this.#operators.map(({ output }) => output.trimEnd().split('\n').slice(-8).join('\n')).join('\n---\n');
  }

  /**
   * Stops the programs except those of `kept`, and the faults, and deletes all SyncSecrets, offered Secrets and Secrets
   * of SyncSecrets. For `afterEach`.
   */
  async clear(): Promise<void> {
    const { link, tenantProxy, managerProxy } = this.clusters;
    const { ccm, manager } = this.#kept;
    const ended = this.#operators.filter((one) => !one.running || (one !== ccm?.program && one !== manager?.program));
    await Promise.all(ended.map((operator) => operator.kill9()));
    this.#outputs.push(...ended.map(({ output }) => output));
    this.#operators = this.#operators.filter((operator) => !ended.includes(operator));
    for (const proxy of [link, tenantProxy, managerProxy]) {
      proxy.clearRules();
      proxy.heal();
      await proxy.accept();
      proxy.reset();
    }
    for (const api of [this.tenantApi, this.managementApi]) await clearCluster(api);
  }

  /** Checks that no value leaked, then stops all. */
  async close(): Promise<void> {
    try {
      await this.assertNothingLeaked();
    } finally {
      for (const operator of this.#operators) await operator.kill9();
      await this.clusters.stop();
    }
  }

  /**
   * Checks that no value is in the logs of all programs, or in the metrics, events, metadata and statuses that exist.
   */
  async assertNothingLeaked(): Promise<void> {
    const texts: Record<string, string> = { 'output of stopped programs': this.#outputs.join('\n') };
    for (const [index, operator] of this.#operators.entries()) {
      texts[`output of operator ${index}`] = operator.output;
      if (!operator.running) continue;
      texts[`metrics of operator ${index}`] = await operator.metrics();
      texts[`readiness of operator ${index}`] = (await operator.probe('/readyz?verbose')).text;
    }
    for (const [where, api] of Object.entries({ tenant: this.tenantApi, management: this.managementApi })) {
      texts[`events in ${where}`] = JSON.stringify(await api.list('/api/v1/events'));
      const syncSecrets = await api.list(`${API}/syncsecrets`);
      const secrets = await api.list('/api/v1/secrets');
      texts[`metadata in ${where}`] = JSON.stringify([...syncSecrets, ...secrets].map(({ metadata }) => metadata));
      texts[`statuses in ${where}`] = JSON.stringify(syncSecrets.map(({ status }) => status ?? null));
    }
    assertNoCanaries(texts, { value: this.canary });
  }

  async #ready(operator: Keyferry): Promise<Keyferry> {
    this.#operators.push(operator);
    await operator.ready();
    return operator;
  }
}

/** The fields of an object that belong to Keyferry and are the same in an object that was deleted and created again. */
export function essence({ data, stringData, type, immutable, metadata: meta }: Json): Json {
  const { namespace, name, labels, annotations = {}, ownerReferences, finalizers, deletionTimestamp } = meta;
  const { 'keyferry.dev/source-version': _version, 'keyferry.dev/target': place, ...lasting } = annotations;
  if (place !== undefined) assert.equal(place, `${namespace}/${name}`);
  const owners = ownerReferences?.map(({ uid: _uid, ...owner }: Json) => owner);
  return { data, stringData, type, immutable, labels, annotations: lasting, owners, finalizers, deletionTimestamp };
}

/** A program that goes on may make an object again of what is deleted. So this looks until nothing is left. */
async function clearCluster(api: TestApi): Promise<void> {
  const isClear = async (): Promise<boolean> => {
    let found = 0;
    for (const labelSelector of [OFFERED_SELECTOR, MADE_SELECTOR]) {
      const secrets = await api.list('/api/v1/secrets', { labelSelector });
      await removeAll(api, 'Secret', secrets);
      found += secrets.length;
    }
    const syncSecrets = await api.list(`${API}/syncsecrets`);
    await removeAll(api, 'SyncSecret', syncSecrets);
    return found + syncSecrets.length === 0;
  };
  await waitFor(isClear, { message: 'the objects of the test to be gone' });
}

async function removeAll(api: TestApi, kind: string, objects: readonly Json[]): Promise<void> {
  const rest = objects.values();
  const worker = async (): Promise<void> => {
    for (const object of rest) await remove(api, { ...object, kind });
  };
  await Promise.all(Array.from({ length: CLEAR_PARALLEL }, worker));
}

/** Deletes an object at once, even if it has finalizers. */
async function remove(api: TestApi, object: Json): Promise<void> {
  const path = pathOf(object);
  if (!(await api.delete(path)) || object.metadata.finalizers === undefined) return;
  // A 404 is fine: the object may be gone already.
  await api.raw('PATCH', path, {
    body: { metadata: { finalizers: null } },
    contentType: 'application/merge-patch+json',
  });
}

function sameData(actual: Values, wanted: Values): boolean {
  const keys = Object.keys(wanted);
  return Object.keys(actual).length === keys.length && keys.every((key) => actual[key] === wanted[key]);
}
