/**
 * etcd and kube-apiserver of one control plane, as processes on loopback.
 *
 * States of each server: running ⇄ stopped, with the same port and (etcd) the same data. `stop` ends both for good and removes their folder.
 */
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';

import { TestApi } from '../support/api.ts';
import { HttpClient } from '../support/http.ts';
import { readMemory } from '../support/process-figures.ts';
import { withBootstrapObjects } from './bootstrap-objects.ts';
import { CertificateAuthority, type Certificate } from './certificates.ts';
import { apiServerArgs, etcdArgs, type Layout } from './control-plane-args.ts';
import { writeControlPlaneFiles, type UserOptions } from './control-plane-files.ts';
import { ensureServer } from './ensure.ts';
import { freePort } from './ports.ts';
import { Reaper } from './reaper.ts';
import { ServerProcess } from './server-process.ts';

export interface ControlPlaneServersOptions {
  /** Every request in the audit log, a JSON line each, without bodies. Default false. */
  readonly audit?: boolean;
  /** Users besides `admin`, each with a token; RBAC objects give them permissions. */
  readonly users?: readonly UserOptions[];
  /** More flags of kube-apiserver: `['--max-requests-inflight=10']`. They override the default ones. */
  readonly apiServerFlags?: readonly string[];
  /** Gets progress lines when a server must be built first. */
  readonly onProgress?: (line: string) => void;
  /** Aborts a running build. */
  readonly signal?: AbortSignal;
}

/** What a process must know of the servers to use them. It can be sent to another process as JSON. */
export interface ControlPlaneAccess {
  readonly layout: Layout;
  /** The authority of all certificates. */
  readonly authority: Certificate;
  /** By the name of the user. */
  readonly tokens: Readonly<Record<string, string>>;
}

const READY_TIMEOUT_MS = 180_000;

/** @throws Error for a user that is not in the options of the control plane */
export function tokenOf({ tokens }: ControlPlaneAccess, user: string): string {
  const token = tokens[user];
  if (token === undefined) throw new Error(`no user "${user}" in the options of this control plane`);
  return token;
}

export function apiServerUrl({ layout }: ControlPlaneAccess): string {
  return `https://127.0.0.1:${layout.apiPort}`;
}

export class ControlPlaneServers {
  readonly access: ControlPlaneAccess;
  readonly #options: ControlPlaneServersOptions;
  readonly #api: TestApi;
  #etcd: ServerProcess | undefined;
  #apiServer: ServerProcess | undefined;

  private constructor(access: ControlPlaneAccess, options: ControlPlaneServersOptions) {
    this.access = access;
    this.#options = options;
    const { certPem: caPem } = access.authority;
    this.#api = new TestApi({ url: apiServerUrl(access), caPem, token: tokenOf(access, 'admin') });
  }

  /** Starts both in a new folder. @throws Error with the end of the log of a server that did not start, ServerUnavailableError */
  static async start(options: ControlPlaneServersOptions = {}): Promise<ControlPlaneServers> {
    const folder = await Reaper.shared().temporaryFolder('keyferry-control-plane-');
    const layout: Layout = {
      folder,
      etcdPort: await freePort(),
      etcdPeerPort: await freePort(),
      apiPort: await freePort(),
      tokensFile: path.join(folder, 'tokens.csv'),
      auditPolicyFile: path.join(folder, 'audit-policy.yaml'),
      auditLog: path.join(folder, 'audit.log'),
      pki: path.join(folder, 'pki'),
    };
    const users = [{ name: 'admin', groups: ['system:masters'] }, ...(options.users ?? [])];
    const tokens = Object.fromEntries(users.map(({ name }) => [name, randomBytes(16).toString('hex')]));
    const authority = await CertificateAuthority.create('keyferry-test-ca');
    await writeControlPlaneFiles(layout, users, tokens, authority);
    // To a file that exists the API server appends, so that a lender can empty the log.
    if (options.audit === true) await writeFile(layout.auditLog, '', { mode: 0o600 });
    const servers = new ControlPlaneServers({ layout, authority: authority.certificate, tokens }, options);
    try {
      await servers.startEtcd();
      await withBootstrapObjects(layout.etcdPort, options, () => servers.startApiServer());
      return servers;
    } catch (error) {
      await servers.stop();
      throw error;
    }
  }

