/**
 * Runs a real Vault on loopback: initialized, unsealed, and with KV version 2 at `secret/`, as in Vault's development
 * mode.
 *
 * States: running and unsealed ⇄ running and sealed; running ⇄ halted, on the same port; after `stop`, gone. With
 * storage `file`, all data survive a restart. With storage `memory` (the default), a restart makes a new Vault with the
 * same root token: all secrets, mounts, tokens and leases are gone.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';

import { HttpClient } from '../support/http.ts';
import { waitFor } from '../support/wait-for.ts';
import { CertificateAuthority } from './certificates.ts';
import { isOpenBao } from './catalogue.ts';
import { ensureServer } from './ensure.ts';
import { freePort } from './ports.ts';
import { Reaper } from './reaper.ts';
import { ServerProcess } from './server-process.ts';

export interface VaultOptions {
  /** Where Vault keeps its data. Default: `memory`. */
  readonly storage?: 'memory' | 'file';
  /** Whether Vault uses TLS. Default: false. */
  readonly tls?: boolean;
  /** Whether Vault writes an audit log, in which values are replaced by HMACs. Default: false. */
  readonly auditLog?: boolean;
  /** The port. Default: a free port. */
  readonly port?: number;
  /** Fields for Vault's configuration file, in addition to the default ones: `{ default_lease_ttl: '10s' }`. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Gets progress lines while Vault is built. */
  readonly onProgress?: (line: string) => void;
}

/** An answer of Vault, parsed. Tests read its fields without types. */
// oxlint-disable-next-line typescript/no-explicit-any -- a test reads arbitrary fields
export type VaultJson = any;

/** The calls to a Vault server, or to one namespace of the server. */
export type VaultCalls = Pick<VaultServer, 'raw' | 'request'>;

/** Vault answered with a status outside of 200–299. */
export class VaultServerError extends Error {
  override readonly name = 'VaultServerError';
  readonly status: number;

  constructor(method: string, path: string, status: number, body: VaultJson) {
    super(`${method} /v1/${path}: ${status} ${JSON.stringify(body?.errors ?? body)}`);
    this.status = status;
  }
}

const READY_TIMEOUT_MS = 120_000;

export class VaultServer {
  /** Base URL: `http://127.0.0.1:PORT`; with TLS, `https://…`. */
  readonly addr: string;
  /** The CA of Vault's certificate, as PEM; '' without TLS. */
  readonly caPem: string;
  /** The root token. It stays the same in a restart. */
  readonly rootToken: string;
  /** Path of the audit log. The file exists only with the option `auditLog`. */
  readonly auditLogPath: string;
  readonly logFile: string;
  readonly folder: string;
  readonly #options: VaultOptions;
  readonly #http: HttpClient;
  #process: ServerProcess | undefined;
  #unsealKey = '';

  /** Called only by `startVault`. */
  constructor(folder: string, port: number, caPem: string, options: VaultOptions) {
    this.folder = folder;
    this.caPem = caPem;
    this.addr = `${caPem === '' ? 'http' : 'https'}://127.0.0.1:${port}`;
    this.rootToken = `root-${randomBytes(8).toString('hex')}`;
    this.auditLogPath = path.join(folder, 'audit.log');
    this.logFile = path.join(folder, 'vault.log');
    this.#options = options;
    this.#http = new HttpClient(this.addr, caPem === '' ? {} : { caPem });
  }

