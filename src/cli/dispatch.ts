/**
 * From a command line to an exit code.
 *
 * A daemon is started without loading the command line library, which costs 1.3 MiB of private memory that would then
 * be held for months; help and the short commands load it.
 */
import { basename } from 'node:path';
import { DAEMONS } from '../config/daemon.ts';
import { systemOfBinary, systemOfFlags } from '../config/originals.ts';
import { UsageError } from '../config/usage-error.ts';
import { errorText } from '../observe/error-fields.ts';
import type { CliContext } from './actions.ts';
import { findDaemon } from './daemon-actions.ts';
import { EXIT_FAILED, EXIT_USAGE } from './exit-codes.ts';

/** Runs one command line (without node and script) and answers the exit code. Never throws. */
export async function runCli(context: CliContext, args: readonly string[]): Promise<number> {
  let command = 'keyferry';
  try {
    const argv = withCommand(context.startedAs, args);
    const [first = ''] = argv;
    if (/^[a-z]/.test(first)) command = `keyferry ${first}`;
    const daemon = findDaemon(context.actions, first);
    if (daemon !== undefined) {
      const config = daemon.daemon.configure(argv.slice(1), context.surroundings);
      if (config !== undefined) return await daemon.action(config);
    } else if (DAEMONS.some((name) => name === first)) {
      command = 'keyferry';
      throw new UsageError(`the system ${first} is not in this version of Keyferry`);
    }
    const { runProgram } = await import('./program.ts');
    return await runProgram(context, argv);
  } catch (error) {
    const usage = error instanceof UsageError;
    context.stderr(`${command}: ${errorText(error)}\n${usage ? `Try \`${command} --help\`.\n` : ''}`);
    return usage ? EXIT_USAGE : EXIT_FAILED;
  }
}

/**
 * The command line with a command: that of the original whose name we were started under, else of the one whose flags are given
 * without a command.
 * @throws UsageError if flags alone do not say which
 */
function withCommand(startedAs: readonly string[], argv: readonly string[]): readonly string[] {
  const names = startedAs.map((path) => basename(path));
  const system = names.map((name) => systemOfBinary(name)).find((found) => found !== undefined) ?? systemOfFlags(argv);
  return system === undefined ? argv : [system, ...argv];
}
