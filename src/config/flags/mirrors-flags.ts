/** The flags of the original `mirrors` operator, and Keyferry's own flags for SecretMirrors. */
import type { MirrorsConfig } from '../config.ts';
import { addressFlag, boolFlag, choiceFlag, type FlagTable, type FlagValues } from './flags.ts';

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
} satisfies FlagTable;

export const originalMirrorsFlags = {
  metricsBindAddress: addressFlag('metrics-bind-address', ':8080', 'address of /metrics; 0 to disable'),
  healthProbeBindAddress: addressFlag(
    'health-probe-bind-address',
    ':8081',
    'address of /healthz and /readyz; 0 to disable',
  ),
} satisfies FlagTable;

export function mirrorsConfig(values: FlagValues<typeof mirrorsFlags>): MirrorsConfig {
  return { regexMode: values.mirrorsRegex, allowCrossNamespaceAuth: values.allowCrossNamespaceAuth };
}

/** Settings of the original that have no effect, as sentences for the log. */
export function mirrorsNotes(env: Readonly<Record<string, string | undefined>>): string[] {
  if (env['ENABLE_WEBHOOKS'] === undefined) return [];
  return ['ENABLE_WEBHOOKS has no effect: the CRD validates SecretMirrors, there is no webhook'];
}
