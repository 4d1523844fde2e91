/** What the command line, its help and its completion need of a command, and what is the same for the short commands. */
import type { ExitCode } from '../commands/actions.ts';
import { type Flag, type FlagSections, flagsOf, type ProcessInfo } from '../config/flags/flags.ts';
import { type ParsedFlags, parseFlags } from '../config/flags/parse-flags.ts';
import { quoted, UsageError } from '../config/usage-error.ts';

/** A command for its help and its completion. */
export interface Described {
  readonly name: string;
  /** One line in the help. */
  readonly summary: string;
  readonly examples: readonly string[];
  readonly flags: readonly Flag<unknown>[];
  /** The arguments in the usage line: `<files...>`; absent: it takes none. */
  readonly operands?: string;
  /** Lines of the help about the arguments: word and text. */
  readonly operandHelp?: readonly (readonly [word: string, text: string])[];
  /** The words that an argument may be; absent: anything. */
  readonly words?: readonly string[];
  /** The kinds that the first argument may be, if the second is the name of an object. For completion. */
  readonly kinds?: readonly string[];
  /** More text of the help, for example about exit codes. */
  readonly notes?: string;
}

export interface Command extends Described {
  /** @returns `undefined`: help is requested @throws UsageError, and the errors of the action */
  readonly run: (argv: readonly string[]) => Promise<ExitCode | undefined>;
}

type ShortCommand<Sections extends FlagSections> = Omit<Described, 'flags'> & {
  readonly sections: Sections;
  /** The arguments that it needs, for the error if one is missing. */
  readonly needs?: readonly string[];
  readonly most?: number;
  readonly action: (parsed: ParsedFlags<Sections>) => Promise<ExitCode>;
};

/** A command that is not the operator: its arguments may stand before its flags. */
export function shortCommand<Sections extends FlagSections>(
  { sections, needs = [], most = needs.length, action, ...described }: ShortCommand<Sections>,
  env: ProcessInfo['env'],
): Command {
  return {
    ...described,
    flags: flagsOf(sections),
    run: async (argv) => {
      const parsed = parseFlags(sections, argv, env, 'anywhere');
      if (parsed.isHelp) return undefined;
      const { rest } = parsed;
      const missing = needs[rest.length];
      if (missing !== undefined) throw new UsageError(`missing required argument '${missing}'`);
      const more = rest[most];
      if (more !== undefined) throw new UsageError(`unexpected argument ${quoted(more)}`);
      if (described.words !== undefined && !described.words.includes(rest[0] ?? ''))
        throw new UsageError(`bad argument ${quoted(rest[0] ?? '')}: must be one of ${described.words.join(', ')}`);
      return await action(parsed);
    },
  };
}
