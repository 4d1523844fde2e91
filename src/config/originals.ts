/**
 * The programs that Keyferry replaces. Their containers start them by name (`command: [/manager]`) or with flags alone, never with
 * a subcommand of ours.
 *
 * Names of the binaries: the Dockerfiles of ktsstudio/mirrors, olli-ai/k8s-replicator, kubermatic/kubelb and the Bash controller.
 */
import { CONTROLLER_COMMANDS } from './commands.ts';
import { UsageError } from './usage-error.ts';

interface Original {
  /** The command of Keyferry that replaces the program. */
  readonly command: string;
  readonly binary: string;
  /** The names of its own flags. */
  readonly flags: ReadonlySet<string>;
  /** The names of all flags of the command. */
  readonly all: ReadonlySet<string>;
}

const ORIGINALS: readonly Original[] = CONTROLLER_COMMANDS.flatMap(({ name, original, flags }) => {
  if (original === undefined) return [];
  const all = new Set(flags.map((flag) => flag.name));
  return [{ command: name, binary: original.binary, flags: new Set(original.flags), all }];
});

/** The command whose original has this program name; `undefined` if there is none. */
export function commandOfBinary(name: string): string | undefined {
  return ORIGINALS.find(({ binary }) => binary === name)?.command;
}

/**
 * The command whose original has these flags, for a command line without a subcommand.
 * @returns `undefined` if the first argument is not a flag of any original
 * @throws UsageError if the flags fit more than one original equally well
 */
export function commandOfFlags(argv: readonly string[]): string | undefined {
  const names = flagNames(argv);
  const [first] = names;
  if (first === undefined || first !== flagName(argv[0] ?? '')) return undefined;
  if (!ORIGINALS.some(({ flags }) => flags.has(first))) return undefined;
  // Flags that only Keyferry's command has count, too. Between equal commands the flags of the original decide.
  const ranked = ORIGINALS.map(({ command, flags, all }) => ({
    command,
    rank: [count(names, all), count(names, flags)] as const,
  }));
  const best = ranked.reduce((a, b) => (compare(b.rank, a.rank) > 0 ? b : a)).rank;
  const [found, ...others] = ranked.filter(({ rank }) => compare(rank, best) === 0).map(({ command }) => command);
  if (found === undefined || others.length === 0) return found;
  throw new UsageError(
    `these flags fit several commands: put the name of the command before them, one of ${[found, ...others].join(', ')}`,
  );
}

/** The names of the flags before `--`. A value that looks like a flag is harmless: no original has a flag of that name. */
function flagNames(argv: readonly string[]): string[] {
  const end = argv.indexOf('--');
  return (end === -1 ? argv : argv.slice(0, end)).map(flagName).filter((name) => name !== undefined);
}

function flagName(argument: string): string | undefined {
  return /^--?([^-=][^=]*)/.exec(argument)?.[1];
}

function count(names: readonly string[], known: ReadonlySet<string>): number {
  return names.filter((name) => known.has(name)).length;
}

function compare(a: readonly [number, number], b: readonly [number, number]): number {
  return a[0] - b[0] || a[1] - b[1];
}
