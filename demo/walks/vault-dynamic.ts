/**
 * Shows dynamic credentials from Vault. All copies share one lease. Keyferry renews the lease, and revokes it when the
 * mirror is deleted.
 */
import type { KubeObject } from '../../src/kube/api.ts';
import { errorText } from '../../src/observe/error-fields.ts';
import { findPostgres, type PostgresServer, startPostgres } from '../../test/servers/postgres.ts';
import { databaseRole, mountDatabase } from '../../test/servers/vault-database.ts';
import { took } from '../screen.ts';
import type { DemoVault } from '../vaults.ts';
import type { Stage } from '../walk.ts';
import { apply } from './apply.ts';

const NAME = 'somedb-creds';
const MIRROR = `/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/${NAME}`;
const TARGETS = ['project-c-main', 'project-c-next'] as const;
/** Duration of the lease. It is short, so that the reader does not wait long for its renewal. */
const LEASE_SECONDS = 6;
/** SQL query that counts the database users which Vault has created. */
const USERS = "select count(*) from pg_user where usename like 'v-%'";

interface Credentials extends KubeObject {
  readonly data?: { readonly username?: string; readonly password?: string };
}

/** Shows this part of the demo. If PostgreSQL is not available, prints why the part is skipped. */
export async function dynamicCredentials(
  stage: Stage,
  vault: DemoVault,
  addresses: Readonly<Record<string, string>>,
): Promise<void> {
  const { screen } = stage;
  await stage.section('Dynamic database credentials from Vault');
  const found = findPostgres();
  if ('missing' in found) {
    screen.note(`skipped: ${found.missing}`);
    return;
  }
  screen.progress('starting PostgreSQL');
  let database: PostgresServer;
  try {
    database = stage.resources.use(await startPostgres());
  } catch (error) {
    screen.warn(`skipped: PostgreSQL did not start: ${errorText(error)}`);
    return;
  }
  stage.signal.throwIfAborted();
  screen.done('PostgreSQL', `at ${database.host}:${database.port}`);
  await mountDatabase(vault.server, 'database', database);
  await databaseRole(vault.server, 'database', 'somedb', { ttl: `${LEASE_SECONDS}s`, maxTtl: '1h' });
  screen.done('database/creds/somedb', `Vault creates users with a lease of ${LEASE_SECONDS} s`);
  screen.blank();
  await sameInBoth(stage, database, addresses);
  await renewed(stage);
  await ended(stage, database);
}

async function sameInBoth(
  stage: Stage,
  database: PostgresServer,
  addresses: Readonly<Record<string, string>>,
): Promise<void> {
  const { screen, until } = stage;
  const [startedAt = 0] = await apply(stage, 'dynamic-to-namespaces.yaml', addresses);
  for (const namespace of TARGETS) {
    const copy = await until(`credentials in ${namespace}`, async () => await credentials(stage, namespace));
    const seenAt = performance.now();
    const [user, password] = [text(copy.data?.username), text(copy.data?.password)];
    await database.sql('select 1', { user, password });
    screen.done(
      `${namespace}/${NAME}`,
      `${took(seenAt - startedAt)} after the mirror; the login to the database works`,
    );
  }
  screen.done('users created by Vault', await database.sql(USERS));
  screen.blank();
}

async function renewed(stage: Stage): Promise<void> {
  const { screen, cluster, until } = stage;
  const before = await credentials(stage, TARGETS[0]);
  screen.progress('waiting for the renewal');
  const startedAt = performance.now();
  const query = { fieldSelector: `involvedObject.name=${NAME},reason=VaultLeaseRenew` };
  const lines = await until('the lease to be renewed', async () => {
    const table = await cluster.table('/api/v1/namespaces/default/events', { query });
    return table.length > 0 ? table : undefined;
  });
  screen.command(`kubectl get events --field-selector ${query.fieldSelector}`);
  screen.output(lines);
  screen.blank();
  const after = await credentials(stage, TARGETS[0]);
  if (before?.data?.password !== after?.data?.password) throw new Error('the credentials changed with the renewal');
  screen.done('the lease is renewed, the credentials are unchanged', took(performance.now() - startedAt));
  screen.blank();
}

async function ended({ screen, cluster, until }: Stage, database: PostgresServer): Promise<void> {
  screen.command(`kubectl delete secretmirror ${NAME}`);
  const startedAt = performance.now();
  await cluster.delete(MIRROR);
  await until('the mirror to be deleted', async () => ((await cluster.find(MIRROR)) === undefined ? true : undefined));
  screen.output([`secretmirror.mirrors.kts.studio "${NAME}" deleted`]);
  await until('the user to be deleted', async () => ((await database.sql(USERS)) === '0' ? true : undefined));
  screen.done('the lease is revoked, the database user is deleted', took(performance.now() - startedAt));
}

/** Reads the copy in a namespace. @returns `undefined` if it does not exist yet */
async function credentials({ cluster }: Stage, namespace: string): Promise<Credentials | undefined> {
  return await cluster.find(`/api/v1/namespaces/${namespace}/secrets/${NAME}`);
}

function text(base64 = ''): string {
  return Buffer.from(base64, 'base64').toString();
}
