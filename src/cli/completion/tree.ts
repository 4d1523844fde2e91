/** The commands of a program and their options, as a completion script needs them. */
import type { Command, Option } from 'commander';

export interface CompletedOption {
  /** `-o`, `--output`. */
  readonly names: readonly string[];
  /** One line. */
  readonly summary: string;
  readonly takesValue: boolean;
  /** Its values, if they are known. */
  readonly choices: readonly string[];
}

export interface CompletedCommand {
  readonly name: string;
  /** One line. */
  readonly summary: string;
  readonly options: readonly CompletedOption[];
  readonly hasArguments: boolean;
  /** The values of its first argument, if they are known. */
  readonly choices: readonly string[];
}

/** The commands in the order of the help. Names and choices consist of letters, digits and `-`. */
export function commandTree(program: Command): readonly CompletedCommand[] {
  const help = program.createHelp();
  return help.visibleCommands(program).map((command) => {
    const name = command.name();
    const isHelp = name === 'help';
    return {
      name,
      summary: oneLine(command.description()),
      options: isHelp ? [] : help.visibleOptions(command).map((option) => completedOption(option)),
      hasArguments: isHelp || command.registeredArguments.length > 0,
      choices: isHelp ? program.commands.map((one) => one.name()) : (command.registeredArguments[0]?.argChoices ?? []),
    };
  });
}

function completedOption({ short, long, description, argChoices, required, optional, flags }: Option): CompletedOption {
  // Of flags that the library does not parse, only the text names the choices: `--log-level <debug|info>`.
  const written = /<([\w-]+(?:\|[\w-]+)+)>/.exec(flags)?.[1]?.split('|');
  return {
    names: [short, long].flatMap((name) => name ?? []),
    summary: oneLine(description),
    takesValue: required || optional,
    choices: argChoices ?? written ?? [],
  };
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim();
}
