/**
 * A Vault in dev mode for one test file, with its audit log, and what the tests ask of it as its administrator.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { ensureServer } from '../../servers/ensure.ts';
import { freePort } from '../../servers/ports.ts';
import { ServerProcess } from '../../servers/server-process.ts';

/** Whatever Vault answers; the tests know what they look for. */
// oxlint-disable-next-line typescript/no-explicit-any
export type VaultJson = any;

const ROOT_TOKEN = 'root';

/** One line of the audit log, as far as tests count. */
export interface AuditedCall {
  readonly operation: string;
  readonly path: string;
  readonly failed: boolean;
}

export interface AppRole {
  readonly roleId: string;
  readonly secretId: string;
}

export class DevVault {
  readonly addr: string;
  readonly #process: ServerProcess;
  readonly #folder: string;

  private constructor(addr: string, process: ServerProcess, folder: string) {
    this.addr = addr;
    this.#process = process;
    this.#folder = folder;
  }

  static async start(): Promise<DevVault> {
    const port = await freePort();
    const addr = `http://127.0.0.1:${port}`;
    const folder = mkdtempSync(path.join(tmpdir(), 'keyferry-vault-'));
    const server = new ServerProcess({
      name: 'vault',
      command: await ensureServer('vault'),
      args: [
        'server',
        '-dev',
        '-dev-no-store-token',
        `-dev-root-token-id=${ROOT_TOKEN}`,
        `-dev-listen-address=127.0.0.1:${port}`,
      ],
      // Vault 1.13 has a root certificate with a negative serial number built in, which newer Go refuses.
      env: { GODEBUG: 'x509negativeserial=1', HOME: folder },
      logFile: path.join(folder, 'vault.log'),
    });
    const vault = new DevVault(addr, server, folder);
    await server.ready(async () => (await fetch(`${addr}/v1/sys/health`)).status === 200, 30_000);
    await vault.write('sys/audit/file', { type: 'file', options: { file_path: vault.#auditFile } });
    return vault;
  }

  get #auditFile(): string {
    return path.join(this.#folder, 'audit.log');
  }

  /** A call as root (or with `token`). @throws Error for anything but 200–299 and 404 */
  async call(method: string, to: string, body?: unknown, token = ROOT_TOKEN): Promise<VaultJson> {
    const response = await fetch(`${this.addr}/v1/${to}`, {
      method,
      headers: { 'x-vault-token': token },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok && response.status !== 404) throw new Error(`${method} ${to}: ${response.status} ${text}`);
    return text === '' ? undefined : JSON.parse(text);
  }

  write(to: string, body: unknown): Promise<VaultJson> {
    return this.call('POST', to, body);
  }

  read(from: string): Promise<VaultJson> {
    return this.call('GET', from);
  }

  policy(name: string, rules: Readonly<Record<string, readonly string[]>>): Promise<unknown> {
    const path = Object.fromEntries(Object.entries(rules).map(([to, capabilities]) => [to, { capabilities }]));
    return this.write(`sys/policies/acl/${name}`, { policy: JSON.stringify({ path }) });
  }

  /** A new role of the AppRole method, with one secret id. */
  async appRole(name: string, settings: unknown, mount = 'approle'): Promise<AppRole> {
    const mounted = await this.read('sys/auth');
    if (mounted.data[`${mount}/`] === undefined) await this.write(`sys/auth/${mount}`, { type: 'approle' });
    await this.write(`auth/${mount}/role/${name}`, settings);
    const role = await this.read(`auth/${mount}/role/${name}/role-id`);
    const secret = await this.write(`auth/${mount}/role/${name}/secret-id`, {});
    return { roleId: role.data.role_id, secretId: secret.data.secret_id };
  }

  /** Finished calls of logins and their tokens, in order; not those of tokens that were made as root. */
  audited(): readonly AuditedCall[] {
    const lines = readFileSync(this.#auditFile, 'utf8').trimEnd().split('\n');
    return lines
      .map((line) => JSON.parse(line))
      .filter((entry) => entry.type === 'response' && entry.auth?.display_name !== 'token')
      .map((entry) => ({
        operation: entry.request.operation,
        path: entry.request.path,
        failed: entry.error !== undefined,
      }));
  }

  auditText(): string {
    return readFileSync(this.#auditFile, 'utf8');
  }

  pause(): void {
    this.#process.pause();
  }

  resume(): void {
    this.#process.resume();
  }

  async stop(): Promise<void> {
    await this.#process.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Waits until the condition holds. @throws Error naming it after the deadline */
export async function eventually(
  what: string,
  condition: () => boolean | Promise<boolean>,
  ms = 10_000,
): Promise<void> {
  const deadline = performance.now() + ms;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
