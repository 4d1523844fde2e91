/**
 * What the benchmark of SyncSecret uses: the tenant cluster, both programs, and the measuring tools for both clusters.
 * The management cluster is the cluster of the environment.
 */
import path from 'node:path';

import { startControlPlane } from '../servers/control-plane.ts';
import type { ControlPlane } from '../servers/control-plane.ts';
import { freePort } from '../servers/ports.ts';
import { startTcpProxy } from '../servers/tcp-proxy.ts';
import type { TcpProxy } from '../servers/tcp-proxy.ts';
import type { TestApi } from '../support/api.ts';
import { serviceAccountUser } from '../support/service-account.ts';
import {
  CCM_ACCOUNT,
  HOME,
  installCcm,
  installManager,
  installTenant,
  MANAGER_ACCOUNT,
} from '../support/sync-secret-install.ts';
import { CopyTracker } from './copy-tracker.ts';
import type { View } from './copy-tracker.ts';
import { RequestLog } from './request-log.ts';
import type { RequestCounts } from './request-log.ts';
import { Subject } from './subject.ts';
import {
  keyOf,
  MANAGEMENT_NAMESPACE,
  originOf,
  pathOf,
  reportedGenerationOf,
  syncSecrets,
  TENANT,
} from './sync-secret-load.ts';
import type { Place } from './sync-secret-load.ts';
import type { Ground } from './system.ts';
import { generationOf, seed } from './workload.ts';

/** If the programs send no request except watches for this time (ms), their work counts as done. */
const QUIET_MS = 2500;
const POLL_MS = 50;
/** How many requests the benchmark sends at the same time. */
const PARALLEL = 32;
const SYNC_SECRETS_PATH = '/apis/kubelb.k8c.io/v1alpha1/syncsecrets';

/** Watches the Secrets in the management cluster. Their key is that of the tenant's SyncSecret. */
export const SECRETS_BY_ORIGIN: View = { path: '/api/v1/secrets', keyOf: originOf, generationOf };
/** Watches the tenant's SyncSecrets. A SyncSecret has a generation as soon as its status reports the generation. */
const REPORTED: View = {
  path: SYNC_SECRETS_PATH,
  keyOf: ({ metadata }) => keyOf(metadata),
  generationOf: reportedGenerationOf,
};

export const PROGRAMS = ['ccm', 'manager'] as const;
export type Program = (typeof PROGRAMS)[number];

/** Before `start`, there is nothing. After `start`, both clusters run, and the rows start and stop the programs. */
export class SyncSecretWork implements AsyncDisposable {
  readonly #resources = new AsyncDisposableStack();
  readonly #logs: RequestLog[] = [];
  readonly #proxies: TcpProxy[] = [];
  #programs: Readonly<Record<Program, Subject>> | undefined;
  #clusters: { readonly tenant: ControlPlane; readonly management: ControlPlane } | undefined;
  #phases: CopyTracker | undefined;
  #kubeconfigs: Readonly<Record<Program | 'link', string>> | undefined;
  #options: Ground['options'] | undefined;
  #starts = 0;

  /** Starts the tenant cluster, and prepares both clusters. */
  async start({ plane: management, crds, options, onProgress }: Ground): Promise<void> {
    this.#options = options;
    onProgress("starting the tenant's control plane");
    const tenant = await startControlPlane({ own: true, audit: true, onProgress });
    this.#resources.defer(() => tenant.stop());
    this.#clusters = { tenant, management };
    await seed(tenant.api, options.unrelated, onProgress);
    for (const plane of [tenant, management]) await plane.api.apply(crds);
    const tokens = [
      await installCcm(tenant),
      await installManager(management),
      await installTenant(management, MANAGEMENT_NAMESPACE),
    ];
    const [ccm = '', manager = '', link = ''] = await Promise.all(
      [tenant, management, management].map((plane, n) => this.#kubeconfig(plane, tokens[n] ?? '')),
    );
    this.#kubeconfigs = { ccm, manager, link };
    this.#logs.push(
      new RequestLog(tenant.auditLogPath, serviceAccountUser(HOME, CCM_ACCOUNT)),
      new RequestLog(management.auditLogPath, serviceAccountUser(MANAGEMENT_NAMESPACE, CCM_ACCOUNT)),
      new RequestLog(management.auditLogPath, serviceAccountUser(HOME, MANAGER_ACCOUNT)),
    );
    this.#phases = this.#resources.use(await CopyTracker.open(tenant.api, REPORTED));
  }

