/**
 * Splits a command line as Go's `flag` package does, so that the arguments in a Deployment of an original keep their meaning:
 * one or two dashes, `=` or the next argument for the value, booleans without a value. Unlike GNU style, a boolean never takes
 * the next argument, and the first argument that is not a flag ends the flags.
 */
import { quoted, UsageError } from '../usage-error.ts';

export interface GoFlags {
  /** In the order of the command line. A boolean without a value has `true`. */
  readonly flags: readonly (readonly [name: string, value: string])[];
  /** The arguments after the flags: from the first argument that is not a flag, or after `--`. */
  readonly rest: readonly string[];
  /** `-h`, `-help` or `--help` was given. */
  readonly help: boolean;
}

/**
 * @param isBool whether the flag of this name is boolean; `undefined` if the flag does not exist
 * @param hintFor end of the error for an unknown flag
 * @throws UsageError for an unknown flag, a missing value, or something like `--=x`
 */
export function splitGoFlags(
  argv: readonly string[],
  isBool: (name: string) => boolean | undefined,
  hintFor: (name: string) => string = () => '',
): GoFlags {
  const flags: [string, string][] = [];
  for (let at = 0; at < argv.length; at++) {
    const argument = argv[at] ?? '';
    if (argument === '--') return { flags, rest: argv.slice(at + 1), help: false };
    if (argument.length < 2 || !argument.startsWith('-')) return { flags, rest: argv.slice(at), help: false };
    const text = argument.slice(argument.startsWith('--') ? 2 : 1);
    if (text === '' || text.startsWith('-') || text.startsWith('=')) {
      throw new UsageError(`bad flag syntax: ${quoted(argument)}`);
    }
    const equals = text.indexOf('=');
    const name = equals === -1 ? text : text.slice(0, equals);
    const bool = isBool(name);
    if (bool === undefined) {
      if (name === 'h' || name === 'help') return { flags, rest: [], help: true };
      const written = argument.slice(0, argument.length - text.length + name.length);
      throw new UsageError(`unknown flag ${written}${hintFor(name)}`);
    }
    if (equals !== -1) {
      flags.push([name, text.slice(equals + 1)]);
    } else if (bool) {
      flags.push([name, 'true']);
    } else {
      at += 1;
      const value = argv[at];
      if (value === undefined) throw new UsageError(`--${name} needs a value`);
      flags.push([name, value]);
    }
  }
  return { flags, rest: [], help: false };
}
