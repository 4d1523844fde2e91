/** Defines Keyferry's command line (commands, options and help) for the library Commander, and runs it. */
import { Command, CommanderError, Option, type ParseOptionsResult } from 'commander';
import type { ControllerCommand } from '../config/command.ts';
import { CONTROLLER_COMMANDS } from '../config/commands.ts';
import {
  type CliContext,
  EXIT_DONE,
  EXIT_USAGE,
  type ExplainOptions,
  type MigrateOptions,
  type ExitCode,
  type PlanOptions,
  type StatusOptions,
} from '../commands/actions.ts';
import { type Flag, flagsOf } from '../config/flags/flags.ts';
import { insteadOf } from '../config/flags/gone-flags.ts';
import { UsageError } from '../config/usage-error.ts';
import { readingConfig, readingFlags } from '../config/flags/controller-flags.ts';
import { completionsOf, SCRIPTS, type Shell, SHELLS } from './completion.ts';
import { type MigratedProgram, MIGRATED_PROGRAMS } from '../config/migrated-programs.ts';
import { EXAMPLES, READING_EXAMPLES } from './examples.ts';
import { versionText } from './version-report.ts';

declare module 'commander' {
  interface Command {
    /** Prints an error with the unknown option and similar options. The library's types lack this method. */
    unknownOption(option: string): void;
  }
}

/** A command whose error names similar options even if the unknown option has a value: `--nams=value`. */
class ShortCommand extends Command {
  override createCommand(name?: string): ShortCommand {
    return new ShortCommand(name);
  }

  override unknownOption(option: string): void {
    const [name = ''] = option.split('=');
    if (this.options.some(({ long }) => long === name)) this.error(`error: option '${name}' takes no value`);
    const instead = insteadOf(name.replace(/^--/, ''));
    if (instead !== undefined) this.error(`error: ${instead}`);
    super.unknownOption(name);
  }
}

interface ProgramContext extends CliContext {
  /** Waits for the action to end, and keeps its exit code for `runProgram`. */
  readonly finish: (code: Promise<ExitCode>) => Promise<void>;
}

/**
 * Parses and runs one command line.
 * @returns the exit code
 * @throws the errors of the command's action
 */
export async function runProgram(context: CliContext, argv: readonly string[]): Promise<number> {
  let code = EXIT_DONE;
  const finish = async (outcome: Promise<ExitCode>): Promise<void> => {
    code = await outcome;
  };
  const program = buildProgram({ ...context, finish });
  try {
    await program.parseAsync([...argv], { from: 'user' });
    return code;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    // The library throws, with code 0, after help and version. Another code: a usage error, which it has printed.
    return error.exitCode === 0 ? EXIT_DONE : EXIT_USAGE;
  }
}

function buildProgram(context: ProgramContext): Command {
  const program = new ShortCommand('keyferry')
    .version(context.build.version, '-V, --version', 'print the version')
    // Flags after a command are not the program's: commands that run controllers parse them.
    .enablePositionalOptions()
    .showSuggestionAfterError()
    // The library must neither end the process nor write to the console.
    .exitOverride()
    .configureOutput({ writeOut: context.stdout, writeErr: context.stderr });
  describe(
    program,
    'Copies Secrets and ConfigMaps between namespaces, and Secrets to and from Vault, and keeps every copy up to date.',
    EXAMPLES.keyferry,
  ).addHelpText(
    'after',
    '\nExit codes: 0 success, 1 failure, 2 usage error, 3 (plan and migrate) a copy would be lost or refused, or (migrate) something needs a decision. With --exit-code, status and explain exit with 3 if a rule is not ready.',
  );
  for (const one of CONTROLLER_COMMANDS) addRunnerCommand(program, one, context);
  addShortCommands(program, context);
  return program;
}

/**
 * A command whose arguments the library does not parse. Commands that run controllers list their flags in the help, but
 * `config/flags/flags.ts` parses these by Go's rules.
 */
class UnparsedCommand extends Command {
  #argv: readonly string[] = [];

  get argv(): readonly string[] {
    return this.#argv;
  }

  override parseOptions(argv: string[]): ParseOptionsResult {
    this.#argv = argv;
    return { operands: [], unknown: [] };
  }
}

function addRunnerCommand(
  program: Command,
  { name, summary, examples, flags, configure }: ControllerCommand,
  { actions, processInfo, finish }: ProgramContext,
): void {
  const target = new UnparsedCommand(name).copyInheritedSettings(program);
  describe(target, summary, examples);
  for (const { name: flag, isBool, hint, help, initialText } of flags) {
    const option = new Option(isBool ? `--${flag}` : `--${flag} <${hint}>`, help);
    if (initialText !== '') option.default(initialText, initialText);
    target.addOption(option);
  }
  target.action(async () => {
    const config = configure(target.argv, processInfo);
    if (config === undefined) target.help();
    else await finish(actions.run(config));
  });
  program.addCommand(target);
}

