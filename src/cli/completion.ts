/**
 * Completes command lines in a shell, as kubectl does. A short shell script runs `keyferry __complete WORD…` at each
 * Tab. Keyferry then prints the possible words for the command line so far.
 */
import type { Flag } from '../config/flags/flags.ts';
import type { Described } from './command.ts';
import { helpOf, namesOf } from './help.ts';

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

/** A word that may be typed here, and its description. */
type Answer = readonly [word: string, text?: string];

const HELP: readonly Answer[] = [
  ['-h', 'print help'],
  ['--help', 'print help'],
];

/**
 * The possible words in place of the last word. They are flags if the last word begins with a dash, or if the command
 * takes no argument.
 * @param words the words between the program and the cursor. Bash splits `--flag=value` into three words
 * @returns one line for each possible word: word, tab, description. Empty if the shell should complete paths
 */
export function completionsOf(commands: readonly Described[], words: readonly string[]): string {
  const command = words.length < 2 ? undefined : commands.find(({ name }) => name === words[0]);
  if (words.length >= 2 && words[0] !== 'help' && command === undefined) return '';
  // `current`: the last word. `name`: the flag before it, if there is one. `sign`: `=` or a word break between.
  const last = /(?:^|\n)(?:(?<name>-[^\n=]+)(?<sign>\n?=\n?|\n))?(?<current>[^\n]*)$/.exec(words.join('\n'));
  const { name = '', sign = '', current = '' } = last?.groups ?? {};
  const valued = command?.flags.find((one) => !one.isBool && namesOf(one).includes(name));
  const offered = valued === undefined ? wordsOf(command, commands, current) : choicesOf(valued);
  const before = valued !== undefined && sign === '=' ? `${name}=` : '';
  return offered
    .filter(([word]) => word.startsWith(current))
    .map(([word, text = '']) => `${before}${word}\t${text.replaceAll(/\s+/g, ' ')}\n`)
    .join('');
}

function choicesOf({ hint }: Flag<unknown>): Answer[] {
  return hint.includes('|') ? hint.split('|').map((choice) => [choice]) : [];
}

/** @param command `undefined`: the program itself, or its command `help` */
function wordsOf(command: Described | undefined, commands: readonly Described[], current: string): readonly Answer[] {
  if (command === undefined) {
    if (current.startsWith('-')) return [...HELP, ['-V', 'print the version'], ['--version', 'print the version']];
    return [...commands.map(({ name, summary }): Answer => [name, summary]), ['help', 'print help']];
  }
  if (current.startsWith('-') || command.operands === undefined) {
    return [...command.flags.flatMap((one) => namesOf(one).map((word): Answer => [word, helpOf(one)])), ...HELP];
  }
  return (command.words ?? []).map((word) => [word]);
}
