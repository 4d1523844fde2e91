/** The flags of the original `mirrors` operator, accepted as they were, and ours for SecretMirrors. */
import { parseAddressPattern } from '../runtime/address-patterns.ts';
import type { MirrorsConfig } from './config.ts';
import { NO_VAULT_ENVIRONMENT } from './vault-environment.ts';
import {
  addressFlag,
  boolFlag,
  choiceFlag,
  countFlag,
  durationFlag,
  listFlag,
  type FlagTable,
  type FlagValues,
} from './flags.ts';

/** The Lease of the original, so that it and Keyferry never work at the same time. */
export const MIRRORS_LEASE = '7e6f5103.kts.studio';

/** Ours, also under `run`. */
export const mirrorsFlags = {
  mirrorsRegex: choiceFlag(
    'mirrors-regex',
    ['full', 'search'],
    'full',
    'whether a pattern must match the whole name of a namespace, or any part of it as in the original',
  ),
  allowCrossNamespaceAuth: boolFlag(
    'allow-cross-namespace-auth',
    false,
    'let a SecretMirror use a Vault login Secret of another namespace',
  ),
  vaultAddresses: listFlag(
    'vault-addresses',
    'patterns',
    'Vault servers that SecretMirrors may name, as https://*.vault.svc:8200 (else any, but for link-local and metadata addresses). A ServiceAccount token that the API server accepts goes only to these',
    parseAddressPattern,
  ),
  vaultTimeout: durationFlag(
    'vault-timeout',
    '60s',
    1,
    'the longest a call to Vault may take; one that makes no credentials is given up after 10s',
  ),
  mirrorsWorkers: countFlag('mirrors-workers', 4, 1, 64, 'SecretMirrors worked on at once'),
} satisfies FlagTable;

/** The original's. */
export const originalMirrorsFlags = {
  metricsBindAddress: addressFlag('metrics-bind-address', ':8080', 'serves /metrics; 0 for nowhere'),
  healthProbeBindAddress: addressFlag('health-probe-bind-address', ':8081', 'serves /healthz and /readyz'),
} satisfies FlagTable;

/** The SecretMirror part of the Config. @param given the keys of the flags that were on the command line */
export function mirrorsConfig(
  values: FlagValues<typeof mirrorsFlags>,
  vault = NO_VAULT_ENVIRONMENT,
  given: ReadonlySet<string> = new Set(),
): MirrorsConfig {
  // 0 is what Vault's client takes for its default.
  const fromEnvironment = given.has('vaultTimeout') ? undefined : vault.timeoutMs || undefined;
  return {
    regexMode: values.mirrorsRegex,
    allowCrossNamespaceAuth: values.allowCrossNamespaceAuth,
    vaultAddresses: values.vaultAddresses,
    vaultTimeoutMs: fromEnvironment ?? values.vaultTimeout,
    vault,
    workers: values.mirrorsWorkers,
  };
}

/** What the original did and Keyferry does not, as sentences for the log. */
export function mirrorsNotes(env: Readonly<Record<string, string | undefined>>): string[] {
  if (env['ENABLE_WEBHOOKS'] === undefined) return [];
  return ['ENABLE_WEBHOOKS has no effect: there is no webhook, the CRD itself has the rules'];
}
