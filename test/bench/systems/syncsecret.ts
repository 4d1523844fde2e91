/**
 * SyncSecrets from a tenant's cluster, which is started for this, to the management cluster. CCM and manager are two
 * processes.
 */
import { places, SYNC_SECRETS } from '../sync-secret-load.ts';
import { syncSecretRows } from '../sync-secret-rows.ts';
import { SECRETS_BY_ORIGIN, SyncSecretWork } from '../sync-secret-work.ts';
import type { BenchSystem } from '../system.ts';

export function syncSecretSystem(): BenchSystem {
  const work = new SyncSecretWork();
  return {
    name: 'syncsecret',
    // None: the rows start the two programs themselves.
    args: [],
    rows: syncSecretRows(work),
    view: SECRETS_BY_ORIGIN,
    install: (ground) => work.start(ground),
    createSources: (_api, generation) => work.create(places(SYNC_SECRETS), generation),
    removeOwners: () => work.remove(places(SYNC_SECRETS)),
    [Symbol.asyncDispose]: () => work[Symbol.asyncDispose](),
  };
}