function addShortCommands(program: Command, { actions, build, operator, stdout, finish }: ProgramContext): void {
  /** The settings in the flags. Without a flag, those of the operator, if one runs in the same container. */
  const settings = (flags: readonly string[]) =>
    operator === undefined || flags.length > 0 ? readingConfig(flags) : { ...operator, ...operator.kube };
  /** The action of a command that needs no cluster: it prints a text and succeeds. */
  const print = async (text: string): Promise<void> => {
    stdout(text);
    await finish(Promise.resolve(EXIT_DONE));
  };
  command(program, 'crds', 'print all CustomResourceDefinitions as YAML').action(() => finish(actions.crds()));
  readingCommand(program, 'status', 'show what is copied, what is not copied, and why', [
    'table',
    'wide',
    'json',
    'yaml',
  ])
    .option(
      '-n, --namespace <name>',
      'show only SecretMirrors, SyncSecrets and annotated objects in this namespace, with all of their copies; needs permissions only in this namespace',
    )
    .option('-A, --all-namespaces', 'show SecretMirrors and annotated objects in all namespaces (the default)')
    .option('--failed', 'show only rules that have problems, with all of their failing targets', false)
    .option('-w, --watch', 'print the status, then each change, until Ctrl-C', false)
    .option(...EXIT_CODE_OPTION)
    .addHelpText('after', NOT_READY_CODES)
    .action(({ namespace, allNamespaces, flags = [], ...options }: StatusFlags) => {
      if (options.watch && options.exitCode) throw new UsageError('--exit-code has no effect with --watch');
      const lease = operator && { lease: operator.leaderElect };
      const place = allNamespaces === true ? undefined : namespace;
      return finish(actions.status({ ...options, ...lease, config: settings(flags), namespace: place }));
    });
  readingCommand(program, 'plan', 'show what manifests would change, without applying them')
    .usage('[options] <files...>')
    .argument('[files...]', 'manifests or folders of manifests; - for standard input')
    .option(
      '-f, --filename <file>',
      'a manifest or a folder of manifests, as in kubectl; can be repeated',
      (file, files: string[] | undefined) => [...(files ?? []), file],
    )
    .option('-R, --recursive', 'read folders recursively', false)
    .option('--all', 'show unchanged objects, too', false)
    .addHelpText('after', '\nExit codes: 0 success, 1 failure, 2 usage error, 3 a copy would be lost or refused.')
    .action((named: string[], { filename = [], flags = [], ...options }: PlanFlags, target: Command) => {
      const files = [...named, ...filename];
      if (files.length === 0) target.error("error: missing required argument 'files'");
      return finish(actions.plan({ ...options, config: settings(flags), files }));
    });
  readingCommand(
    program,
    'explain',
    'show why an object exists, which rule owns it and when it was written, or why it does not exist',
  )
    .usage('[options] <kind> <place>')
    .argument('<kind>', 'secret, configmap, or the kind of a rule: secretmirror, externalsecret, syncsecret')
    .argument('[place]', 'NAMESPACE/NAME, or NAME with -n')
    .option('-n, --namespace <name>', 'the namespace of the object, as in kubectl')
    .option(...EXIT_CODE_OPTION)
    .addHelpText('after', NOT_READY_CODES)
    .action((first: string, second: string | undefined, given: ExplainFlags, target: Command) => {
      const { namespace, flags = [], ...options } = given;
      // Like kubectl, the command also takes KIND/NAME.
      const [kind = '', ...rest] = second === undefined ? first.split('/') : [first, second];
      if (rest.length === 0) target.error("error: missing required argument 'place'");
      const place = [...(namespace === undefined ? [] : [namespace]), ...rest].join('/');
      // The answers themselves name --namespaces.
      const assumed = flags.filter((flag) => !flag.startsWith('--namespaces='));
      return finish(actions.explain({ ...options, flags: assumed, config: settings(flags), kind, place }));
    });
  readingCommand(program, 'migrate', 'show what the objects of other copiers need, so that Keyferry takes them over')
    .addOption(
      new Option('--from <program>', 'show only the objects of this program (default: of all programs)').choices(
        MIGRATED_PROGRAMS,
      ),
    )
    .option('--apply', 'write the changes; needs --from', false)
    .option('--delete-leftovers', 'also delete copies with the verdict leftover; needs --apply', false)
    .addHelpText(
      'after',
      '\nExit codes: 0 success, 1 failure, 2 usage error, 3 something needs a decision (manual, unsupported, a leftover that was not deleted), or a copy would be lost or refused.',
    )
    .action(({ from, flags = [], ...options }: MigrateFlags) => {
      const { apply, deleteLeftovers } = options;
      if (apply && from === undefined)
        throw new UsageError('--apply needs --from: changes are written for one program at a time');
      if (deleteLeftovers && !apply) throw new UsageError('--delete-leftovers needs --apply');
      return finish(actions.migrate({ ...options, config: readingConfig(flags), from }));
    });
  withOutput(command(program, 'version', 'print version and commit of Keyferry, and the version of Node')).action(
    ({ output }: Pick<PlanOptions, 'output'>) => print(versionText(build, output)),
  );
  command(program, 'completion', 'print a script that completes command lines in a shell')
    .addArgument(program.createArgument('<shell>', 'the shell').choices(SHELLS))
    .action((shell: Shell) => print(SCRIPTS[shell]));
  const complete = new UnparsedCommand('__complete');
  program.addCommand(
    complete.action(() => print(completionsOf(program, complete.argv))),
    { hidden: true },
  );
}

