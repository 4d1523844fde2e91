/**
 * A real Kubernetes control plane on loopback: etcd, kube-apiserver and optionally kube-controller-manager.
 *
 * etcd and the API server are the test's own, or borrowed: `npm test` lends the same ones to one test file after another
 * (`lending/lender.ts`), because their start costs more processor time than most tests. The controller manager is always the test's own.
 * The API server is usable when `startControlPlane` resolves: /readyz answers ok and the namespace `default` exists. `stop` ends or returns
 * all servers for good.
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
  /** Namespaces are emptied, garbage is collected and service accounts get their tokens. Default true. */
  readonly controllerManager?: boolean;
  /** More flags of kube-controller-manager. */
  readonly controllerManagerFlags?: readonly string[];
  /**
   * Starts new servers, for `servers` or because the test leaves something that is not in etcd or that the API server forgets late, such as
   * an admission policy. Default false: servers without flags and users may be borrowed.
   */
  readonly own?: boolean;
}

export class ControlPlane {
  readonly url: string;
  readonly caPem: string;
  readonly adminToken: string;
  /** File for the admin, at `url`. */
  readonly kubeconfigPath: string;
  /** Exists only with the option `audit`. */
  readonly auditLogPath: string;
  /** Of the test; if the servers are its own, it holds their files, too. Removed by `stop`. */
  readonly folder: string;
  /** An independent client as admin. */
  readonly api: TestApi;
  readonly #access: ControlPlaneAccess;
  readonly #options: ControlPlaneOptions;
  readonly #source: ControlPlaneServers | Loan;
  #controllerManager: ServerProcess | undefined;

  /** Use `startControlPlane`. */
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

  /** etcd and the API server, to stop and start them. @throws Error if they are borrowed */
  get servers(): ControlPlaneServers {
    if (this.#source instanceof ControlPlaneServers) return this.#source;
    throw new Error('other tests use these servers afterwards: start the control plane with the option `own`');
  }

  /** The token of a user named in the options, or of `admin`. @throws Error for any other. */
  tokenFor(user: string): string {
    return tokenOf(this.#access, user);
  }

  /** A certificate that authenticates this user (CN) with these groups (O). */
  clientCertificate(subject: Subject): Promise<Certificate> {
    return new CertificateAuthority(this.#access.authority).client(subject);
  }

  /** A kubeconfig file in this control plane's folder; by default for the admin at `url`. */
  writeKubeconfig(options: Partial<KubeconfigOptions> = {}): Promise<string> {
    const identity = options.clientCertPem === undefined ? { token: this.adminToken } : {};
    return writeKubeconfigFile(this.folder, { server: this.url, caPem: this.caPem, ...identity, ...options });
  }

  /** An independent client, by default as admin at `url`. Close it. @param options.token instead of the user's */
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

  /** Ends or returns all servers, and removes the folder. Safe to call more than once. */
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
 * Starts or borrows a control plane; missing servers are built first.
 * @throws Error with the end of the log of a server that did not start, ServerUnavailableError if one cannot be built.
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
