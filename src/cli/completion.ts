/**
 * Completion scripts for shells, made from the tree of commands. They complete commands, options, and values that are known; other words
 * are completed as paths.
 */
import type { Command, Option } from 'commander';

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript };

export type Shell = keyof typeof SCRIPTS;
export const SHELLS: readonly Shell[] = ['bash', 'zsh', 'fish'];

/** The script, with a line end. */
export function completionScript(commands: readonly CompletedCommand[], shell: Shell): string {
  return `${SCRIPTS[shell](commands).join('\n')}\n`;
}

/** Also for bash 3.2, the one of macOS. An empty answer makes bash complete paths. */
function bashScript(commands: readonly CompletedCommand[]): string[] {
  const values = commands.flatMap(({ name, options }) =>
    options
      .filter(({ takesValue }) => takesValue)
      .map(({ names, choices }) => {
        const patterns = names.map((option) => `'${name} ${option}'`).join('|');
        return `    ${patterns}) words='${choices.join(' ')}' ;;`;
      }),
  );
  const words = commands.map(({ name, options, choices }) => {
    const all = [...choices, ...options.flatMap(({ names }) => names)].join(' ');
    return `        ${name}) words='${all}' ;;`;
  });
  return [
    '# bash completion for keyferry',
    '_keyferry() {',
    '  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" words=',
    '  COMPREPLY=()',
    '  if [ "$COMP_CWORD" -eq 1 ]; then',
    `    COMPREPLY=($(compgen -W '${commands.map(({ name }) => name).join(' ')} --help --version' -- "$current"))`,
    '    return',
    '  fi',
    '  # bash makes three words of --option=value.',
    '  if [ "$current" = = ]; then',
    '    current=',
    '  elif [ "$previous" = = ]; then',
    '    previous="${COMP_WORDS[COMP_CWORD-2]}"',
    '  fi',
    '  case "${COMP_WORDS[1]} $previous" in',
    ...values,
    '    *)',
    '      case "${COMP_WORDS[1]}" in',
    ...words,
    '      esac ;;',
    '  esac',
    '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
    '}',
    'complete -o bashdefault -o default -F _keyferry keyferry',
  ];
}

function zshScript(commands: readonly CompletedCommand[]): string[] {
  const cases = commands.map(({ name, options, hasArguments, choices }) => {
    const paths = hasArguments ? ["'*:file:_files'"] : [];
    const rest = choices.length === 0 ? paths : [`'1:value:(${choices.join(' ')})'`];
    return `    ${name}) _arguments ${[...options.map((option) => zshOption(option)), ...rest].join(' ')} ;;`;
  });
  return [
    '#compdef keyferry',
    '_keyferry() {',
    '  local -a commands',
    '  commands=(',
    ...commands.map(({ name, summary }) => `    ${quoted(`${name}:${summary}`)}`),
    '  )',
    '  if (( CURRENT == 2 )); then',
    "    _describe -t commands 'command' commands",
    "    _arguments '--help[print help]' '--version[print the version]'",
    '    return',
    '  fi',
    '  # _arguments then sees the words of the command.',
    '  shift words',
    '  (( CURRENT-- ))',
    '  case "$words[1]" in',
    ...cases,
    '  esac',
    '}',
    '# Loaded by the completion system, or sourced.',
    'if [ "$funcstack[1]" = _keyferry ]; then _keyferry "$@"; else compdef _keyferry keyferry; fi',
  ];
}

function zshOption({ names, summary, takesValue, choices }: CompletedOption): string {
  const text = `[${summary.replaceAll(/[[\]\\:]/g, String.raw`\$&`)}]`;
  const value = takesValue ? `:value:${choices.length === 0 ? '_files' : `(${choices.join(' ')})`}` : '';
  // A long option takes its value also after `=`.
  const specs = names.map((name) => `${name}${takesValue && name.startsWith('--') ? '=' : ''}`);
  const others = names.length > 1 ? `(${names.join(' ')})` : '';
  return specs.map((spec) => quoted(`${others}${spec}${text}${value}`)).join(' ');
}

function fishScript(commands: readonly CompletedCommand[]): string[] {
  return [
    '# fish completion for keyferry',
    'complete -c keyferry -n __fish_use_subcommand -f',
    "complete -c keyferry -n __fish_use_subcommand -l help -d 'print help'",
    "complete -c keyferry -n __fish_use_subcommand -l version -d 'print the version'",
    ...commands.flatMap(({ name, summary, options, hasArguments, choices }) => {
      const after = `complete -c keyferry -n '__fish_seen_subcommand_from ${name}'`;
      return [
        `complete -c keyferry -n __fish_use_subcommand -a ${name} -d ${fishQuoted(summary)}`,
        ...(choices.length === 0 ? [] : [`${after} -a '${choices.join(' ')}'`]),
        ...(choices.length === 0 && hasArguments ? [] : [`${after} -f`]),
        ...options.map((option) => `${after} ${fishOption(option)}`),
      ];
    }),
  ];
}

function fishOption({ names, summary, takesValue, choices }: CompletedOption): string {
  const flags = names.map((name) => (name.startsWith('--') ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`));
  // -x: only these values; -r: a value is required, which may be a path.
  const value = choices.length > 0 ? ` -x -a '${choices.join(' ')}'` : takesValue ? ' -r' : '';
  return `${flags.join(' ')}${value} -d ${fishQuoted(summary)}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

function fishQuoted(text: string): string {
  return `'${text.replaceAll(/['\\]/g, String.raw`\$&`)}'`;
}

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
