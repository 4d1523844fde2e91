/** Sets up Vault's database secrets engine, for the PostgreSQL of a test. */
import type { PostgresServer } from './postgres.ts';
import type { VaultServer } from './vault.ts';

/** What Vault calls the connection to PostgreSQL. */
const CONNECTION = 'main';

/** Mounts the engine at `mount`. It creates its users in `database`. @throws VaultServerError */
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
  /** How long a lease lasts without a renewal: `1h`. */
  readonly ttl: string;
  /** How long a lease lasts at most, with renewals. Default: Vault's own default. */
  readonly maxTtl?: string;
}

/** Creates a role. A read of `<mount>/creds/<name>` creates a user for it. @throws VaultServerError */
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
