/** The command line for the library: commands, options, help. */
import { Command, CommanderError, InvalidArgumentError, Option, type ParseOptionsResult } from 'commander';
import type { ControllerCommand } from '../config/command.ts';
import { CONTROLLER_COMMANDS } from '../config/commands.ts';
import type { Flag } from '../config/flags.ts';
import { readingFlags, type ReadingFlags, withReadingConfig } from '../config/reading-flags.ts';
import type { CliContext, ClusterOptions, DemoOptions, Outcome, StatusOptions } from './actions.ts';
import { EXIT_DONE, EXIT_USAGE } from './exit-codes.ts';

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

/**
 * Parses and runs one command line.
 * @returns the exit code
 * @throws the errors of the action
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
    // The library exits with code 0 for help and version. Everything else is a usage error, already printed.
    return error.exitCode === 0 ? EXIT_DONE : EXIT_USAGE;
  }
}

/** @param onExitCode receives the exit code of the action */
function buildProgram(context: CliContext, onExitCode: (code: number) => void): Command {
  const { actions } = context;
  const program = new Command('keyferry')
    .description(
      'Copies Secrets and ConfigMaps between namespaces, and Secrets to and from Vault, and keeps every copy up to date.',
    )
    .version(context.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print help')
    // Arguments after a command belong to it: commands that run controllers parse their flags themselves.
    .enablePositionalOptions()
    .showSuggestionAfterError()
    .addHelpText(
      'after',
      '\nExit codes: 0 success, 1 failure, 2 usage error, 3 (plan only) a copy would be lost or refused.',
    );
  quiet(program, context);
  const finish = async (outcome: Outcome): Promise<void> => onExitCode(await outcome);
  for (const controllerCommand of CONTROLLER_COMMANDS) {
    program.addCommand(runnerCommand(controllerCommand, context, finish));
  }
  command(program, 'crds', 'print all CustomResourceDefinitions as YAML', [
    'keyferry crds | kubectl apply --server-side -f -',
  ]).action(() => finish(actions.crds()));
  withReading(
    withCluster(command(program, 'status', 'show what is copied, what is not copied, and why', STATUS_EXAMPLES)),
  )
    .option(
      '-n, --namespace <name>',
      'only SecretMirrors, SyncSecrets and annotated objects in this namespace, with all of their copies; needs permissions only in this namespace',
    )
    .option('-A, --all-namespaces', 'SecretMirrors and annotated objects in all namespaces (the default)')
    .option('--failed', 'only objects with problems, with every failing namespace', false)
    .action(({ namespace, allNamespaces, ...flags }: StatusFlags) =>
      finish(
        actions.status({ ...withReadingConfig(flags), namespace: allNamespaces === true ? undefined : namespace }),
      ),
    );
  withReading(
    withCluster(command(program, 'plan', 'show what manifests would change, without applying them', PLAN_EXAMPLES)),
  )
    .argument('<files...>', 'manifests or folders of manifests; - for standard input')
    .option('-R, --recursive', 'read folders recursively', false)
    .option('--all', 'show unchanged objects, too', false)
    .addHelpText('after', '\nExit codes: 0 success, 1 failure, 2 usage error, 3 a copy would be lost or refused.')
    .action((files: string[], flags: PlanFlags) => finish(actions.plan({ ...withReadingConfig(flags), files })));
  withCluster(
    command(program, 'demo', 'run the examples on real servers on this machine, or on a test cluster', [
      'keyferry demo --once',
      'keyferry demo --once --kubeconfig ~/.kube/config',
    ]),
    'use this cluster (default: local servers that the demo starts)',
  )
    .option('--once', 'exit after the last example instead of running until Ctrl-C', false)
    .action((options: DemoOptions) => finish(actions.demo(options)));
  return program;
}

interface OutputFlags extends ClusterOptions, ReadingFlags {
  readonly output: StatusOptions['output'];
}

interface PlanFlags extends OutputFlags {
  readonly recursive: boolean;
  readonly all: boolean;
}

interface StatusFlags extends OutputFlags {
  readonly namespace?: string;
  readonly allNamespaces?: boolean;
  readonly failed: boolean;
}

/** The options that define how rules are read, and the output format. */
function withReading(target: Command): Command {
  for (const flag of Object.values(readingFlags)) target.addOption(readingOption(flag));
  return target.addOption(
    new Option('-o, --output <format>', 'output format').choices(['table', 'json', 'yaml']).default('table'),
  );
}

function readingOption({ name, isBool, hint, help, initial, choices, parse }: Flag<unknown>): Option {
  const option = new Option(isBool ? `--${name}` : `--${name} <${hint}>`, help);
  option.default(initial, Array.isArray(initial) ? 'all' : undefined);
  if (isBool) return option;
  if (choices !== undefined) return option.choices(choices);
  return option.argParser((text: string) => {
    try {
      return parse(text);
    } catch (error) {
      throw new InvalidArgumentError(error instanceof Error ? error.message : String(error));
    }
  });
}

function withCluster(
  target: Command,
  which = 'kubeconfig file (default: $KUBECONFIG, ~/.kube/config, in-cluster)',
): Command {
  return target
    .option('--kubeconfig <path>', which)
    .option('--context <name>', 'context of the kubeconfig (default: its current context)');
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

/** Keeps the library from ending the process and from writing to the console. */
function quiet(target: Command, context: CliContext): void {
  target.exitOverride();
  target.configureOutput({ writeOut: context.stdout, writeErr: context.stderr });
}

/**
 * A command whose flags the library shows in its help but does not parse: they follow Go's rules (config/go-flags.ts), and are
 * parsed in the same way without the library.
 */
class RunnerCommand extends Command {
  #argv: readonly string[] = [];

  get argv(): readonly string[] {
    return this.#argv;
  }

  override parseOptions(argv: string[]): ParseOptionsResult {
    this.#argv = argv;
    return { operands: [], unknown: [] };
  }
}

function runnerCommand(
  { name, summary, examples, flags, configure }: ControllerCommand,
  context: CliContext,
  finish: (outcome: Outcome) => Promise<void>,
): Command {
  const target = new RunnerCommand(name);
  describe(target, summary, examples);
  quiet(target, context);
  for (const flag of Object.values(flags)) {
    const option = new Option(flag.isBool ? `--${flag.name}` : `--${flag.name} <${flag.hint}>`, flag.help);
    if (flag.initialText !== '') option.default(flag.initialText, flag.initialText);
    target.addOption(option);
  }
  return target.action(async () => {
    const config = configure(target.argv, context.processInfo);
    if (config === undefined) target.help();
    else await finish(context.actions.run(config));
  });
}