  /**
   * Sends a request to a path below `/v1/`, and returns the answer with any status: `raw('GET', 'secret/data/app')`.
   * With the token '', it sends no token.
   * @param more further headers
   */
  async raw(
    method: string,
    path: string,
    body?: unknown,
    token = this.rootToken,
    more: Readonly<Record<string, string>> = {},
  ): Promise<{ readonly status: number; readonly body: VaultJson }> {
    const answer = await this.#http.send(`/v1/${path}`, {
      method,
      headers: { ...more, ...(token !== '' && { 'x-vault-token': token }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: answer.status, body: answer.text === '' ? undefined : JSON.parse(answer.text) };
  }

  /** Sends a request to a path below `/v1/`. @throws VaultServerError for a status outside of 200–299 */
  async request(method: string, path: string, body?: unknown, token = this.rootToken): Promise<VaultJson> {
    const answer = await this.raw(method, path, body, token);
    if (answer.status < 200 || answer.status > 299)
      throw new VaultServerError(method, path, answer.status, answer.body);
    return answer.body;
  }

  /**
   * Creates a namespace in OpenBao, with KV version 2 at `secret/`. (Of Vault, only the Enterprise edition has
   * namespaces.)
   * @returns the calls to the namespace
   */
  async createNamespace(path: string): Promise<VaultCalls> {
    const names = path.split('/');
    for (const [depth, name] of names.entries()) {
      await this.request('POST', [...names.slice(0, depth), 'sys/namespaces', name].join('/'));
    }
    const calls: VaultCalls = {
      raw: (method, below, ...rest) => this.raw(method, `${path}/${below}`, ...rest),
      request: (method, below, ...rest) => this.request(method, `${path}/${below}`, ...rest),
    };
    await calls.request('POST', 'sys/mounts/secret', { type: 'kv', options: { version: '2' } });
    await waitUsable(calls);
    return calls;
  }

  /** Starts Vault, if it is not running. Unseals it, except with `unseal: false`. */
  async start(options: { readonly unseal?: boolean } = {}): Promise<void> {
    if (this.#process?.running === true) return;
    const command = await ensureServer('vault', this.#options);
    this.#process = new ServerProcess({
      name: 'vault',
      command,
      args: ['server', `-config=${path.join(this.folder, 'config.json')}`],
      // A library of this Vault contains a certificate with a negative serial number. Newer versions of Go accept such
      // a certificate only with this setting.
      env: { GODEBUG: 'x509negativeserial=1', VAULT_ADDR: this.addr },
      cwd: this.folder,
      logFile: this.logFile,
    });
    await this.#process.ready(async () => [200, 429, 501, 503].includes(await this.#health()), READY_TIMEOUT_MS);
    if (this.#unsealKey === '' || this.#options.storage !== 'file') await this.#initialise();
    else if (options.unseal !== false) await this.unseal();
  }

  /** Sends SIGTERM. `start` starts Vault again. */
  async halt(): Promise<void> {
    await this.#process?.stop();
  }

  /** Sends SIGKILL. `start` starts Vault again. */
  async kill(): Promise<void> {
    await this.#process?.kill();
  }

  /** Kills Vault and starts it again. With storage `memory`, its data are gone. */
  async restart(options: { readonly unseal?: boolean } = {}): Promise<void> {
    await this.kill();
    await this.start(options);
  }

  /** Suspends Vault (SIGSTOP). Connections stay open, but get no answers until `resume`. */
  async pause(): Promise<void> {
    await this.#process?.pause();
  }

  resume(): void {
    this.#process?.resume();
  }

  async seal(): Promise<void> {
    await this.request('PUT', 'sys/seal');
  }

  /** Unseals Vault. Resolves when Vault is active. */
  async unseal(): Promise<void> {
    await this.request('PUT', 'sys/unseal', { key: this.#unsealKey }, '');
    await waitFor(async () => (await this.#health()) === 200, {
      timeoutMs: READY_TIMEOUT_MS,
      message: 'Vault to be active',
    });
  }

  /** Ends Vault and deletes its folder. Further calls do nothing. */
  async stop(): Promise<void> {
    this.#http.close();
    await this.kill();
    await Reaper.shared().removeFolder(this.folder);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #health(): Promise<number> {
    return (await this.raw('GET', 'sys/health', undefined, '')).status;
  }

  async #initialise(): Promise<void> {
    const { keys, root_token: first } = await this.request(
      'PUT',
      'sys/init',
      { secret_shares: 1, secret_threshold: 1 },
      '',
    );
    this.#unsealKey = keys[0];
    await this.unseal();
    await this.request('POST', 'auth/token/create-orphan', { id: this.rootToken, policies: ['root'] }, first);
    await this.request('POST', 'sys/mounts/secret', { type: 'kv', options: { version: '2' } });
    if (this.#options.auditLog === true) {
      await this.request('PUT', 'sys/audit/file', { type: 'file', options: { file_path: this.auditLogPath } });
    }
    await waitUsable(this);
  }
}

/** Waits until `secret/` can be used: a new mount of KV version 2 refuses requests until it is initialized. */
async function waitUsable(calls: VaultCalls): Promise<void> {
  await waitFor(async () => (await calls.raw('GET', 'secret/config')).status === 200, {
    message: 'secret/ to be usable',
  });
}

/**
 * Starts Vault. If Vault is missing, builds it first.
 * @throws Error with the end of Vault's log, if it does not start; ServerUnavailableError if it cannot be built
 */
export async function startVault(options: VaultOptions = {}): Promise<VaultServer> {
  const folder = await Reaper.shared().temporaryFolder('keyferry-vault-');
  const port = options.port ?? (await freePort());
  const caPem = await writeConfig(folder, port, options);
  const vault = new VaultServer(folder, port, caPem, options);
  try {
    await vault.start();
    return vault;
  } catch (error) {
    await vault.stop();
    throw error;
  }
}

/** Writes Vault's configuration. @returns the CA of its certificate, as PEM; '' without TLS */
async function writeConfig(folder: string, port: number, options: VaultOptions): Promise<string> {
  const data = path.join(folder, 'data');
  await mkdir(data);
  let caPem = '';
  let tls: Record<string, unknown> = { tls_disable: true };
  if (options.tls === true) {
    const ca = await CertificateAuthority.create('keyferry-vault-ca');
    const { certPem, keyPem } = await ca.server('vault');
    const [cert, key] = [path.join(folder, 'vault.crt'), path.join(folder, 'vault.key')];
    await Promise.all([writeFile(cert, certPem), writeFile(key, keyPem, { mode: 0o600 })]);
    caPem = ca.certPem;
    tls = { tls_cert_file: cert, tls_key_file: key };
  }
  const config = {
    listener: [{ tcp: { address: `127.0.0.1:${port}`, ...tls } }],
    storage: options.storage === 'file' ? { file: { path: data } } : { inmem: {} },
    api_addr: `${options.tls === true ? 'https' : 'http'}://127.0.0.1:${port}`,
    disable_mlock: true,
    ...(isOpenBao() ? { unsafe_allow_api_audit_creation: true } : {}),
    ...options.config,
  };
  await writeFile(path.join(folder, 'config.json'), JSON.stringify(config, undefined, 2));
  return caPem;
}
