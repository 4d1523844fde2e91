/** What the rows of the benchmark use: the control plane, the program that is measured, and the measuring tools. */
import path from 'node:path';
import { startControlPlane, type ControlPlane } from '../servers/control-plane.ts';
import { freePort } from '../servers/ports.ts';
import { startTcpProxy, type TcpProxy } from '../servers/tcp-proxy.ts';
import { readCrds } from '../../scripts/crd/read-crds.ts';
import { BareClient } from './bare-client.ts';
import { CopyTracker } from './copy-tracker.ts';
import type { BenchOptions } from './options.ts';
import { RequestLog } from './request-log.ts';
import { Subject } from './subject.ts';
import type { BenchSystem, Copier, SystemName } from './system.ts';
import { annotatedSystem } from './systems/annotated.ts';
import { mirrorsSystem } from './systems/mirrors.ts';
import { pageSystem } from './systems/page.ts';
import { syncSecretSystem } from './systems/syncsecret.ts';
import { vaultSystem } from './systems/vault.ts';
import { seed } from './workload.ts';

const USER = 'bench-controller';
/** If a program sends no request except watches for this time (ms), its work counts as done. */
const QUIET_MS = 2500;
const POLL_MS = 50;

/** Makes a system by its name. Each run needs a new one, because a system may start servers. */
export const SYSTEMS: Readonly<Record<SystemName, () => BenchSystem>> = {
  'config-syncer': () => annotatedSystem('config-syncer'),
  mirrors: mirrorsSystem,
  mittwald: () => annotatedSystem('mittwald'),
  reflector: () => annotatedSystem('reflector'),
  replicator: () => annotatedSystem('replicator'),
  page: pageSystem,
  syncsecret: syncSecretSystem,
  vault: vaultSystem,
};

export class Environment implements AsyncDisposable {
  readonly options: BenchOptions;
  readonly plane: ControlPlane;
  readonly system: BenchSystem;
  readonly proxy: TcpProxy;
  readonly requests: RequestLog;
  readonly tracker: CopyTracker;
  readonly bare: BareClient;
  #subject: Subject | undefined;
  #kubeconfigPath: string;
  #starts = 0;

  private constructor(
    options: BenchOptions,
    plane: ControlPlane,
    system: BenchSystem,
    proxy: TcpProxy,
    tracker: CopyTracker,
    kubeconfigPath: string,
  ) {
    this.options = options;
    this.plane = plane;
    this.proxy = proxy;
    this.tracker = tracker;
    this.system = system;
    this.requests = new RequestLog(plane.auditLogPath, USER);
    this.bare = new BareClient({ url: proxy.url, caPem: plane.caPem, token: plane.adminToken });
    this.#kubeconfigPath = kubeconfigPath;
  }

  static async prepare(options: BenchOptions, onProgress: (line: string) => void): Promise<Environment> {
    const system = SYSTEMS[options.system]();
    onProgress('starting a control plane');
    const plane = await startControlPlane({
      own: true,
      audit: true,
      users: [{ name: USER, groups: ['system:masters'] }],
      onProgress,
    });
    try {
      const started = performance.now();
      await seed(plane.api, options.unrelated, onProgress);
      onProgress(
        `${options.unrelated} unrelated Secrets made in ${Math.round((performance.now() - started) / 1000)} s`,
      );
      await system.install({ plane, crds: readCrds(), options, onProgress });
      const proxy = await startTcpProxy(plane.url);
      const tracker = await CopyTracker.open(plane.api, system.view);
      const kubeconfigPath = await plane.writeKubeconfig({ server: proxy.url, token: plane.tokenFor(USER) });
      return new Environment(options, plane, system, proxy, tracker, kubeconfigPath);
    } catch (error) {
      await system[Symbol.asyncDispose]?.();
      await plane.stop();
      throw error;
    }
  }

  /** The program that is measured. @throws Error if it is not running */
  get subject(): Subject {
    const subject = this.#subject;
    if (subject?.running !== true) {
      throw new Error(`the program under measurement has ended\n${subject?.logTail() ?? ''}`);
    }
    return subject;
  }

  /** @throws Error: the system has rows of its own, and no rules in this form */
  get copier(): Copier {
    const { copier, name } = this.system;
    if (copier === undefined) throw new Error(`${name} does not copy Secrets between namespaces`);
    return copier;
  }

  /** Starts the program. All counters begin at zero. @param args of Keyferry. Default: those of the system */
  async start(args: readonly string[] = this.system.args): Promise<Subject> {
    await this.stop();
    this.requests.reset();
    this.proxy.reset();
    this.#starts += 1;
    const { controller, nodeOptions } = this.options;
    this.#subject = new Subject({
      command: controller ?? args,
      kubeconfigPath: this.#kubeconfigPath,
      statusPort: await freePort(),
      logFile: path.join(this.plane.folder, `controller-${this.#starts}.log`),
      nodeOptions,
    });
    return this.#subject;
  }

  async stop(): Promise<void> {
    await this.#subject?.[Symbol.asyncDispose]();
    this.#subject = undefined;
  }

  /** Waits until the program has sent no requests for `QUIET_MS`. */
  async settled(): Promise<void> {
    const deadline = performance.now() + this.options.timeoutMs;
    const from = performance.now();
    while (performance.now() - Math.max(from, this.requests.lastCallAt()) < QUIET_MS) {
      if (performance.now() > deadline) throw new Error(`requests had not ceased after ${this.options.timeoutMs} ms`);
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    this.bare[Symbol.dispose]();
    await this.tracker[Symbol.asyncDispose]();
    await this.proxy.stop();
    await this.system[Symbol.asyncDispose]?.();
    await this.plane.stop();
  }
}
