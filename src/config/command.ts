/** Makes a command that runs controllers: its flags, and the translation of a command line into a Config. */
import {
  type AddressValues,
  type CommonValues,
  deletionFlag,
  leaderElectConfig,
  namespacesFlag,
  originalAddresses,
} from './flags/common-flags.ts';
import type { Config } from './config.ts';
import type { ControllerName } from './controllers.ts';
import { configSyncerFlags } from './flags/config-syncer-flags.ts';
import {
  generatorFlags,
  mirrorsFlags,
  mittwaldFlags,
  reflectorFlags,
  replicatorFlags,
  vaultConfig,
  vaultFlags,
} from './flags/controller-flags.ts';
import {
  type Flag,
  type FlagSections,
  flagsOf,
  type FlagValues,
  initialValues,
  type ProcessInfo,
} from './flags/flags.ts';
import { limitsConfig, type LimitValues } from './flags/limit-flags.ts';
import { type ParsedFlags, parseFlags } from './flags/parse-flags.ts';
import { managerFlags, travelFlags } from './flags/syncsecret-flags.ts';
import { quoted, UsageError } from './usage-error.ts';
import { vaultEnvironment } from './vault-environment.ts';

interface Description {
  readonly name: 'run' | Exclude<ControllerName, 'syncsecret-synchronizer'>;
  /** One line in the help. */
  readonly summary: string;
  readonly examples: readonly string[];
  /** The program that this command replaces: the name of its binary, and its flags; `undefined`: it replaces none. */
  readonly original?: {
    readonly binary: string;
    /** The name that the binary had in older versions. */
    readonly olderBinary?: string;
    readonly flags: readonly string[];
  };
}

export interface ControllerCommand extends Description {
  /** The flags, in the order of the help. */
  readonly flags: readonly Flag<unknown>[];
  /**
   * Reads a command line.
   * @returns `undefined`: help is requested
   * @throws UsageError, with the flag or variable and its bad value
   */
  readonly configure: (argv: readonly string[], processInfo: ProcessInfo) => Config | undefined;
}

interface Plan<Sections extends FlagSections> extends Description {
  readonly sections: Sections;
  /** Turns a command line of the original into one of Keyferry. Default: it is one. */
  readonly rewrite?: (argv: readonly string[]) => readonly string[];
  readonly toConfig: (parsed: ParsedFlags<Sections>, processInfo: ProcessInfo) => Config;
}

export function controllerCommand<Sections extends FlagSections>(plan: Plan<Sections>): ControllerCommand {
  const { sections, rewrite, toConfig, ...description } = plan;
  return {
    ...description,
    flags: flagsOf(sections),
    configure: (argv, processInfo) => {
      const parsed = parseFlags(sections, rewrite?.(argv) ?? argv, processInfo.env);
      if (parsed.isHelp) return undefined;
      const [first] = parsed.rest;
      const ignoresRest = (plan.original?.flags ?? []).length > 0;
      if (first !== undefined && !ignoresRest) throw new UsageError(`unexpected argument ${quoted(first)}`);
      return toConfig(parsed, processInfo);
    },
  };
}

/** The values of sections of flags that a command does not have: the defaults of these flags. */
const INITIAL = {
  deletion: initialValues(deletionFlag('')),
  scope: initialValues(namespacesFlag),
  mirrors: initialValues(mirrorsFlags),
  replicator: initialValues(replicatorFlags),
  reflector: initialValues(reflectorFlags),
  configSyncer: initialValues(configSyncerFlags),
  mittwald: initialValues(mittwaldFlags),
  manager: initialValues(managerFlags()),
  travel: initialValues(travelFlags),
  generator: initialValues(generatorFlags),
};

type Values = CommonValues &
  Partial<typeof INITIAL> & {
    readonly addresses?: AddressValues;
    readonly limits?: LimitValues;
    readonly vault?: FlagValues<typeof vaultFlags>;
  };

/** The Config from the flags of a command, and from defaults for flags that the command lacks. */
export function base(
  { values, given, rest: [ignored], notes }: Omit<ParsedFlags<FlagSections>, 'values'> & { readonly values: Values },
  processInfo: ProcessInfo,
): Omit<Config, 'controllers'> {
  const { common, kube, election, addresses, limits, vault, ...parts } = values;
  const { deletion, scope, mirrors, replicator, reflector, configSyncer, mittwald, ...others } = {
    ...INITIAL,
    ...parts,
  };
  const { manager, travel, generator } = others;
  return {
    controllersNamed: true,
    ...common,
    ...deletion,
    management: undefined,
    secureAddress: undefined,
    ...originalAddresses(addresses, given),
    leaderElect: leaderElectConfig(election, processInfo),
    kube: { ...kube, ...scope },
    limits: limitsConfig(limits, scope.namespaces),
    vault:
      vault === undefined
        ? vaultConfig(initialValues(vaultFlags))
        : vaultConfig(vault, vaultEnvironment(processInfo.env), given),
    mirrors,
    replicator,
    reflector,
    configSyncer,
    mittwald,
    syncsecret: { managementNamespace: undefined, ...manager, ...travel },
    generator,
    // The originals silently ignore the first argument that is no flag, and everything after it.
    notes:
      ignored === undefined
        ? notes
        : [...notes, `ignored ${quoted(ignored)} and all arguments after it, as the original does`],
  };
}
