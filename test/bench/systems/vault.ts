/** Measures SecretMirrors from and to a real Vault. The results are separate rows of the table. */
import type { BenchSystem } from '../system.ts';
import { vaultRows } from '../vault-rows.ts';
import { VaultWork } from '../vault-work.ts';

export function vaultSystem(): BenchSystem {
  const work = new VaultWork();
  return {
    name: 'vault',
    args: ['run', '--controllers', 'mirrors'],
    rows: vaultRows(work),
    install: async ({ plane, crds, onProgress }) => {
      await plane.api.apply(crds);
      await work.start(plane.api, onProgress);
    },
    [Symbol.asyncDispose]: () => work[Symbol.asyncDispose](),
  };
}
