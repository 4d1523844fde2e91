/** The interface between command line and commands: options and exit codes. Tests put other actions in their place. */
import type { Config, ReadingConfig } from '../config/config.ts';
import type { ProcessInfo } from '../config/flags/flags.ts';
import type { Build } from '../config/version.ts';
import type { PageOptions } from '../../ui/data.ts';

/** The cluster that a command reads: kubeconfig file and context. @see Config for their defaults */
export interface ClusterOptions {
  readonly kubeconfig: string | undefined;
  readonly context: string | undefined;
}

/** The options of all commands that read rules. */
interface ReadingOptions<Output = 'table' | 'json' | 'yaml'> extends ClusterOptions {
  readonly config: ReadingConfig;
  readonly output: Output;
}

/**
 * The output `wide` is a table with more columns and with all failing targets. `name` has a line for `kubectl delete` for
 * each orphan that nothing needs.
 */
export interface StatusOptions extends ReadingOptions<'table' | 'wide' | 'json' | 'yaml' | 'name'> {
  /** Show only orphans. The rules of all controllers must be read, because any rule may use such a copy. */
  readonly orphans: boolean;
  /** Whether each copy has a line. */
  readonly copies: boolean;
  /** Whether the exit code says that a rule is not ready. */
  readonly exitCode: boolean;
  /** Show only rules in this namespace; `undefined`: rules in all namespaces. */
  readonly namespace: string | undefined;
  /** Show only rules with problems. */
  readonly failed: boolean;
  /** Print changes as they come, until a signal. */
  readonly watch: boolean;
  /** The Lease of the operator, if no Lease has the chart's label. */
  readonly leaseName: string;
}

export interface PlanOptions extends ReadingOptions {
  /** The namespace of objects that name none; `undefined`: that of the kubeconfig's context. */
  readonly namespace?: string | undefined;
  /** Paths of manifests and folders; `-` is standard input. */
  readonly files: readonly string[];
  /** Whether to read subfolders. */
  readonly recursive: boolean;
  /** Whether to show unchanged objects. */
  readonly all: boolean;
}

export interface ExplainOptions extends ReadingOptions {
  readonly exitCode: boolean;
  /** The kind as the user writes it: `secret`, `Secrets`. */
  readonly kind: string;
  /** `NAMESPACE/NAME` */
  readonly place: string;
}

export interface UiOptions extends ClusterOptions, PageOptions {
  readonly config: ReadingConfig;
  /** Show only rules in this namespace; `undefined`: rules in all namespaces. */
  readonly namespace: string | undefined;
}

/** What a completion needs to know from the kubeconfig or the cluster. */
export interface Wanted extends ClusterOptions {
  readonly what: 'contexts' | 'namespaces' | 'objects';
  /** The kind of the objects, as the user writes it. */
  readonly kind: string;
  readonly namespace: string | undefined;
  /** The word so far: of objects a name, or `NAMESPACE/NAME`. */
  readonly current: string;
}

/** One of the constants `EXIT_…`. If the action throws, the error is printed: code 2 for a UsageError, else 1. */
export type ExitCode = number;

export interface Actions {
  /** Runs the controllers that the Config names, until a stop signal. */
  readonly run: (config: Config) => Promise<ExitCode>;
  readonly crds: () => Promise<ExitCode>;
  readonly status: (options: StatusOptions) => Promise<ExitCode>;
  readonly plan: (options: PlanOptions) => Promise<ExitCode>;
  readonly explain: (options: ExplainOptions) => Promise<ExitCode>;
  readonly ui: (options: UiOptions) => Promise<ExitCode>;
  readonly complete: (wanted: Wanted) => Promise<readonly string[]>;
}

export interface CliContext {
  readonly actions: Actions;
  /** Path or name of the script, and of the process. The script may be a link with the name of an original. */
  readonly startedAs: readonly string[];
  readonly processInfo: ProcessInfo;
  readonly build: Build;
  /** The width of the terminal; `undefined`: the output is for a file or a program. */
  readonly columns: number | undefined;
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
}

export const EXIT_DONE = 0;
export const EXIT_FAILED = 1;
export const EXIT_USAGE = 2;
/**
 * A copy would be lost or refused (`plan`), or a rule is not ready (`--exit-code` of `status` and `explain`).
 */
export const EXIT_LOSS_OR_REFUSAL = 3;
