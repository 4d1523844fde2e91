/**
 * Runs one command line. It may have the form of a program that Keyferry replaces (an original).
 *
 * Commands that run controllers run for months, so they do not load the command-line library: it would take 1.3 MiB of
 * private memory. Help and the short commands load it.
 */
import { basename } from 'node:path';
import { findControllerCommand, CONTROLLER_COMMANDS } from '../config/commands.ts';
import type { Config } from '../config/config.ts';
import type { ProcessInfo } from '../config/flags/flags.ts';
import { UsageError } from '../config/usage-error.ts';
import { errorText } from '../observe/error-fields.ts';
import { type CliContext, EXIT_FAILED, EXIT_USAGE } from '../commands/actions.ts';

/** @param args the command line, without node and script. @returns the exit code. Never throws: errors are printed */
export async function runCli(context: CliContext, args: readonly string[]): Promise<number> {
  let command = 'keyferry';
  try {
    const argv = withCommand(context.startedAs, args);
    const [first = ''] = argv;
    if (/^[a-z]/.test(first)) command = `keyferry ${first}`;
    const config = findControllerCommand(first)?.configure(argv.slice(1), context.processInfo);
    if (config !== undefined) return await context.actions.run(config);
    const { runProgram } = await import('./program.ts');
    // In Keyferry's container, process 1 is the operator, and a short command takes the settings of the operator.
    const operator = settingsOf((await context.firstProcess?.()) ?? '', context.processInfo);
    return await runProgram({ ...context, operator }, argv);
  } catch (error) {
    const usage = error instanceof UsageError;
    context.stderr(`${command}: ${errorText(error)}\n${usage ? `Try \`${command} --help\`.\n` : ''}`);
    return usage ? EXIT_USAGE : EXIT_FAILED;
  }
}

/** The settings in a /proc/PID/cmdline; `undefined`: not of a process that runs controllers. @throws UsageError */
export function settingsOf(commandLine: string, processInfo: ProcessInfo): Config | undefined {
  const args = commandLine.split('\0').slice(0, -1);
  const bundle = args.findIndex((arg) => basename(arg) === 'keyferry.cjs');
  if (bundle === -1) return undefined;
  const [name = '', ...argv] = withCommand([args[bundle] ?? '', args[0] ?? ''], args.slice(bundle + 1));
  return findControllerCommand(name)?.configure(argv, processInfo);
}

/**
 * Puts Keyferry's command before the arguments, if the program was started under the name of an original, or if the
 * arguments have no command and begin with a flag of an original.
 * @throws UsageError: the flags fit several originals
 */
function withCommand(startedAs: readonly string[], argv: readonly string[]): readonly string[] {
  const byName = startedAs.flatMap((path) => ORIGINALS.filter(({ binary }) => binary === basename(path)));
  const command = byName[0]?.command ?? commandOfFlags(argv);
  return command === undefined ? argv : [command, ...argv];
}

/**
 * The programs that Keyferry replaces. Their containers start them by name (`command: [/manager]`) or with flags alone,
 * never with a command of Keyferry.
 */
const ORIGINALS = CONTROLLER_COMMANDS.flatMap(({ name, original, flags }) => {
  if (original === undefined) return [];
  const own: ReadonlySet<string> = new Set(original.flags);
  return [{ command: name, binary: original.binary, own, all: new Set(flags.map((flag) => flag.name)) }];
});

/**
 * The command whose original has these flags.
 * @returns `undefined`: the first argument is not a flag of an original
 * @throws UsageError: the flags fit several originals equally well
 */
function commandOfFlags(argv: readonly string[]): string | undefined {
  const names = flagNames(argv);
  const [first] = names;
  if (first === undefined || first !== flagName(argv[0] ?? '')) return undefined;
  if (!ORIGINALS.some(({ own }) => own.has(first))) return undefined;
  // Keyferry's own flags of a command count, too. If several commands know as many of them, original flags decide.
  const count = (known: ReadonlySet<string>): number => names.filter((name) => known.has(name)).length;
  const ranks = ORIGINALS.map(({ all, own }) => count(all) * (names.length + 1) + count(own));
  const best = Math.max(...ranks);
  const [found, ...others] = ORIGINALS.filter((_, index) => ranks[index] === best).map(({ command }) => command);
  if (found === undefined || others.length === 0) return found;
  throw new UsageError(
    `these flags fit several commands: put the name of the command before them, one of ${[found, ...others].join(', ')}`,
  );
}

/** The names of the flags before `--`. Includes values that look like a flag (`-x`): no original has such a flag. */
function flagNames(argv: readonly string[]): string[] {
  const end = argv.indexOf('--');
  return (end === -1 ? argv : argv.slice(0, end)).map(flagName).filter((name) => name !== undefined);
}

function flagName(argument: string): string | undefined {
  return /^--?([^-=][^=]*)/.exec(argument)?.[1];
}
