/** The generator had no flags, only the environment of the `vault` command; `--all` restores what it did. */
import { nonEmpty } from './common-flags.ts';
import type { GeneratorConfig, Surroundings } from './config.ts';
import { boolFlag, type FlagTable, type FlagValues } from './flags.ts';
import { shown, UsageError } from './usage-error.ts';

export const GENERATOR_LEASE = 'generator.keyferry';

export function generatorFlags(prefix: '' | 'generator-') {
  return {
    generatorAll: boolFlag(`${prefix}all`, false, 'every ExternalSecret, not only those annotated create: "true"'),
  } satisfies FlagTable;
}

/**
 * The generator's part of the Config.
 * @throws UsageError if $VAULT_ADDR is no URL
 */
export function generatorConfig(
  values: FlagValues<ReturnType<typeof generatorFlags>>,
  { env }: Surroundings,
): GeneratorConfig {
  // The default of the `vault` command.
  const vaultAddress = nonEmpty(env['VAULT_ADDR']) ?? 'https://127.0.0.1:8200';
  const url = URL.canParse(vaultAddress) ? new URL(vaultAddress) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
    throw new UsageError(`$VAULT_ADDR: bad value ${shown(vaultAddress)}: must be a URL with http or https`);
  }
  if (url.username !== '' || url.password !== '') throw new UsageError('$VAULT_ADDR: must not hold a user or password');
  return { all: values.generatorAll, vaultAddress };
}
