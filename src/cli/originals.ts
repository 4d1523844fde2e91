/**
 * Which command a command line means that has the form of a program which Keyferry replaces (an original). Their
 * containers start them by name (`command: [/manager]`) or with flags alone, never with a command of Keyferry.
 */
import { basename } from 'node:path';
import { CONTROLLER_COMMANDS } from '../config/commands.ts';
import { UsageError } from '../config/usage-error.ts';

const ORIGINALS = CONTROLLER_COMMANDS.flatMap(({ name, original, flags }) => {
  if (original === undefined) return [];
  const binaries = [original.binary, original.olderBinary];
  return [{ command: name, binaries, own: original.flags, all: flags.map((flag) => flag.name) }];
});

/**
 * Puts Keyferry's command before the arguments, if the program was started under the name of an original, or if the
 * arguments have no command and begin with a flag of an original.
 * @throws UsageError: the flags fit several originals, or none
 */
export function withCommand(startedAs: readonly string[], argv: readonly string[]): readonly string[] {
  const byName = startedAs.flatMap((path) => ORIGINALS.filter(({ binaries }) => binaries.includes(basename(path))));
  const command = byName[0]?.command ?? commandOfFlags(argv);
  return command === undefined ? argv : [command, ...argv];
}

/** @returns `undefined`: the first argument is not a flag of an original */
function commandOfFlags(argv: readonly string[]): string | undefined {
  const names = argv.flatMap((word) => /^--?(?!h(?:elp)?$)([^-=][^=]*)/.exec(word)?.[1] ?? []);
  if (argv[0]?.startsWith('-') !== true || !ORIGINALS.some(({ own }) => own.includes(names[0] ?? ''))) return undefined;
  // Originals that have all of these flags; if there are none, those whose command has them.
  const exact = ORIGINALS.filter(({ own }) => names.every((name) => own.includes(name)));
  const wider = ORIGINALS.filter(
    ({ own, all }) => names.some((name) => own.includes(name)) && names.every((name) => all.includes(name)),
  );
  const [found, ...others] = (exact.length > 0 ? exact : wider).map(({ command }) => command);
  if (found !== undefined && others.length === 0) return found;
  const flags = names.map((name) => `--${name}`).join(', ');
  const fit = found === undefined ? `no command has all of ${flags}` : `these flags fit several commands (${flags})`;
  const choice = found === undefined ? '' : `, one of ${[found, ...others].join(', ')}`;
  throw new UsageError(`${fit}: put the name of the command before them${choice}`);
}
