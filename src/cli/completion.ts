/**
 * Completes command lines in a shell, as kubectl does. A short shell script runs `keyferry __complete WORD…`, which
 * answers from its own tree of commands.
 */
import type { Command, Option } from 'commander';

/** Each script passes the words up to the cursor. If no answer comes, the shell completes paths. */
export const SCRIPTS = {
  // Works with bash 3.2 on macOS, too. Answers have no spaces, and bash shows no descriptions.
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
 * Completes the last word. Options are offered if the word begins with a dash, or if the command takes nothing else.
 * @param words those between the program and the cursor. Bash splits `--option=value` into three words
 * @returns one line for each answer: word, tab, description. None if the shell should complete paths
 */
export function completionsOf(program: Command, words: readonly string[]): string {
  const help = program.createHelp();
  const commands = help.visibleCommands(program);
  const target = words.length < 2 ? program : commands.find((command) => command.name() === words[0]);
  if (target === undefined) return '';
  // The last word, and an option before it: joined by `=`, or as a word of its own.
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

/** An answer and its description. */
type Answer = readonly [word: string, text?: string];

/** If the library does not parse a flag, its choices are only in the text: `--log-level <debug|info>`. */
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