  async startEtcd(): Promise<void> {
    if (this.#etcd?.running === true) return;
    const command = await ensureServer('etcd', this.#options);
    const { layout } = this.access;
    this.#etcd = this.#spawn('etcd', command, etcdArgs(layout));
    using http = new HttpClient(`http://127.0.0.1:${layout.etcdPort}`);
    await this.#etcd.ready(async () => {
      const { text } = await http.send('/health');
      return (JSON.parse(text) as { health: string }).health === 'true';
    }, READY_TIMEOUT_MS);
  }

  /** SIGTERM, and SIGKILL after 2 s: etcd would wait 8 s for the API server to disconnect. The data stay. */
  async stopEtcd(): Promise<void> {
    await this.#etcd?.stop(2_000);
  }

  /** SIGKILL. The data stay: etcd runs without fsync, which is needed only for a power cut. */
  async killEtcd(): Promise<void> {
    await this.#etcd?.kill();
  }

  /** Starts the API server and waits until it is ready. Does nothing if it runs. */
  async startApiServer(): Promise<void> {
    if (this.#apiServer?.running === true) return;
    const command = await ensureServer('kube-apiserver', this.#options);
    const { apiServerFlags = [], audit = false } = this.#options;
    const args = [...apiServerArgs(this.access.layout, audit), ...apiServerFlags];
    this.#apiServer = this.#spawn('kube-apiserver', command, args);
    await this.apiServerReady();
  }

  /** Waits until /readyz answers ok and the namespace `default` exists. */
  async apiServerReady(timeoutMs = READY_TIMEOUT_MS): Promise<void> {
    const probe = async (): Promise<boolean> => {
      const ready = await this.#api.raw('GET', '/readyz', { timeoutMs: 5_000 });
      return ready.status === 200 && (await this.#api.find('/api/v1/namespaces/default')) !== undefined;
    };
    if (this.#apiServer === undefined) throw new Error('kube-apiserver was never started');
    await this.#apiServer.ready(probe, timeoutMs);
  }

  /** SIGTERM: the server ends its watches and waits for requests in flight. */
  async stopApiServer(): Promise<void> {
    await this.#apiServer?.stop();
  }

  /** SIGKILL. */
  async killApiServer(): Promise<void> {
    await this.#apiServer?.kill();
  }

  /** Kills (or with `graceful` stops) and starts it, on the same port; resolves when it is ready. */
  async restartApiServer(options: { readonly graceful?: boolean } = {}): Promise<void> {
    await (options.graceful === true ? this.stopApiServer() : this.killApiServer());
    await this.startApiServer();
  }

  /** SIGSTOP: connections stay open, and no request is answered until `resumeApiServer`. */
  async pauseApiServer(): Promise<void> {
    await this.#apiServer?.pause();
  }

  resumeApiServer(): void {
    this.#apiServer?.resume();
  }

  /** The private memory of the API server while it runs, in bytes. Linux only. */
  async apiServerMemory(): Promise<number> {
    if (this.#apiServer?.pid === undefined) throw new Error('kube-apiserver does not run');
    return (await readMemory(this.#apiServer.pid)).private;
  }

  /** Ends both and removes their folder. Safe to call more than once. */
  async stop(): Promise<void> {
    this.#api.close();
    await Promise.all([this.#apiServer?.kill(), this.#etcd?.kill()]);
    await Reaper.shared().removeFolder(this.access.layout.folder);
  }

  #spawn(name: 'etcd' | 'kube-apiserver', command: string, args: readonly string[]): ServerProcess {
    const { folder } = this.access.layout;
    return new ServerProcess({ name, command, args, logFile: path.join(folder, `${name}.log`), cwd: folder });
  }
}
