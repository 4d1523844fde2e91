/**
 * A real Kubernetes control plane on loopback: etcd, kube-apiserver, and on request kube-controller-manager.
 *
 * etcd and the API server belong to the test, or the test borrows them. With `npm test`, one test file after the other
 * borrows the same servers (`lending/lender.ts`), because starting them takes more CPU time than most tests. The
 * controller manager always belongs to the test. When `startControlPlane` resolves, /readyz answers ok and the
 * namespace `default` exists. `stop` ends the servers, or returns them.
 */
import path from 'node:path';

import { readCrds } from '../../scripts/crd/read-crds.ts';
import { TestApi } from '../support/api.ts';
import { CertificateAuthority, type Certificate, type Subject } from './certificates.ts';
import { controllerManagerArgs } from './control-plane-args.ts';
import type { UserOptions } from './control-plane-files.ts';
import {
  apiServerUrl,
  type ControlPlaneAccess,
  ControlPlaneServers,
  type ControlPlaneServersOptions,
  tokenOf,
} from './control-plane-servers.ts';
import { ensureServer } from './ensure.ts';
import { type KubeconfigOptions, writeKubeconfigFile } from './kubeconfig.ts';
import { borrow, type Loan } from './lending/borrower.ts';
import { LENT_USERS } from './lending/protocol.ts';
import { Reaper } from './reaper.ts';
import { ServerProcess } from './server-process.ts';
import { resumeProcess, suspendProcess } from './suspend.ts';

export interface ControlPlaneOptions extends ControlPlaneServersOptions {
  /**
   * Whether kube-controller-manager runs. It empties deleted namespaces, collects garbage, and creates ServiceAccounts.
   * Default: true.
   */
  readonly controllerManager?: boolean;
  /** Whether the CRDs of Keyferry are in place from the start. Borrowed servers have them already. Default: false. */
  readonly crds?: boolean;
  /** Flags of kube-controller-manager, in addition to the default ones. */
  readonly controllerManagerFlags?: readonly string[];
  /**
   * Whether the servers must be new. A test needs this if it uses `servers`, writes files of the servers, or leaves
   * objects whose effect lasts after their deletion, such as admission policies. Default: false. The servers may then
   * be borrowed, if the test asks for no flags, and for no users but those of `LENT_USERS`.
   */
  readonly own?: boolean;
}

export class ControlPlane {
  readonly url: string;
  readonly caPem: string;
  readonly adminToken: string;
  /** Path of a kubeconfig for the administrator. It leads to `url`. */
  readonly kubeconfigPath: string;
  /** Path of the audit log. The file exists only with the option `audit`. */
  readonly auditLogPath: string;
  /** A folder for the test, which `stop` deletes. Files of servers that are not borrowed are there, too. */
  readonly folder: string;
  /** A client for the test, as administrator. */
  readonly api: TestApi;
  readonly #access: ControlPlaneAccess;
  readonly #options: ControlPlaneOptions;
  readonly #source: ControlPlaneServers | Loan;
  #controllerManager: ServerProcess | undefined;

  /** Called only by `startControlPlane`. */
  constructor(
    source: ControlPlaneServers | Loan,
    folder: string,
    kubeconfigPath: string,
    options: ControlPlaneOptions,
  ) {
    const { access } = source;
    this.url = apiServerUrl(access);
    this.caPem = access.authority.certPem;
    this.adminToken = tokenOf(access, 'admin');
    this.kubeconfigPath = kubeconfigPath;
    this.auditLogPath = access.layout.auditLog;
    this.folder = folder;
    this.#access = access;
    this.#source = source;
    this.#options = options;
    this.api = this.client();
  }

