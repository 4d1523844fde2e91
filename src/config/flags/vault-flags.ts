/** Flags of every controller that uses Vault. */
import { parseAddressPattern } from '../../runtime/text/address-patterns.ts';
import type { VaultConfig } from '../config.ts';
import { durationFlag, listFlag, type FlagTable, type FlagValues } from './flags.ts';
import { NO_VAULT_ENVIRONMENT } from '../vault-environment.ts';

export const vaultFlags = {
  vaultAddresses: listFlag(
    'vault-addresses',
    'patterns',
    'Vault servers that SecretMirrors may use, for example https://*.vault.svc:8200 (default: all except link-local and metadata addresses). ServiceAccount tokens that the API server accepts are sent only to these servers',
    parseAddressPattern,
  ),
  vaultTimeout: durationFlag(
    'vault-timeout',
    '60s',
    1,
    'timeout of Vault calls that create credentials; other calls time out after 10s at most',
  ),
} satisfies FlagTable;

/** @param given the keys of the flags on the command line */
export function vaultConfig(
  values: FlagValues<typeof vaultFlags>,
  environment = NO_VAULT_ENVIRONMENT,
  given: ReadonlySet<string> = new Set(),
): VaultConfig {
  // Vault's client treats 0 as its default.
  const fromEnvironment = given.has('vaultTimeout') ? undefined : environment.timeoutMs || undefined;
  return { addresses: values.vaultAddresses, timeoutMs: fromEnvironment ?? values.vaultTimeout, environment };
}
