/** The command line as it is shown and parsed: commands, options, help. What they do comes in as actions. */
import { Command, CommanderError, InvalidArgumentError, Option, type ParseOptionsResult } from 'commander';
import { DAEMONS, type Daemon, type DaemonName } from '../config/daemon.ts';
import { mirrorsFlags } from '../config/mirrors-flags.ts';
import { replicatorFlags } from '../config/replicator-flags.ts';
import type { CliContext, ClusterOptions, DaemonAction, Outcome, ReadingOptions, StatusOptions } from './actions.ts';
import { findDaemon } from './daemon-actions.ts';
import { EXIT_DONE, EXIT_USAGE } from './exit-codes.ts';

const SUMMARY: Readonly<Record<DaemonName, string>> = {
  run: 'work: every controller whose API is installed',
  mirrors: 'SecretMirrors alone, with the flags of the original mirrors operator',
  replicator: 'annotated Secrets and ConfigMaps alone, with the flags of k8s-replicator',
  'syncsecret-ccm': "SyncSecrets from a tenant's cluster, with the flags of the KubeLB CCM",
  'syncsecret-manager': 'SyncSecrets in the management cluster, with the flags of the KubeLB manager',
  generator: 'values for ExternalSecrets that Vault does not have yet',
};

const EXAMPLES: Readonly<Record<DaemonName, readonly string[]>> = {
  run: ['keyferry run', 'keyferry run --controllers mirrors --leader-elect --status-address :9102'],
  mirrors: ['keyferry mirrors --leader-elect --metrics-bind-address=127.0.0.1:8080'],
  replicator: ['keyferry replicator -allow-all -resync-period 1h'],
  'syncsecret-ccm': ['keyferry syncsecret-ccm --cluster-name blue --kubelb-kubeconfig ~/.kube/kubelb'],
  'syncsecret-manager': ['keyferry syncsecret-manager --namespace kubelb'],
  generator: ['VAULT_ADDR=http://vault.vault:8200 keyferry generator --all'],
};

const STATUS_EXAMPLES = [
  'keyferry status',
  'keyferry status --failed',
  'keyferry status -n default',
  'keyferry status -A -o yaml',
  "keyferry status -o json | jq '.rules[].failing[]'",
  'keyferry status --mirrors-regex=search',
  'keyferry status --replicator-allow-all --replicator-run-replicators=secret',
  'keyferry status --replicator-annotations-prefix=example.com --replicator-ignore-unknown',
  'keyferry status --kubeconfig ~/.kube/prod --context admin@prod',
];

const PLAN_EXAMPLES = [
  'keyferry plan mirror.yaml',
  'keyferry plan --all mirror.yaml',
  'keyferry plan -R manifests/',
  'kustomize build . | keyferry plan -',
  'keyferry plan mirror.yaml -o json',
  'keyferry plan mirror.yaml --mirrors-regex=search',
  'keyferry plan source.yaml --replicator-allow-all --replicator-run-replicators=secret',
  'keyferry plan source.yaml --replicator-annotations-prefix=example.com --replicator-ignore-unknown',
  'keyferry plan mirror.yaml --kubeconfig ~/.kube/prod --context admin@prod',
];

const REGEX_MODES: readonly StatusOptions['regexMode'][] = ['full', 'search'];

/**
 * Runs one command line through the program.
 * @returns the exit code
 * @throws what an action throws
 */
export async function runProgram(context: CliContext, argv: readonly string[]): Promise<number> {
  let code = EXIT_DONE;
  const program = buildProgram(context, (outcome) => {
    code = outcome;
  });
  try {
    await program.parseAsync([...argv], { from: 'user' });
    return code;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    // Help and version that were asked for have code 0; everything else that the library ends with is a usage error,
    // and already printed.
    return error.exitCode === 0 ? EXIT_DONE : EXIT_USAGE;
  }
}

