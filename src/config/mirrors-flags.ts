/** The flags of the original `mirrors` operator, and Keyferry's own flags for SecretMirrors. */
import { parseAddressPattern } from '../runtime/address-patterns.ts';
import type { MirrorsConfig } from './config.ts';
import { NO_VAULT_ENVIRONMENT } from './vault-environment.ts';
import { addressFlag, boolFlag, choiceFlag, durationFlag, listFlag, type FlagTable, type FlagValues } from './flags.ts';

/** The original's Lease: the original and Keyferry never lead at the same time. */
export const MIRRORS_LEASE = '7e6f5103.kts.studio';

/** Keyferry's own, also under `run`. */
export const mirrorsFlags = {
  mirrorsRegex: choiceFlag(
    'mirrors-regex',
    ['full', 'search'],
    'full',
    'a pattern matches the whole namespace name (full) or any part of it, as in the original (search)',
  ),
  allowCrossNamespaceAuth: boolFlag(
    'allow-cross-namespace-auth',
    false,
    'allow a SecretMirror to use a Vault login Secret of another namespace',
  ),
  vaultAddresses: listFlag(
    'vault-addresses',
    'patterns',
    'Vault servers that SecretMirrors may use, for example https://*.vault.svc:8200 (else all except link-local and metadata addresses). ServiceAccount tokens that the API server accepts are sent only to these servers',
    parseAddressPattern,
  ),
  vaultTimeout: durationFlag(
    'vault-timeout',
    '60s',
    1,
    'timeout of Vault calls that create credentials; other calls time out after 10s at most',
  ),
} satisfies FlagTable;

export const originalMirrorsFlags = {
  metricsBindAddress: addressFlag('metrics-bind-address', ':8080', 'address of /metrics; 0 to disable'),
  healthProbeBindAddress: addressFlag(
    'health-probe-bind-address',
    ':8081',
    'address of /healthz and /readyz; 0 to disable',
  ),
} satisfies FlagTable;

/** @param given the keys of the flags on the command line */
export function mirrorsConfig(
  values: FlagValues<typeof mirrorsFlags>,
  vault = NO_VAULT_ENVIRONMENT,
  given: ReadonlySet<string> = new Set(),
): MirrorsConfig {
  // Vault's client treats 0 as its default.
  const fromEnvironment = given.has('vaultTimeout') ? undefined : vault.timeoutMs || undefined;
  return {
    regexMode: values.mirrorsRegex,
    allowCrossNamespaceAuth: values.allowCrossNamespaceAuth,
    vaultAddresses: values.vaultAddresses,
    vaultTimeoutMs: fromEnvironment ?? values.vaultTimeout,
    vault,
  };
}

/** Settings of the original that have no effect, as sentences for the log. */
export function mirrorsNotes(env: Readonly<Record<string, string | undefined>>): string[] {
  if (env['ENABLE_WEBHOOKS'] === undefined) return [];
  return ['ENABLE_WEBHOOKS has no effect: the CRD validates SecretMirrors, there is no webhook'];
}
