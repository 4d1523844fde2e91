/** What the commands do, handed to the program from outside: a command without an action does not exist. */
import type { Config, MirrorsConfig, ReplicatorConfig, Surroundings } from '../config/config.ts';
import type { DaemonName } from '../config/daemon.ts';

/** Which cluster a command talks to; `undefined` as in Config. */
export interface ClusterOptions {
  readonly kubeconfig: string | undefined;
  readonly context: string | undefined;
}

/** What of the replicator's flags decides how annotations are read. */
export type ReplicatorReading = Pick<
  ReplicatorConfig,
  'annotationsPrefix' | 'allowAll' | 'ignoreUnknown' | 'runReplicators'
>;

/** How rules are read: as the operator runs. */
export interface ReadingOptions {
  readonly regexMode: MirrorsConfig['regexMode'];
  readonly replicator: ReplicatorReading;
  readonly output: 'table' | 'json' | 'yaml';
}

export interface StatusOptions extends ClusterOptions, ReadingOptions {
  /** `undefined`: all. */
  readonly namespace: string | undefined;
  /** Nothing but what is not as it should be. */
  readonly failed: boolean;
}

export interface PlanOptions extends ClusterOptions, ReadingOptions {
  /** Paths of manifests and folders; `-` is standard input. */
  readonly files: readonly string[];
  /** Whether the folders in a folder are read too. */
  readonly recursive: boolean;
  /** Also what stays as it is. */
  readonly all: boolean;
}

export interface DemoOptions extends ClusterOptions {
  /** End after the walk instead of running on. */
  readonly once: boolean;
}

/** The exit code: 0 done, 1 failed, 3 (`plan`) something would be lost or refused. Something thrown is printed and gives 1, a UsageError 2. */
export type Outcome = Promise<number>;

export type DaemonAction = (config: Config) => Outcome;

export interface Actions extends Partial<Readonly<Record<DaemonName, DaemonAction>>> {
  readonly crds?: () => Outcome;
  readonly status?: (options: StatusOptions) => Outcome;
  readonly plan?: (options: PlanOptions) => Outcome;
  readonly demo?: (options: DemoOptions) => Outcome;
}

/** What a command line meets besides the actions. */
export interface CliContext {
  readonly actions: Actions;
  /** The names that the program was started under: of the script (a link perhaps) and of the process. With or without folder. */
  readonly startedAs: readonly string[];
  readonly surroundings: Surroundings;
  readonly version: string;
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
}
