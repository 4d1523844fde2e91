/**
 * Runs one command line.
 *
 * Commands that run controllers do not load the command-line library, because it would hold 1.3 MiB of private memory for
 * months. Help and the short commands load it.
 */
import { basename } from 'node:path';
import { findControllerCommand } from '../config/commands.ts';
import { commandOfBinary, commandOfFlags } from '../config/originals.ts';
import { UsageError } from '../config/usage-error.ts';
import { errorText } from '../observe/error-fields.ts';
import { type CliContext, EXIT_FAILED, EXIT_USAGE } from '../commands/actions.ts';

/** Runs one command line (without node and script) and returns the exit code. Never throws. */
export async function runCli(context: CliContext, args: readonly string[]): Promise<number> {
  let command = 'keyferry';
  try {
    const argv = withCommand(context.startedAs, args);
    const [first = ''] = argv;
    if (/^[a-z]/.test(first)) command = `keyferry ${first}`;
    const config = findControllerCommand(first)?.configure(argv.slice(1), context.processInfo);
    if (config !== undefined) return await context.actions.run(config);
    const { runProgram } = await import('./program.ts');
    return await runProgram(context, argv);
  } catch (error) {
    const usage = error instanceof UsageError;
    context.stderr(`${command}: ${errorText(error)}\n${usage ? `Try \`${command} --help\`.\n` : ''}`);
    return usage ? EXIT_USAGE : EXIT_FAILED;
  }
}

/**
 * Puts the command before the arguments if the program was started under the name of an original, or with the flags of an original
 * and without a command.
 * @throws UsageError if the flags fit several originals
 */
function withCommand(startedAs: readonly string[], argv: readonly string[]): readonly string[] {
  const names = startedAs.map((path) => basename(path));
  const command =
    names.map((name) => commandOfBinary(name)).find((found) => found !== undefined) ?? commandOfFlags(argv);
  return command === undefined ? argv : [command, ...argv];
}
