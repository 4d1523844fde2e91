/**
 * A real Kubernetes control plane on loopback: etcd, kube-apiserver, and on request kube-controller-manager.
 *
 * etcd and the API server belong to the test, or are borrowed. `npm test` lends the same servers to one test file after
 * another (`lending/lender.ts`), because their start costs more CPU time than most tests. The controller manager always
 * belongs to the test. When `startControlPlane` resolves, /readyz answers ok and the namespace `default` exists. `stop`
 * ends or returns all servers.
 */
import path from 'node:path';

import { TestApi } from '../support/api.ts';
import { CertificateAuthority, type Certificate, type Subject } from './certificates.ts';
import { controllerManagerArgs } from './control-plane-args.ts';
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
import { Reaper } from './reaper.ts';
import { ServerProcess } from './server-process.ts';

export interface ControlPlaneOptions extends ControlPlaneServersOptions {
  /**
   * Whether a controller manager runs: it empties namespaces, collects garbage, and creates ServiceAccounts. Default:
   * true.
   */
  readonly controllerManager?: boolean;
  /** Flags of kube-controller-manager, besides the default ones. */
  readonly controllerManagerFlags?: readonly string[];
  /**
   * Starts new servers, if the test needs `servers`, or leaves something outside of etcd, or something that the API
   * server forgets late, as an admission policy. Default: false, so servers without flags and users may be borrowed.
   */
  readonly own?: boolean;
}

export class ControlPlane {
  readonly url: string;
  readonly caPem: string;
  readonly adminToken: string;
  /** The path of a kubeconfig for the administrator, with the server `url`. */
  readonly kubeconfigPath: string;
  /** The path of the audit log, which exists only with the option `audit`. */
  readonly auditLogPath: string;
  /** The folder of the test. If the servers are its own, it has their files, too. `stop` removes it. */
  readonly folder: string;
  /** The tests' own client, as administrator. */
  readonly api: TestApi;
  readonly #access: ControlPlaneAccess;
  readonly #options: ControlPlaneOptions;
  readonly #source: ControlPlaneServers | Loan;
  #controllerManager: ServerProcess | undefined;

  /** For `startControlPlane` only. */
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

  /** etcd and API server, for tests that stop and start them. @throws Error if they are borrowed */
  get servers(): ControlPlaneServers {
    if (this.#source instanceof ControlPlaneServers) return this.#source;
    throw new Error('other tests use these servers afterwards: start the control plane with the option `own`');
  }

  /** The token of `admin`, or of a user in the options. @throws Error for another user */
  tokenFor(user: string): string {
    return tokenOf(this.#access, user);
  }

  /** Makes a certificate for this user (CN) with these groups (O). */
  clientCertificate(subject: Subject): Promise<Certificate> {
    return new CertificateAuthority(this.#access.authority).client(subject);
  }

  /** Writes a kubeconfig into the folder of the test; by default for the administrator, with the server `url`. */
  writeKubeconfig(options: Partial<KubeconfigOptions> = {}): Promise<string> {
    const identity = options.clientCertPem === undefined ? { token: this.adminToken } : {};
    return writeKubeconfigFile(this.folder, { server: this.url, caPem: this.caPem, ...identity, ...options });
  }

  /**
   * Opens a client, by default as administrator at `url`. Close it.
   * @param options.token - in place of the user's own
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

  /** Ends or returns all servers, and removes the folder. May be called more than once. */
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
 * Starts or borrows a control plane. Builds missing servers first.
 * @throws Error with the end of a server's log, if it did not start; ServerUnavailableError if one cannot be built
 */
export async function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  const source =
    (isBorrowable(options) ? await borrow(options) : undefined) ?? (await ControlPlaneServers.start(options));
  const isOwn = source instanceof ControlPlaneServers;
  const { layout, authority } = source.access;
  const folder = isOwn ? layout.folder : await Reaper.shared().temporaryFolder('keyferry-borrowed-plane-');
  const [server, token] = [apiServerUrl(source.access), tokenOf(source.access, 'admin')];
  const kubeconfigPath = await writeKubeconfigFile(folder, { server, caPem: authority.certPem, token });
  const plane = new ControlPlane(source, folder, kubeconfigPath, options);
  try {
    if (options.controllerManager ?? true) await plane.startControllerManager();
    return plane;
  } catch (error) {
    await plane.stop();
    throw error;
  }
}

function isBorrowable({ own = false, users = [], apiServerFlags = [] }: ControlPlaneOptions): boolean {
  return !own && users.length === 0 && apiServerFlags.length === 0;
}
