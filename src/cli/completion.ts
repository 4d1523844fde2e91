/**
 * Completes command lines in a shell, as kubectl does. A short shell script runs `keyferry __complete WORD…` at each
 * Tab. Keyferry then prints the possible words for the command line so far.
 */
import type { Command, Option } from 'commander';

/** Each script passes the words up to the cursor. If Keyferry prints no word, the shell completes paths. */
export const SCRIPTS = {
  // Works also with the bash 3.2 of macOS. Keyferry's words have no spaces, and bash shows no descriptions.
  bash: `# bash completion for keyferry
_keyferry() {
  COMPREPLY=($("$1" __complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
}
complete -o bashdefault -o default -F _keyferry keyferry
`,
  zsh: `#compdef keyferry
_keyferry() {
  local -a answers
  answers=(\${(f)"$(keyferry __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)"})
  answers=(\${answers/$'\\t'/:})
  _describe 'answer' answers || _files
}
# Loaded by the completion system, or sourced.
if [ "$funcstack[1]" = _keyferry ]; then _keyferry "$@"; else compdef _keyferry keyferry; fi
`,
  fish: `# fish completion for keyferry
function __keyferry_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l answers (keyferry __complete $words[2..] 2>/dev/null)
  if count $answers >/dev/null
    printf '%s\\n' $answers
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c keyferry -f -a '(__keyferry_complete)'
`,
};

export type Shell = keyof typeof SCRIPTS;
export const SHELLS: readonly Shell[] = ['bash', 'zsh', 'fish'];

/**
 * The possible words in place of the last word. They are options if the last word begins with a dash, or if the command
 * takes no argument.
 * @param words the words between the program and the cursor. Bash splits `--option=value` into three words
 * @returns one line for each possible word: word, tab, description. Empty if the shell should complete paths
 */
export function completionsOf(program: Command, words: readonly string[]): string {
  const help = program.createHelp();
  const commands = help.visibleCommands(program);
  const target = words.length < 2 ? program : commands.find((command) => command.name() === words[0]);
  if (target === undefined) return '';
  // `current`: the last word. `option`: the option before it, if there is one. `sign`: `=` or a word break between.
  const last = /(?:^|\n)(?:(?<option>-[^\n=]+)(?<sign>\n?=\n?|\n))?(?<current>[^\n]*)$/.exec(words.join('\n'));
  const { option = '', sign = '', current = '' } = last?.groups ?? {};
  const options = help.visibleOptions(target);
  const valued = options.find((one) => (one.required || one.optional) && [one.short, one.long].includes(option));
  const offered = valued === undefined ? wordsOf(target, commands, options, current) : choicesOf(valued);
  const before = valued !== undefined && sign === '=' ? `${option}=` : '';
  return offered
    .filter(([word]) => word.startsWith(current))
    .map(([word, text = '']) => `${before}${word}\t${text.replaceAll(/\s+/g, ' ')}\n`)
    .join('');
}

/** A word that may be typed here, and its description. */
type Answer = readonly [word: string, text?: string];

/** Options that Keyferry parses by Go's rules have their choices only in the help text: `--log-level <debug|info>`. */
function choicesOf({ argChoices, flags }: Option): Answer[] {
  const choices = argChoices ?? /<([\w-]+(?:\|[\w-]+)+)>/.exec(flags)?.[1]?.split('|') ?? [];
  return choices.map((choice) => [choice]);
}

function wordsOf(target: Command, commands: readonly Command[], options: readonly Option[], current: string): Answer[] {
  const [argument] = target.registeredArguments;
  const takesCommand = target.parent === null || target.name() === 'help';
  if (current.startsWith('-') || (argument === undefined && !takesCommand)) {
    return options.flatMap(({ short, long, description }) =>
      [short, long].flatMap((name): Answer[] => (name === undefined ? [] : [[name, description]])),
    );
  }
  if (takesCommand) return commands.map((command) => [command.name(), command.description()]);
  return (argument?.argChoices ?? []).map((choice) => [choice]);
}