const EXIT_CODE_OPTION = ['--exit-code', 'exit with code 3 if one of these rules is not ready', false] as const;
const NOT_READY_CODES =
  '\nExit codes: 0 success, 1 failure or the object or namespace does not exist, 2 usage error, 3 (with --exit-code) a rule is not ready.';

/** The options as the library parses them. `Made`: the options that the command computes from several flags. */
type Given<Options, Made extends keyof Options> = Omit<Options, Made | 'config'> & {
  /** The settings, as `--name=value`. @see ReadingOption */
  readonly flags?: readonly string[];
};

type StatusFlags = Given<StatusOptions, 'namespace' | 'lease'> & {
  readonly namespace?: string;
  readonly allNamespaces?: boolean;
};
type PlanFlags = Given<PlanOptions, 'files'> & { readonly filename?: readonly string[] };
type ExplainFlags = Given<ExplainOptions, 'kind' | 'place' | 'flags'> & { readonly namespace?: string };
type MigrateFlags = Given<MigrateOptions, 'from'> & { readonly from?: MigratedProgram };

/** An option for a flag of `readingFlags`. The library collects it as `--name=value`, and `readingConfig` parses it. */
class ReadingOption extends Option {
  constructor({ name, isBool, hint, help, initial, initialText }: Flag<unknown>) {
    const isSwitch = isBool && initial === false;
    const written = isSwitch ? `--${name}` : `--${name} <${isBool ? 'true|false' : hint}>`;
    super(written, initialText === '' ? help : `${help} (default: ${initialText})`);
    this.preset('true');
    this.argParser((text, earlier: readonly string[] | undefined) => [...(earlier ?? []), `--${name}=${text}`]);
  }

  override attributeName(): string {
    return 'flags';
  }
}

/** Makes a command that reads rules from a cluster, and evaluates them with the operator's code. */
function readingCommand(program: Command, name: Name, summary: string, formats?: readonly string[]): Command {
  const more = READING_EXAMPLES.map((flags) => `${EXAMPLES[name][0]} ${flags}`);
  const target = withOutput(command(program, name, summary, more), formats)
    .option('--kubeconfig <path>', 'kubeconfig file (default: $KUBECONFIG, ~/.kube/config, in-cluster)')
    .option('--context <name>', 'context of the kubeconfig (default: its current context)');
  for (const flag of flagsOf(readingFlags)) target.addOption(new ReadingOption(flag));
  return target;
}

function withOutput(target: Command, formats: readonly string[] = ['table', 'json', 'yaml']): Command {
  return target.addOption(new Option('-o, --output <format>', 'output format').choices(formats).default('table'));
}

type Name = keyof typeof EXAMPLES;

function command(program: Command, name: Name, summary: string, moreExamples: readonly string[] = []): Command {
  return describe(program.command(name), summary, [...EXAMPLES[name], ...moreExamples]);
}

/** Adds description, examples and the option `--help`. */
function describe(target: Command, summary: string, examples: readonly string[]): Command {
  const lines = examples.map((example) => `  ${example}`).join('\n');
  return target
    .description(summary)
    .helpOption('-h, --help', 'print help')
    .showHelpAfterError(`Try \`${target.name() === 'keyferry' ? '' : 'keyferry '}${target.name()} --help\`.`)
    .addHelpText('after', `\nExamples:\n${lines}`);
}
