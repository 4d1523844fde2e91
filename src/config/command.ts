/** A command that runs controllers: its flags, and how a command line becomes a Config. */
import { leaderElectConfig, type CommonValues } from './flags/common-flags.ts';
import { deepFreeze, type Config, type ControllerName, type ProcessInfo } from './config.ts';
import { generatorConfig, generatorFlags } from './flags/generator-flags.ts';
import { initialValues, parseFlags, type FlagTable, type ParsedFlags } from './flags/flags.ts';
import { mirrorsConfig, mirrorsFlags } from './flags/mirrors-flags.ts';
import { replicatorConfig, replicatorFlags } from './flags/replicator-flags.ts';
import { syncSecretConfig, travelFlags } from './flags/syncsecret-flags.ts';
import { quoted, UsageError } from './usage-error.ts';
import { vaultConfig, vaultFlags } from './flags/vault-flags.ts';

interface Description {
  readonly name: 'run' | Exclude<ControllerName, 'syncsecret-synchronizer'>;
  /** One line of the help. */
  readonly summary: string;
  readonly examples: readonly string[];
  /** The program that this command replaces: the name of its binary, and the names of its flags. */
  readonly original?: { readonly binary: string; readonly flags: readonly string[] };
}

export interface ControllerCommand extends Description {
  /** For the help. */
  readonly flags: FlagTable;
  /**
   * Reads a command line.
   * @returns `undefined` if help is requested
   * @throws UsageError naming the flag or variable and its bad value
   */
  readonly configure: (argv: readonly string[], processInfo: ProcessInfo) => Config | undefined;
}

/** Joins a table of flags and the function that makes a Config of their values. */
export function controllerCommand<Table extends FlagTable>(
  description: Description,
  flags: Table,
  toConfig: (parsed: ParsedFlags<Table>, processInfo: ProcessInfo) => Config,
): ControllerCommand {
  return {
    ...description,
    flags,
    configure: (argv, processInfo) => {
      const parsed = parseFlags(flags, argv);
      return parsed === undefined ? undefined : deepFreeze(toConfig(parsed, processInfo));
    },
  };
}

/** The common flags, and everything else at its default. */
export function base(values: CommonValues, lease: string, processInfo: ProcessInfo): Omit<Config, 'controllers'> {
  return {
    controllersNamed: true,
    kubeconfig: values.kubeconfig,
    context: values.context,
    management: undefined,
    statusAddress: values.statusAddress,
    metricsAddress: undefined,
    healthAddress: undefined,
    leaderElect: leaderElectConfig(values, lease, processInfo),
    logLevel: values.logLevel,
    kube: { maxConcurrentWrites: values.maxConcurrentWrites, watchIdleMs: values.watchIdleTimeout, namespaces: [] },
    deletionTimeoutMs: values.deletionTimeout,
    vault: vaultConfig(initialValues(vaultFlags)),
    mirrors: mirrorsConfig(initialValues(mirrorsFlags)),
    replicator: replicatorConfig(initialValues(replicatorFlags(''))),
    syncsecret: syncSecretConfig(initialValues(travelFlags(''))),
    generator: generatorConfig(initialValues(generatorFlags(''))),
    notes: [],
  };
}

/** The originals silently ignore the first argument that is not a flag and everything after it; we log it. */
export function restNotes(rest: readonly string[]): string[] {
  return rest.length === 0 ? [] : [`ignored ${quoted(rest[0] ?? '')} and all arguments after it, as the original does`];
}

/** For commands that replace no original. @throws UsageError if an argument follows the flags */
export function refuseRest(rest: readonly string[]): void {
  if (rest.length > 0) throw new UsageError(`unexpected argument ${quoted(rest[0] ?? '')}`);
}
