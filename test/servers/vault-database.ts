/** Vault's database secrets engine on the test's PostgreSQL. */
import type { PostgresServer } from './postgres.ts';
import type { VaultServer } from './vault.ts';

/** The name of the PostgreSQL in Vault. */
const CONNECTION = 'main';

/** Mounts the engine at `mount`, so that it creates users of `database`. @throws VaultServerError */
export async function mountDatabase(vault: VaultServer, mount: string, database: PostgresServer): Promise<void> {
  await vault.request('POST', `sys/mounts/${mount}`, { type: 'database' });
  await vault.request('POST', `${mount}/config/${CONNECTION}`, {
    plugin_name: 'postgresql-database-plugin',
    allowed_roles: '*',
    connection_url: database.vaultConnectionUrl,
    username: database.user,
    password: database.password,
  });
}

export interface DatabaseRole {
  /** TTL of a lease until its renewal: `1h`. */
  readonly ttl: string;
  /** Maximum TTL of a lease. Default: Vault's. */
  readonly maxTtl?: string;
}

/** Creates a role whose credentials are read at `<mount>/creds/<name>`. @throws VaultServerError */
export async function databaseRole(
  vault: VaultServer,
  mount: string,
  name: string,
  { ttl, maxTtl }: DatabaseRole,
): Promise<void> {
  await vault.request('POST', `${mount}/roles/${name}`, {
    db_name: CONNECTION,
    creation_statements: [`CREATE ROLE "{{name}}" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'`],
    default_ttl: ttl,
    ...(maxTtl === undefined ? {} : { max_ttl: maxTtl }),
  });
}
