/**
 * The Vault servers of the demo. Each method of DemoVault is a call that a user could make with `vault`. Servers and
 * data are gone after the demo.
 */
import { startVault, type VaultServer } from '../test/servers/vault.ts';
import { serverRecipe } from '../test/servers/catalogue.ts';
import { took } from './screen.ts';
import type { Stage } from './walk.ts';

/** What the demo prints of a Vault entry: everything except the values. */
export interface EntryLook {
  readonly version: number;
  readonly keys: readonly string[];
}

export class DemoVault {
  readonly server: VaultServer;

  constructor(server: VaultServer) {
    this.server = server;
  }

  get addr(): string {
    return this.server.addr;
  }

  /** Writes an entry below `secret/`. @returns the time of the request, as `performance.now()` */
  async put(name: string, data: Readonly<Record<string, string>>): Promise<number> {
    const startedAt = performance.now();
    await this.server.request('POST', `secret/data/${name}`, { data });
    return startedAt;
  }

  /** Reads version and keys of an entry below `secret/`. @returns `undefined` if there is no such entry */
  async look(name: string): Promise<EntryLook | undefined> {
    const { status, body } = await this.server.raw('GET', `secret/data/${name}`);
    if (status !== 200) return undefined;
    return { version: body.data.metadata.version, keys: Object.keys(body.data.data).toSorted() };
  }

  /**
   * When the latest version of an entry below `secret/` was written (RFC 3339).
   * @returns `undefined` if there is no such entry
   */
  async createdTime(name: string): Promise<string | undefined> {
    const { status, body } = await this.server.raw('GET', `secret/data/${name}`);
    return status === 200 ? body.data.metadata.created_time : undefined;
  }

  /** Creates a token, and a policy with the same name for it. @returns the token */
  async token(name: string, policy: string): Promise<string> {
    await this.server.request('PUT', `sys/policies/acl/${name}`, { policy });
    const { auth } = await this.server.request('POST', 'auth/token/create-orphan', { policies: [name] });
    return auth.client_token;
  }

  /**
   * Creates an AppRole, and a policy with the same name for it.
   * @returns role ID and secret ID, under the keys that a SecretMirror's Secret needs
   */
  async approle(name: string, policy: string): Promise<Readonly<Record<string, string>>> {
    await this.server.request('POST', 'sys/auth/approle', { type: 'approle' });
    await this.server.request('PUT', `sys/policies/acl/${name}`, { policy });
    await this.server.request('POST', `auth/approle/role/${name}`, { token_policies: [name] });
    const role = await this.server.request('GET', `auth/approle/role/${name}/role-id`);
    const secret = await this.server.request('POST', `auth/approle/role/${name}/secret-id`, {});
    return { 'role-id': role.data.role_id, 'secret-id': secret.data.secret_id };
  }
}

/**
 * Starts two local Vault servers. If Vault is not built yet, waits for the build and shows a progress bar.
 * @throws ServerUnavailableError that says what is missing to build Vault
 */
export async function startVaults({ screen, built, resources }: Stage): Promise<readonly [DemoVault, DemoVault]> {
  await built('vault');
  screen.progress('starting Vault');
  const startedAt = performance.now();
  const start = async (): Promise<DemoVault> => new DemoVault(resources.use(await startVault()));
  const both = await Promise.all([start(), start()]);
  const [first, second] = both;
  const time = took(performance.now() - startedAt);
  screen.done(`two Vault servers ${serverRecipe('vault').version}`, `at ${first.addr} and ${second.addr}, ${time}`);
  return both;
}