/** The program with a command for each action. `onExitCode` gets what an action answers. */
export function buildProgram(context: CliContext, onExitCode: (code: number) => void): Command {
  const { actions } = context;
  const program = new Command('keyferry')
    .description(
      'Carries Secrets and ConfigMaps between namespaces, and Secrets to and from Vault, and keeps every copy right.',
    )
    .version(context.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print help')
    // What follows a command belongs to it: the daemons read their flags themselves.
    .enablePositionalOptions()
    .showSuggestionAfterError()
    .addHelpText('after', '\nExit codes: 0 done, 1 failed, 2 usage; of plan 3: something would be lost or refused.');
  quiet(program, context);
  const finish = async (outcome: Outcome): Promise<void> => onExitCode(await outcome);
  for (const name of DAEMONS) {
    const found = findDaemon(actions, name);
    if (found !== undefined) program.addCommand(daemonCommand(found.daemon, found.action, context, finish));
  }
  const { crds, status, plan, demo } = actions;
  if (crds !== undefined) {
    command(program, 'crds', 'print all custom resource definitions as YAML', [
      'keyferry crds | kubectl apply --server-side -f -',
    ]).action(() => finish(crds()));
  }
  if (status !== undefined) {
    const text = 'what is copied where, what is not, and why';
    withReading(withCluster(command(program, 'status', text, STATUS_EXAMPLES)))
      .option(
        '-n, --namespace <name>',
        'only SecretMirrors and annotated objects of this namespace, wherever their copies are; needs rights in it alone',
      )
      .option('-A, --all-namespaces', 'those of all namespaces (the default)', false)
      .option('--failed', 'only what is not as it should be, with every failing namespace', false)
      .action(({ namespace, allNamespaces, failed, ...flags }: StatusFlags) =>
        finish(
          status({
            ...clusterOf(flags),
            ...readingOf(flags),
            namespace: allNamespaces ? undefined : namespace,
            failed,
          }),
        ),
      );
  }
  if (plan !== undefined) {
    const text = 'what these manifests would do on this cluster, without doing it';
    withReading(withCluster(command(program, 'plan', text, PLAN_EXAMPLES)))
      .argument('<files...>', 'manifests, or folders of them; - for standard input')
      .option('-R, --recursive', 'also the folders in a folder', false)
      .option('--all', 'also what stays as it is', false)
      .addHelpText('after', '\nExit codes: 0 done, 1 failed, 2 usage, 3 something would be lost or refused.')
      .action((files: string[], { recursive, all, ...flags }: PlanFlags) =>
        finish(plan({ ...clusterOf(flags), ...readingOf(flags), files, recursive, all })),
      );
  }
  if (demo !== undefined) {
    const text = 'real servers on this machine, the operator, and the examples, live';
    withCluster(
      command(program, 'demo', text, ['keyferry demo --once']),
      'cluster to play on (else servers of its own)',
    )
      .option('--once', 'end after the walk instead of running until Ctrl-C', false)
      .action(({ once, ...cluster }: ClusterFlags & { once: boolean }) =>
        finish(demo({ ...clusterOf(cluster), once })),
      );
  }
  return program;
}

/** As the library hands them out: absent instead of `undefined`. */
interface ClusterFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
}

interface ReplicatorFlags {
  readonly replicatorAnnotationsPrefix: string;
  readonly replicatorAllowAll: boolean;
  readonly replicatorIgnoreUnknown: boolean;
  readonly replicatorRunReplicators: StatusOptions['replicator']['runReplicators'];
}

interface ReadingFlags extends ReplicatorFlags {
  readonly mirrorsRegex: StatusOptions['regexMode'];
  readonly output: StatusOptions['output'];
}

interface PlanFlags extends ClusterFlags, ReadingFlags {
  readonly recursive: boolean;
  readonly all: boolean;
}

interface StatusFlags extends ClusterFlags, ReadingFlags {
  readonly namespace?: string;
  readonly allNamespaces: boolean;
  readonly failed: boolean;
}

