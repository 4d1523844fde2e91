/**
 * Splits a command line as Go's `flag` package does, so that the arguments of a Deployment written for a Go program
 * mean the same here: one or two dashes, `=` or the next argument for the value, booleans without value. Different
 * from GNU style, a boolean never takes the next argument, and the first argument that is no flag ends the flags.
 */
import { shown, UsageError } from './usage-error.ts';

export interface GoFlags {
  /** In the order given; of a flag that is given twice the last one counts. A boolean without value has `true`. */
  readonly flags: readonly (readonly [name: string, value: string])[];
  /** What follows the flags: the first argument that is no flag, or what stands after `--`, and all behind it. */
  readonly rest: readonly string[];
  /** `-h`, `-help` or `--help` was given. */
  readonly help: boolean;
}

/**
 * @param isBool whether a flag of this name is boolean; `undefined` if there is none
 * @throws UsageError for an unknown flag, a missing value, or something like `--=x`
 */
export function splitGoFlags(argv: readonly string[], isBool: (name: string) => boolean | undefined): GoFlags {
  const flags: [string, string][] = [];
  for (let at = 0; at < argv.length; at++) {
    const argument = argv[at] ?? '';
    if (argument === '--') return { flags, rest: argv.slice(at + 1), help: false };
    if (argument.length < 2 || !argument.startsWith('-')) return { flags, rest: argv.slice(at), help: false };
    const text = argument.slice(argument.startsWith('--') ? 2 : 1);
    if (text === '' || text.startsWith('-') || text.startsWith('=')) {
      throw new UsageError(`bad flag syntax: ${shown(argument)}`);
    }
    const equals = text.indexOf('=');
    const name = equals === -1 ? text : text.slice(0, equals);
    const bool = isBool(name);
    if (bool === undefined) {
      if (name === 'h' || name === 'help') return { flags, rest: [], help: true };
      throw new UsageError(`unknown flag --${name}`);
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
