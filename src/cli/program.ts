/** The command line for the library: commands, options, help. */
import { Command, CommanderError, Option, type ParseOptionsResult } from 'commander';
import type { ControllerCommand } from '../config/command.ts';
import { CONTROLLER_COMMANDS } from '../config/commands.ts';
import { type CliContext, EXIT_DONE, EXIT_USAGE, type Outcome } from '../commands/actions.ts';
import { addShortCommands, describe } from './short-commands.ts';

const EXAMPLES = ['keyferry run', 'keyferry status --failed', 'keyferry plan mirror.yaml'];

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
  const program = new Command('keyferry')
    .version(context.build.version, '-V, --version', 'print the version')
    // Arguments after a command belong to it: commands that run controllers parse their flags themselves.
    .enablePositionalOptions()
    .showSuggestionAfterError();
  describe(
    program,
    'Copies Secrets and ConfigMaps between namespaces, and Secrets to and from Vault, and keeps every copy up to date.',
    EXAMPLES,
  ).addHelpText(
    'after',
    '\nExit codes: 0 success, 1 failure, 2 usage error, 3 (plan and migrate) a copy would be lost or refused, or (migrate) something needs a decision.',
  );
  quiet(program, context);
  const finish = async (outcome: Outcome): Promise<void> => onExitCode(await outcome);
  for (const controllerCommand of CONTROLLER_COMMANDS) {
    program.addCommand(runnerCommand(controllerCommand, context, finish));
  }
  addShortCommands(program, context, finish);
  return program;
}

/** Keeps the library from ending the process and from writing to the console. */
function quiet(target: Command, context: CliContext): void {
  target.exitOverride();
  target.configureOutput({ writeOut: context.stdout, writeErr: context.stderr });
}

/**
 * A command whose flags the library shows in its help but does not parse: they follow Go's rules (config/flags/go-flags.ts), and are
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
