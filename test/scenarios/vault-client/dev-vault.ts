/** A Vault for one test file, with its audit log, and with helpers that act as its administrator. */
import { readJsonLines } from '../../support/json-lines.ts';
import { startVault, type VaultJson, type VaultServer, VaultServerError } from '../../servers/vault.ts';

/** A line of Vault's audit log, with the fields that tests read. */
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
  readonly server: VaultServer;

  private constructor(server: VaultServer) {
    this.server = server;
  }

  static async start(): Promise<DevVault> {
    return new DevVault(await startVault({ auditLog: true }));
  }

  get addr(): string {
    return this.server.addr;
  }

  get rootToken(): string {
    return this.server.rootToken;
  }

  /** Calls Vault as root or with `token`. @throws Error for any status except 200–299 and 404 */
  async call(method: string, to: string, body?: unknown, token = this.rootToken): Promise<VaultJson> {
    const { status, body: answer } = await this.server.raw(method, to, body, token);
    if ((status < 200 || status > 299) && status !== 404) throw new VaultServerError(method, to, status, answer);
    return answer;
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

  /** Creates a role of the AppRole method, with one secret id. */
  async appRole(name: string, settings: unknown, mount = 'approle'): Promise<AppRole> {
    const mounted = await this.read('sys/auth');
    if (mounted.data[`${mount}/`] === undefined) await this.write(`sys/auth/${mount}`, { type: 'approle' });
    await this.write(`auth/${mount}/role/${name}`, settings);
    const role = await this.read(`auth/${mount}/role/${name}/role-id`);
    const secret = await this.write(`auth/${mount}/role/${name}/secret-id`, {});
    return { roleId: role.data.role_id, secretId: secret.data.secret_id };
  }

  /** Finished logins and calls in Vault's audit log, in order. Calls with a token that root created are left out. */
  audited(): readonly AuditedCall[] {
    return readJsonLines(this.server.auditLogPath)
      .filter((entry) => entry.type === 'response' && entry.auth?.display_name !== 'token')
      .map((entry) => ({
        operation: entry.request.operation,
        path: entry.request.path,
        failed: entry.error !== undefined,
      }));
  }

  stop(): Promise<void> {
    return this.server.stop();
  }
}