  get tenantApi(): TestApi {
    return this.#started.clusters.tenant.api;
  }

  /** Tracks the tenant's SyncSecrets by the generation that their status reports. */
  get phases(): CopyTracker {
    return this.#started.phases;
  }

  /** One of the running programs. @throws Error if it is not running */
  program(name: Program): Subject {
    const program = this.#programs?.[name];
    if (program?.running !== true) throw new Error(`${name} does not run\n${program?.logTail() ?? ''}`);
    return program;
  }

  /** Starts both programs. All counters begin at zero. */
  async startPrograms(): Promise<void> {
    await this.stopPrograms();
    this.resetCounters();
    this.#starts += 1;
    const { kubeconfigs } = this.#started;
    const [ccmPort, managerPort] = [await freePort(), await freePort()];
    const election = '--enable-leader-election=false';
    const ccm = ['syncsecret-ccm', `--cluster-name=${TENANT}`, `--kubelb-kubeconfig=${kubeconfigs.link}`, election];
    this.#programs = {
      ccm: this.#subject('ccm', ccm, ccmPort),
      manager: this.#subject('manager', ['syncsecret-manager', election], managerPort),
    };
  }

  async stopPrograms(): Promise<void> {
    const programs = this.#programs;
    this.#programs = undefined;
    await Promise.all(PROGRAMS.map(async (name) => await programs?.[name][Symbol.asyncDispose]()));
  }

  resetCounters(): void {
    for (const log of this.#logs) log.reset();
    for (const proxy of this.#proxies) proxy.reset();
  }

  /** The requests of both programs to both clusters, since the counters were set to zero. */
  requests(): RequestCounts {
    const sums = new Map<string, number>();
    for (const log of this.#logs) {
      for (const [what, count] of log.counts()) sums.set(what, (sums.get(what) ?? 0) + count);
    }
    return sums;
  }

  /** The bytes that both programs have read, since the counters were set to zero. */
  bytesRead(): number {
    return this.#proxies.reduce((sum, { counters }) => sum + counters.bytesIn, 0);
  }

  /** The CPU time of both programs together, since their start, s. */
  cpuSeconds(): number {
    return PROGRAMS.reduce((sum, name) => sum + this.program(name).meter.cpuSeconds(), 0);
  }

  /** Waits until the programs have sent no requests for `QUIET_MS`. */
  async settled(): Promise<void> {
    const { timeoutMs } = this.#started.options;
    const from = performance.now();
    const lastCall = (): number => Math.max(from, ...this.#logs.map((log) => log.lastCallAt()));
    while (performance.now() - lastCall() < QUIET_MS) {
      if (performance.now() - from > timeoutMs) throw new Error(`requests had not ceased after ${timeoutMs} ms`);
      for (const name of PROGRAMS) this.program(name);
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  async create(where: readonly Place[], generation: string): Promise<void> {
    await this.tenantApi.createMany(syncSecrets(where, generation), PARALLEL);
  }

  /** Deletes SyncSecrets in the tenant cluster, as a user does. */
  async remove(where: readonly Place[]): Promise<void> {
    await Promise.all(where.map((place) => this.tenantApi.delete(pathOf(place))));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopPrograms();
    await this.#resources.disposeAsync();
  }

  async #kubeconfig(plane: ControlPlane, token: string): Promise<string> {
    const proxy = this.#resources.use(await startTcpProxy(plane.url));
    this.#proxies.push(proxy);
    return await plane.writeKubeconfig({ server: proxy.url, token });
  }

  #subject(name: Program, command: readonly string[], statusPort: number): Subject {
    const { clusters, kubeconfigs, options } = this.#started;
    return new Subject({
      command,
      kubeconfigPath: kubeconfigs[name],
      statusPort,
      logFile: path.join(clusters.tenant.folder, `${name}-${this.#starts}.log`),
      nodeOptions: options.nodeOptions,
    });
  }

  get #started() {
    const [clusters, phases, kubeconfigs, options] = [this.#clusters, this.#phases, this.#kubeconfigs, this.#options];
    if (clusters === undefined || phases === undefined || kubeconfigs === undefined || options === undefined) {
      throw new Error('the second cluster was not started');
    }
    return { clusters, phases, kubeconfigs, options };
  }
}
