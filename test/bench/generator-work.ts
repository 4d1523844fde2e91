/**
 * What the benchmark of the generator uses: a real Vault, the stores, and a client in place of External Secrets
 * Operator (ESO). The client has its own user.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

import { ensureServer } from '../servers/ensure.ts';
import { type EsoVersion, installEsoCrds, onlyV1beta1 } from '../servers/external-secrets.ts';
import { startVault, type VaultServer } from '../servers/vault.ts';
import { BareClient } from './bare-client.ts';
import {
  bareCalls,
  barePlaces,
  externalSecret,
  failingPlaces,
  type Login,
  pathOf,
  type Place,
  readyPlaces,
  roleSecret,
  statusCall,
  store,
  tokenSecret,
} from './generator-load.ts';
import type { Ground } from './system.ts';
import { VaultLog } from './vault-log.ts';
import { targetNamespaces } from './workload.ts';

/** The policy of the generator's tokens. Vault's audit log shows it, so calls of the generator can be counted. */
const POLICY = 'bench-generator';
const RULES = 'path "secret/data/bench/*" { capabilities = ["read", "create", "update"] }';
/** How many requests the benchmark sends at the same time to create objects. */
const PARALLEL = 32;
/** How many values the shell script writes, one after the other. */
export const BY_SCRIPT = 50;

interface Started {
  readonly ground: Ground;
  readonly vault: VaultServer;
  /** Counts the calls of the generator to Vault. */
  readonly log: VaultLog;
  /** The client in place of ESO. */
  readonly eso: BareClient;
}

export class GeneratorWork implements AsyncDisposable {
  readonly #resources = new AsyncDisposableStack();
  #started: Started | undefined;
  #version: EsoVersion = 'v1';

  /** Starts Vault. Creates the stores, and for them tokens and AppRoles. */
  async start(ground: Ground): Promise<void> {
    const { plane, onProgress } = ground;
    onProgress('starting Vault');
    const vault = this.#resources.use(await startVault({ auditLog: true, onProgress }));
    const log = new VaultLog(vault.auditLogPath, POLICY);
    const eso = this.#resources.use(new BareClient({ url: plane.url, caPem: plane.caPem, token: plane.adminToken }));
    this.#started = { ground, vault, log, eso };
    await installEsoCrds(plane);
    await vault.request('PUT', `sys/policies/acl/${POLICY}`, { policy: RULES });
    await vault.request('POST', 'sys/auth/approle', { type: 'approle' });
    for (const namespace of targetNamespaces()) await this.#createStores(namespace);
  }

  /** Counts the calls of the generator to Vault. */
  get log(): VaultLog {
    return this.#running.log;
  }

  /** Creates ready ExternalSecrets with the generator's annotation. Their indices are `from` to `to` - 1. */
  async createReady(from: number, to: number): Promise<void> {
    const { ground, eso } = this.#running;
    const places = readyPlaces(to).slice(from);
    ground.onProgress(`making ${places.length} ready ExternalSecrets`);
    await this.#create(places, 'token');
    await eso.run(places.map((place) => statusCall(place, true, this.#version)));
  }

  /** Creates ExternalSecrets. `fail` makes them fail later. */
  async createFailing(prefix: string, login: Login = 'token'): Promise<void> {
    await this.#create(failingPlaces(prefix), login);
  }

  async removeFailing(prefix: string): Promise<void> {
    const { api } = this.#running.ground.plane;
    await Promise.all(failingPlaces(prefix).map(async (place) => await api.delete(pathOf(place, this.#version))));
  }

  /**
   * Writes for all ExternalSecrets with this prefix the status that ESO could not read their values.
   * @returns `at`: the wall clock after the last status; `ms`: how long all statuses took
   */
  async fail(prefix: string): Promise<{ readonly at: number; readonly ms: number }> {
    const { ms } = await this.#status(prefix, false);
    return { at: Date.now(), ms };
  }

  /** Writes for all ExternalSecrets with this prefix the status that ESO has read their values. */
  async heal(prefix: string): Promise<void> {
    await this.#status(prefix, true);
  }

  /** Replaces ESO's CRDs by CRDs that only serve v1beta1. This version allows the condition `Created`. */
  async useV1beta1(): Promise<void> {
    await installEsoCrds(this.#running.ground.plane, onlyV1beta1, 'v1beta1');
    this.#version = 'v1beta1';
  }

  /** How long the bare client needs for the same calls, to both servers at the same time, ms. No program may run. */
  async bareMs(): Promise<number> {
    const { ground, vault, eso } = this.#running;
    const places = barePlaces();
    await this.#create(places, 'token', false);
    using toVault = new BareClient({ url: vault.addr, caPem: '', token: vault.rootToken });
    const calls = bareCalls(places);
    const times = await Promise.all([toVault.run(calls.vault), eso.run(calls.kube)]);
    await Promise.all(places.map(async (place) => await ground.plane.api.delete(pathOf(place, 'v1'))));
    return Math.max(...times.map(({ ms }) => ms));
  }

  /** How long a script needs to write BY_SCRIPT values with `vault kv put`, one after the other, ms. */
  async scriptMs(): Promise<number> {
    const { vault } = this.#running;
    const command = await ensureServer('vault');
    const env = {
      ...process.env,
      VAULT_ADDR: vault.addr,
      VAULT_TOKEN: vault.rootToken,
      GODEBUG: 'x509negativeserial=1',
    };
    const started = performance.now();
    for (let n = 0; n < BY_SCRIPT; n += 1) {
      await promisify(execFile)(command, ['kv', 'put', `secret/script/${n}`, 'password=x'], { env });
    }
    return performance.now() - started;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }

  get #running(): Started {
    if (this.#started === undefined) throw new Error('the work has not been started');
    return this.#started;
  }

  async #create(places: readonly Place[], login: Login, isOptedIn = true): Promise<void> {
    const objects = places.map((place) => externalSecret(place, login, this.#version, isOptedIn));
    await this.#running.ground.plane.api.createMany(objects, PARALLEL);
  }

  async #status(prefix: string, isReady: boolean): Promise<{ readonly ms: number }> {
    return await this.#running.eso.run(failingPlaces(prefix).map((place) => statusCall(place, isReady, this.#version)));
  }

  async #createStores(namespace: string): Promise<void> {
    const { ground, vault } = this.#running;
    const { auth } = await vault.request('POST', 'auth/token/create-orphan', { policies: [POLICY], ttl: '24h' });
    const role = `auth/approle/role/${namespace}`;
    await vault.request('POST', role, { token_policies: [POLICY], token_ttl: '1h' });
    const { data: id } = await vault.request('GET', `${role}/role-id`);
    const { data: secret } = await vault.request('POST', `${role}/secret-id`, {});
    await ground.plane.api.createMany([
      tokenSecret(namespace, auth.client_token),
      roleSecret(namespace, id.role_id, secret.secret_id),
      store(namespace, 'token', vault.addr),
      store(namespace, 'approle', vault.addr),
    ]);
  }
}
