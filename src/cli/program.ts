/** Runs one command line. It may have the form of a program that Keyferry replaces (an original). */
import type { ControllerCommand } from '../config/command.ts';
import { CONTROLLER_COMMANDS, findControllerCommand } from '../config/commands.ts';
import { UsageError } from '../config/usage-error.ts';
import { errorText } from '../observe/error-fields.ts';
import { isWithinEdits } from '../runtime/text/texts.ts';
import { type CliContext, EXIT_DONE, EXIT_FAILED, EXIT_USAGE, type ExitCode } from '../commands/actions.ts';
import type { Command } from './command.ts';
import { completionsOf } from './completion.ts';
import { commandHelp, programHelp } from './help.ts';
import { withCommand } from './originals.ts';
import { shortCommands } from './short-commands.ts';

/** @param args the command line, without node and script. @returns the exit code. Never throws: errors are printed */
export async function runCli(context: CliContext, args: readonly string[]): Promise<ExitCode> {
  let title = 'keyferry';
  let helped = title;
  try {
    const [name = '', ...argv] = withCommand(context.startedAs, args);
    if (/^[a-z]/.test(name)) title = `keyferry ${name}`;
    const isCommand = [...CONTROLLER_COMMANDS, ...shortCommands(context)].some((command) => command.name === name);
    if (isCommand) helped = title;
    return await runCommand(context, name, argv);
  } catch (error) {
    const usage = error instanceof UsageError;
    context.stderr(`${title}: ${errorText(error)}\n${usage ? `Try \`${helped} --help\`.\n` : ''}`);
    return usage ? EXIT_USAGE : EXIT_FAILED;
  }
}

/** @throws UsageError, and the errors of the command */
async function runCommand(context: CliContext, name: string, argv: readonly string[]): Promise<ExitCode> {
  const { stdout, stderr, build, columns } = context;
  const short = shortCommands(context);
  const commands = [...CONTROLLER_COMMANDS, ...short];
  const find = (wanted: string): Command => {
    const controllers = findControllerCommand(wanted);
    const found = controllers ? commandOf(controllers, context) : short.find((command) => command.name === wanted);
    if (found !== undefined) return found;
    if (wanted === 'migrate')
      throw new UsageError(
        'there is no command migrate any more: keyferry plan shows what a start of Keyferry would do, and keyferry status --orphans what is left over',
      );
    const similar = commands.find((command) => isWithinEdits(wanted, command.name, 2));
    throw new UsageError(
      `unknown command '${wanted}'${similar === undefined ? '' : `; did you mean ${similar.name}?`}`,
    );
  };
  const [topic] = argv;
  if (name === '') stderr(programHelp(commands, columns));
  else if (name === '--version' || name === '-V') stdout(`${build.version}\n`);
  else if (name === '__complete') stdout(await completionsOf(commands, argv, context.actions.complete));
  else if (['help', '--help', '-help', '-h'].includes(name))
    stdout(name === 'help' && topic !== undefined ? commandHelp(find(topic), columns) : programHelp(commands, columns));
  else if (name.startsWith('-')) throw new UsageError(`unknown flag ${name}: begin with a command`);
  else {
    const command = find(name);
    const code = await command.run(argv);
    if (code !== undefined) return code;
    stdout(commandHelp(command, columns));
  }
  return name === '' ? EXIT_USAGE : EXIT_DONE;
}

function commandOf({ configure, ...described }: ControllerCommand, { actions, processInfo }: CliContext): Command {
  const run = async (argv: readonly string[]): Promise<ExitCode | undefined> => {
    const config = configure(argv, processInfo);
    return config && (await actions.run(config));
  };
  return { ...described, run };
}
