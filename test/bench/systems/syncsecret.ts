/**
 * Measures SyncSecrets from a tenant cluster to the management cluster. The benchmark starts the tenant cluster. CCM
 * and manager are two processes.
 */
import { syncSecretRows } from '../sync-secret-rows.ts';
import { SECRETS_BY_ORIGIN, SyncSecretWork } from '../sync-secret-work.ts';
import type { BenchSystem } from '../system.ts';

export function syncSecretSystem(): BenchSystem {
  const work = new SyncSecretWork();
  return {
    name: 'syncsecret',
    // No arguments: the rows start both programs themselves.
    args: [],
    rows: syncSecretRows(work),
    view: SECRETS_BY_ORIGIN,
    install: (ground) => work.start(ground),
    [Symbol.asyncDispose]: () => work[Symbol.asyncDispose](),
  };
}
