/**
 * What the benchmark of the generator uses: a real Vault, the stores, and a client in place of External Secrets
 * Operator (ESO). The client has its own user.
 */
import { installEsoCrds } from '../servers/external-secrets.ts';
import { startVault, type VaultServer } from '../servers/vault.ts';
import { BareClient } from './bare-client.ts';
import {
  externalSecret,
  failingPlaces,
  type Place,
  readyPlaces,
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

  /** Starts Vault. Creates the stores, and their tokens. */
  async start(ground: Ground): Promise<void> {
    const { plane, onProgress } = ground;
    onProgress('starting Vault');
    const vault = this.#resources.use(await startVault({ auditLog: true, onProgress }));
    const log = new VaultLog(vault.auditLogPath, POLICY);
    const eso = this.#resources.use(new BareClient({ url: plane.url, caPem: plane.caPem, token: plane.adminToken }));
    this.#started = { ground, vault, log, eso };
    await installEsoCrds(plane);
    await vault.request('PUT', `sys/policies/acl/${POLICY}`, { policy: RULES });
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
    await this.#create(places);
    await eso.run(places.map((place) => statusCall(place, true)));
  }

  /** Creates ExternalSecrets. `fail` makes them fail later. */
  async createFailing(): Promise<void> {
    await this.#create(failingPlaces());
  }

  /**
   * Writes for these ExternalSecrets the status that ESO could not read their values.
   * @returns `at`: the wall clock after the last status; `ms`: how long all statuses took
   */
  async fail(): Promise<{ readonly at: number; readonly ms: number }> {
    const { ms } = await this.#status(false);
    return { at: Date.now(), ms };
  }

  /** Writes for these ExternalSecrets the status that ESO has read their values. */
  async heal(): Promise<void> {
    await this.#status(true);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }

  get #running(): Started {
    if (this.#started === undefined) throw new Error('the work has not been started');
    return this.#started;
  }

  async #create(places: readonly Place[]): Promise<void> {
    await this.#running.ground.plane.api.createMany(places.map(externalSecret), PARALLEL);
  }

  async #status(isReady: boolean): Promise<{ readonly ms: number }> {
    return await this.#running.eso.run(failingPlaces().map((place) => statusCall(place, isReady)));
  }

  async #createStores(namespace: string): Promise<void> {
    const { ground, vault } = this.#running;
    const { auth } = await vault.request('POST', 'auth/token/create-orphan', { policies: [POLICY], ttl: '24h' });
    await ground.plane.api.createMany([tokenSecret(namespace, auth.client_token), store(namespace, vault.addr)]);
  }
}
