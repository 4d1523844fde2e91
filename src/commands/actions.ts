/** The actions of the commands, and their exit codes. The actions are passed in, so that tests can replace them. */
import type { Config, ReadingConfig } from '../config/config.ts';
import type { LeaderElectConfig } from '../config/flags/common-flags.ts';
import type { ProcessInfo } from '../config/flags/flags.ts';
import type { MigratedProgram } from '../config/migrated-programs.ts';
import type { Build } from '../config/version.ts';

/** The cluster of a command. @see Config */
export interface ClusterOptions {
  readonly kubeconfig?: string;
  readonly context?: string;
}

/** The options of every command that reads rules. */
interface ReadingOptions<Output = 'table' | 'json' | 'yaml'> extends ClusterOptions {
  readonly config: ReadingConfig;
  readonly output: Output;
}

/** The output `wide` is a table with more columns, and all failing targets. */
export interface StatusOptions extends ReadingOptions<'table' | 'wide' | 'json' | 'yaml'> {
  /** `undefined`: all. */
  readonly namespace: string | undefined;
  /** Show only rules with problems. */
  readonly failed: boolean;
  /** Print changes as they come, until a signal. */
  readonly watch: boolean;
  /** The Lease of the operator, if that is known. */
  readonly lease?: LeaderElectConfig;
}

export interface PlanOptions extends ReadingOptions {
  /** Paths of manifests and folders; `-` is standard input. */
  readonly files: readonly string[];
  /** Read folders recursively. */
  readonly recursive: boolean;
  /** Show unchanged objects, too. */
  readonly all: boolean;
}

export interface ExplainOptions extends ReadingOptions {
  /** As the user gave it: `secret`, `Secrets`. */
  readonly kind: string;
  /** `NAMESPACE/NAME` */
  readonly place: string;
}

export interface MigrateOptions extends ReadingOptions {
  /** `undefined`: all. */
  readonly from: MigratedProgram | undefined;
  /** Write the changes. */
  readonly apply: boolean;
  /** With `apply`: delete the copies that are left over. */
  readonly deleteLeftovers: boolean;
}

/** The exit code: 0 done, 1 failed, 3 (`plan`, `migrate`) a copy would be lost or refused, or (`migrate`) something needs a decision. An error is printed and gives 1, a UsageError 2. */
export type ExitCode = number;

export interface Actions {
  /** Of every command that runs controllers. */
  readonly run: (config: Config) => Promise<ExitCode>;
  readonly crds: () => Promise<ExitCode>;
  readonly status: (options: StatusOptions) => Promise<ExitCode>;
  readonly plan: (options: PlanOptions) => Promise<ExitCode>;
  readonly explain: (options: ExplainOptions) => Promise<ExitCode>;
  readonly migrate: (options: MigrateOptions) => Promise<ExitCode>;
}

export interface CliContext {
  readonly actions: Actions;
  /** The names of the script (perhaps a link) and of the process, with or without a folder. */
  readonly startedAs: readonly string[];
  readonly processInfo: ProcessInfo;
  /** The command line of process 1, as in /proc/1/cmdline. */
  readonly firstProcess?: () => Promise<string>;
  /** The settings of the operator in whose container this process runs. */
  readonly operator?: Config | undefined;
  readonly build: Build;
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
}

export const EXIT_DONE = 0;
export const EXIT_FAILED = 1;
export const EXIT_USAGE = 2;
/** Of `plan` and `migrate`: a copy would be lost or refused. Of `migrate` also: something needs a decision. */
export const EXIT_LOSS_OR_REFUSAL = 3;
