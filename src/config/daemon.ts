/** What a command that keeps running is: a table of flags, and a function from a command line to a Config. */
import { leaderElectConfig, type CommonValues } from './common-flags.ts';
import { CONTROLLERS, deepFreeze, type Config, type Surroundings } from './config.ts';
import { parseFlags, type FlagTable, type FlagValues, type ParsedFlags } from './flags.ts';
import { mirrorsConfig, mirrorsFlags } from './mirrors-flags.ts';
import { replicatorConfig, replicatorFlags } from './replicator-flags.ts';
import { syncSecretConfig } from './syncsecret-flags.ts';
import { shown, UsageError } from './usage-error.ts';

export const DAEMONS = ['run', ...CONTROLLERS] as const;

export type DaemonName = (typeof DAEMONS)[number];

export interface Daemon {
  readonly name: DaemonName;
  /** For the help. */
  readonly flags: FlagTable;
  /**
   * Reads a command line.
   * @returns `undefined` if help is asked for
   * @throws UsageError naming the flag or variable and its bad value
   */
  configure(argv: readonly string[], surroundings: Surroundings): Config | undefined;
}

/** Joins a table and what is made of it. */
export function daemon<Table extends FlagTable>(
  name: DaemonName,
  flags: Table,
  toConfig: (parsed: ParsedFlags<Table>, surroundings: Surroundings) => Config,
): Daemon {
  return {
    name,
    flags,
    configure: (argv, surroundings) => {
      const parsed = parseFlags(flags, argv);
      return parsed === undefined ? undefined : deepFreeze(toConfig(parsed, surroundings));
    },
  };
}

/** Everything at its default, then the common flags; each daemon puts its own over it. */
export function base(values: CommonValues, lease: string, surroundings: Surroundings): Omit<Config, 'controllers'> {
  return {
    controllersNamed: true,
    kubeconfig: values.kubeconfig,
    context: values.context,
    statusAddress: values.statusAddress,
    metricsAddress: undefined,
    healthAddress: undefined,
    leaderElect: leaderElectConfig(values, lease, surroundings),
    logLevel: values.logLevel,
    kube: { maxConcurrentWrites: values.maxConcurrentWrites, watchIdleMs: values.watchIdleTimeout },
    deletionTimeoutMs: values.deletionTimeout,
    mirrors: mirrorsConfig(initialValues(mirrorsFlags)),
    replicator: replicatorConfig(initialValues(replicatorFlags(''))),
    syncsecret: syncSecretConfig({}, surroundings),
    generator: { all: false, vaultAddress: '' },
    notes: [],
  };
}

/** What a table gives for an empty command line. */
export function initialValues<Table extends FlagTable>(table: Table): FlagValues<Table> {
  const values = Object.entries(table).map(([key, flag]) => [key, flag.initial] as const);
  return Object.fromEntries(values) as FlagValues<Table>;
}

/** The originals ignore what follows the first argument that is no flag; we do, too, but say so. */
export function restNotes(rest: readonly string[]): string[] {
  return rest.length === 0 ? [] : [`ignored as by the original, with all that follows: ${shown(rest[0] ?? '')}`];
}

/** For commands that no original stands behind. @throws UsageError if anything follows the flags */
export function refuseRest(rest: readonly string[]): void {
  if (rest.length > 0) throw new UsageError(`unexpected argument ${shown(rest[0] ?? '')}`);
}
