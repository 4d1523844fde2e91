/**
 * From a command line to an exit code.
 *
 * A daemon is started without loading the command line library, which costs 1.3 MiB of private memory that would then
 * be held for months; help and the short commands load it.
 */
import { UsageError } from '../config/usage-error.ts';
import { errorText } from '../observe/error-fields.ts';
import type { CliContext } from './actions.ts';
import { findDaemon } from './daemon-actions.ts';
import { EXIT_FAILED, EXIT_USAGE } from './exit-codes.ts';

/** Runs one command line (without node and script) and answers the exit code. Never throws. */
export async function runCli(context: CliContext, argv: readonly string[]): Promise<number> {
  const [first = ''] = argv;
  try {
    const daemon = findDaemon(context.actions, first);
    if (daemon !== undefined) {
      const config = daemon.daemon.configure(argv.slice(1), context.surroundings);
      if (config !== undefined) return await daemon.action(config);
    }
    const { runProgram } = await import('./program.ts');
    return await runProgram(context, argv);
  } catch (error) {
    const command = /^[a-z]/.test(first) ? `keyferry ${first}` : 'keyferry';
    const usage = error instanceof UsageError;
    context.stderr(`${command}: ${errorText(error)}\n${usage ? `Try \`${command} --help\`.\n` : ''}`);
    return usage ? EXIT_USAGE : EXIT_FAILED;
  }
}
