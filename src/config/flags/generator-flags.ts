/** The flags of the generator. The Bash controller has none, but the variables of Vault's client (`vault-environment.ts`) and `DEBUG`. */
import { isDnsLabel } from '../../runtime/text/dns-names.ts';
import type { GeneratorConfig } from '../config.ts';
import { LABEL_LETTERS } from './common-flags.ts';
import { boolFlag, choiceFlag, listFlag, type FlagTable, type FlagValues } from './flags.ts';

export const GENERATOR_LEASE = 'keyferry-generator';

/** Where credentials for Vault come from. */
const CREDENTIALS = ['stores', 'environment'] as const;

/** @param prefix of the names under `run` */
export function generatorFlags(prefix: string) {
  return {
    generatorAll: boolFlag(
      `${prefix}all`,
      false,
      'make values for every failing ExternalSecret without the annotation create: "false" (default: only with create: "true")',
    ),
    generatorNamespaces: listFlag(
      `${prefix}namespaces`,
      'list',
      'comma-separated list of namespaces (default: all, or its own without the permission to list all)',
      (item) => {
        if (!isDnsLabel(item)) throw new RangeError(`must consist of ${LABEL_LETTERS}`);
      },
    ),
    generatorCredentials: choiceFlag(
      `${prefix}credentials`,
      CREDENTIALS,
      'stores',
      'log in to Vault as the store of the ExternalSecret does, or to $VAULT_ADDR with $VAULT_TOKEN for all (also used without the permission to list SecretStores)',
    ),
  } satisfies FlagTable;
}

export function generatorConfig(values: FlagValues<ReturnType<typeof generatorFlags>>): GeneratorConfig {
  return {
    all: values.generatorAll,
    namespaces: values.generatorNamespaces,
    credentials: values.generatorCredentials,
  };
}