/** What reads the rules as the operator does. */
function withReading(target: Command): Command {
  const { name, help, initial } = mirrorsFlags.mirrorsRegex;
  return target
    .addOption(new Option(`--${name} <mode>`, `as the operator runs: ${help}`).choices(REGEX_MODES).default(initial))
    .addOption(replicatorOption('annotationsPrefix'))
    .addOption(replicatorOption('allowAll'))
    .addOption(replicatorOption('ignoreUnknown'))
    .addOption(replicatorOption('runReplicators'))
    .addOption(new Option('-o, --output <format>', 'how to print').choices(['table', 'json', 'yaml']).default('table'));
}

function readingOf(flags: ReadingFlags): ReadingOptions {
  return {
    regexMode: flags.mirrorsRegex,
    output: flags.output,
    replicator: {
      annotationsPrefix: flags.replicatorAnnotationsPrefix,
      allowAll: flags.replicatorAllowAll,
      ignoreUnknown: flags.replicatorIgnoreUnknown,
      runReplicators: flags.replicatorRunReplicators,
    },
  };
}

/** A flag as the daemon that runs has it: without it the annotations cannot be read alike. */
function replicatorOption(key: keyof StatusOptions['replicator']): Option {
  const { name, isBool, hint, help, initial, parse } = replicatorFlags('replicator-')[key];
  const option = new Option(isBool ? `--${name}` : `--${name} <${hint}>`, `as the replicator runs: ${help}`);
  option.default(initial, Array.isArray(initial) ? 'all' : undefined);
  if (isBool) return option;
  return option.argParser((text: string) => {
    try {
      return parse(text);
    } catch (error) {
      throw new InvalidArgumentError(error instanceof Error ? error.message : String(error));
    }
  });
}

function clusterOf(flags: ClusterFlags): ClusterOptions {
  return { kubeconfig: flags.kubeconfig, context: flags.context };
}

function withCluster(
  target: Command,
  which = 'cluster to talk to (else $KUBECONFIG, ~/.kube/config, in-cluster)',
): Command {
  return target
    .option('--kubeconfig <path>', which)
    .option('--context <name>', 'context of the kubeconfig (else its current one)');
}

function command(program: Command, name: string, summary: string, examples: readonly string[]): Command {
  return describe(program.command(name), summary, examples);
}

function describe(target: Command, summary: string, examples: readonly string[]): Command {
  const lines = examples.map((example) => `  ${example}`).join('\n');
  return target
    .description(summary)
    .helpOption('-h, --help', 'print help')
    .addHelpText('after', `\nExamples:\n${lines}`);
}

/** No exit and no console of the library's own. */
function quiet(target: Command, context: CliContext): void {
  target.exitOverride();
  target.configureOutput({ writeOut: context.stdout, writeErr: context.stderr });
}

/**
 * A command whose arguments the library shows in its help but does not read: they follow Go's rules (config/go-flags.ts),
 * and a daemon is read the same way whether or not the library was loaded.
 */
class DaemonCommand extends Command {
  #argv: readonly string[] = [];

  get argv(): readonly string[] {
    return this.#argv;
  }

  override parseOptions(argv: string[]): ParseOptionsResult {
    this.#argv = argv;
    return { operands: [], unknown: [] };
  }
}

function daemonCommand(
  daemon: Daemon,
  action: DaemonAction,
  context: CliContext,
  finish: (outcome: Outcome) => Promise<void>,
): Command {
  const target = new DaemonCommand(daemon.name);
  describe(target, SUMMARY[daemon.name], EXAMPLES[daemon.name]);
  quiet(target, context);
  for (const flag of Object.values(daemon.flags)) {
    const option = new Option(flag.isBool ? `--${flag.name}` : `--${flag.name} <${flag.hint}>`, flag.help);
    if (flag.initialText !== '') option.default(flag.initialText, flag.initialText);
    target.addOption(option);
  }
  return target.action(async () => {
    const config = daemon.configure(target.argv, context.surroundings);
    if (config === undefined) target.help();
    else await finish(action(config));
  });
}
