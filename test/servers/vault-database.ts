/** Vault's database secrets engine, for the PostgreSQL of the test. */
import type { PostgresServer } from './postgres.ts';
import type { VaultServer } from './vault.ts';

/** The name under which Vault knows the PostgreSQL. */
const CONNECTION = 'main';

/** Mounts the engine at `mount`. It creates users of `database`. @throws VaultServerError */
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
  /** The TTL of a lease until it is renewed: `1h`. */
  readonly ttl: string;
  /** The longest TTL of a lease, with renewals. Default: that of Vault. */
  readonly maxTtl?: string;
}

/** Creates a role. Its credentials are read at `<mount>/creds/<name>`. @throws VaultServerError */
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