  /** etcd and API server, for a test that stops and starts them. @throws Error if the test has borrowed them */
  get servers(): ControlPlaneServers {
    if (this.#source instanceof ControlPlaneServers) return this.#source;
    throw new Error('other tests use these servers afterwards: start the control plane with the option `own`');
  }

  /** The token of a user: `admin`, or one in the options. @throws Error if there is no such user */
  tokenFor(user: string): string {
    return tokenOf(this.#access, user);
  }

  /** Issues a client certificate for a user (CN) with groups (O). */
  clientCertificate(subject: Subject): Promise<Certificate> {
    return new CertificateAuthority(this.#access.authority).client(subject);
  }

  /** Writes a kubeconfig into the test's folder. By default it is for the administrator and leads to `url`. */
  writeKubeconfig(options: Partial<KubeconfigOptions> = {}): Promise<string> {
    const identity = options.clientCertPem === undefined ? { token: this.adminToken } : {};
    return writeKubeconfigFile(this.folder, { server: this.url, caPem: this.caPem, ...identity, ...options });
  }

  /**
   * Opens a client. By default it is the administrator's and connects to `url`. The caller must close it.
   * @param options.token - a token in place of that of `options.user`
   */
  client(
    options: { readonly user?: string; readonly token?: string; readonly url?: string; readonly caPem?: string } = {},
  ): TestApi {
    return new TestApi({
      url: options.url ?? this.url,
      caPem: options.caPem ?? this.caPem,
      token: options.token ?? this.tokenFor(options.user ?? 'admin'),
    });
  }

  /** Suspends the API server (SIGSTOP). Connections stay open, but get no answers until `resumeApiServer`. */
  async pauseApiServer(): Promise<void> {
    await suspendProcess(this.#source.apiServerPid);
  }

  resumeApiServer(): void {
    resumeProcess(this.#source.apiServerPid);
  }

  async startControllerManager(): Promise<void> {
    if (this.#controllerManager?.running === true) return;
    const name = 'kube-controller-manager';
    const command = await ensureServer(name, this.#options);
    const args = [
      ...controllerManagerArgs(this.#access.layout, this.kubeconfigPath),
      ...(this.#options.controllerManagerFlags ?? []),
    ];
    const logFile = path.join(this.folder, `${name}.log`);
    this.#controllerManager = new ServerProcess({ name, command, args, logFile, cwd: this.folder });
  }

  async stopControllerManager(): Promise<void> {
    await this.#controllerManager?.kill();
  }

  /** Ends the servers, or returns borrowed ones. Deletes the folder. Further calls do nothing. */
  async stop(): Promise<void> {
    this.api.close();
    await this.#controllerManager?.kill();
    await this.#source.stop();
    await Reaper.shared().removeFolder(this.folder);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

/**
 * Starts or borrows a control plane. If servers are missing, builds them first.
 * @throws Error with the end of the log, if a server does not start; ServerUnavailableError if one cannot be built
 */
export async function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  const source =
    (isBorrowable(options) ? await borrow({ crds: options.crds ?? false }) : undefined) ??
    (await ControlPlaneServers.start(options));
  const isOwn = source instanceof ControlPlaneServers;
  const { layout, authority } = source.access;
  const folder = isOwn ? layout.folder : await Reaper.shared().temporaryFolder('keyferry-borrowed-plane-');
  const [server, token] = [apiServerUrl(source.access), tokenOf(source.access, 'admin')];
  const kubeconfigPath = await writeKubeconfigFile(folder, { server, caPem: authority.certPem, token });
  const plane = new ControlPlane(source, folder, kubeconfigPath, options);
  try {
    if (isOwn && options.crds === true) await plane.api.apply(readCrds());
    if (options.controllerManager ?? true) await plane.startControllerManager();
    return plane;
  } catch (error) {
    await plane.stop();
    throw error;
  }
}

function isBorrowable({ own = false, users = [], apiServerFlags = [] }: ControlPlaneOptions): boolean {
  const isLent = ({ name, groups = [] }: UserOptions): boolean =>
    LENT_USERS.some((lent) => lent.name === name && String(lent.groups ?? []) === String(groups));
  return !own && users.every(isLent) && apiServerFlags.length === 0;
}
