/**
 * Runs etcd and kube-apiserver of one control plane as processes on loopback.
 *
 * States of each server: running ⇄ stopped. A stopped server keeps its port, and etcd its data. After `stop`, both are
 * gone with their folder.
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
  /**
   * Whether the API server writes an audit log: one line of JSON for each request, without the body. Default: false.
   */
  readonly audit?: boolean;
  /** Users, in addition to `admin`, each with a token. They have no permissions until a test creates RBAC objects. */
  readonly users?: readonly UserOptions[];
  /** Flags of kube-apiserver: `['--max-requests-inflight=10']`. They replace default flags with the same name. */
  readonly apiServerFlags?: readonly string[];
  /** Gets progress lines while missing servers are built. */
  readonly onProgress?: (line: string) => void;
  /** Aborts a running build. */
  readonly signal?: AbortSignal;
}

/** What a process must know to use the servers. It can be sent to another process as JSON. */
export interface ControlPlaneAccess {
  readonly layout: Layout;
  /** The CA that signed all certificates. */
  readonly authority: Certificate;
  /** The token of each user, by user name. */
  readonly tokens: Readonly<Record<string, string>>;
}

const READY_TIMEOUT_MS = 180_000;

/** @throws Error if the control plane was started without this user */
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

  /**
   * Starts both servers in a new folder.
   * @throws Error with the end of the log, if a server does not start; ServerUnavailableError if one cannot be built
   */
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
    // The API server appends to an existing file, so the file can be emptied while the server runs.
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

  /**
   * Sends SIGTERM to etcd, and SIGKILL after 2 s. (etcd itself would wait 8 s for the API server.) The data stay.
   */
  async stopEtcd(): Promise<void> {
    await this.#etcd?.stop(2_000);
  }

  /** Kills etcd. The data stay: without fsync, only a power cut would lose some of them. */
  async killEtcd(): Promise<void> {
    await this.#etcd?.kill();
  }

  /** Starts the API server, if it is not running, and waits until it is ready. */
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

  /** Sends SIGTERM to the API server. It then ends its watches and answers the requests that it has begun. */
  async stopApiServer(): Promise<void> {
    await this.#apiServer?.stop();
  }

  /** Kills the API server. */
  async killApiServer(): Promise<void> {
    await this.#apiServer?.kill();
  }

  /**
   * Kills the API server (with `graceful`: stops it) and starts it again on the same port. Resolves when it is ready.
   */
  async restartApiServer(options: { readonly graceful?: boolean } = {}): Promise<void> {
    await (options.graceful === true ? this.stopApiServer() : this.killApiServer());
    await this.startApiServer();
  }

  /** The process id of the API server. @throws Error if the API server was never started */
  get apiServerPid(): number {
    if (this.#apiServer?.pid === undefined) throw new Error('kube-apiserver was never started');
    return this.#apiServer.pid;
  }

  /** The private memory of the API server, bytes. Linux only. @throws Error if the API server does not run */
  async apiServerMemory(): Promise<number> {
    return (await readMemory(this.apiServerPid)).private;
  }

  /** Ends both servers and deletes their folder. Further calls do nothing. */
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
