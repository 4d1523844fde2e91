/**
 * Completes command lines in a shell, as kubectl does. A short shell script runs `keyferry __complete WORD…` at each
 * Tab. Keyferry then prints the possible words for the command line so far.
 */
import type { Flag } from '../config/flags/flags.ts';
import type { Wanted } from '../commands/actions.ts';
import type { Described } from './command.ts';
import { helpOf, namesOf } from './help.ts';

/**
 * Each script passes the words up to the cursor. If Keyferry prints no word, the shell completes paths. After a word that
 * ends with a slash (`NAMESPACE/`), more follows, so no blank does.
 */
export const SCRIPTS = {
  // Works also with the bash 3.2 of macOS. Keyferry's words have no spaces, and bash shows no descriptions. Where the
  // package bash-completion is there, words may have colons, as the names of contexts in AWS have.
  bash: `# bash completion for keyferry
_keyferry() {
  local cur cword words
  if declare -F __ltrim_colon_completions >/dev/null; then _get_comp_words_by_ref -n : cur cword words
  else words=("\${COMP_WORDS[@]}") cword=$COMP_CWORD; fi
  COMPREPLY=($("$1" __complete "\${words[@]:1:cword}" 2>/dev/null | cut -f1))
  case "\${COMPREPLY[0]}" in */) compopt -o nospace 2>/dev/null ;; esac
  if [ -n "$cur" ]; then __ltrim_colon_completions "$cur"; fi
}
complete -o bashdefault -o default -F _keyferry keyferry
`,
  zsh: `#compdef keyferry
_keyferry() {
  local -a answers suffix
  answers=(\${(f)"$(keyferry __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)"})
  [[ "\${answers[1]%%$'\\t'*}" = */ ]] && suffix=(-S '')
  answers=(\${answers//:/\\\\:})
  answers=(\${answers/$'\\t'/:})
  _describe 'answer' answers $suffix || _files
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

/** What the words before the cursor say. */
interface Line {
  /** The values of the flags, by their names. */
  readonly values: ReadonlyMap<string, string>;
  readonly operands: readonly string[];
}

/**
 * The possible words in place of the last word. They are flags if the last word begins with a dash, or if the command
 * takes no argument.
 * @param words the words between the program and the cursor. Bash splits `--flag=value` into three words
 * @param look asks the kubeconfig or the cluster. If it fails, there are no words: nobody reads errors at a Tab
 * @returns one line for each possible word: word, tab, description. Empty if the shell should complete paths
 */
export async function completionsOf(
  commands: readonly Described[],
  words: readonly string[],
  look: (wanted: Wanted) => Promise<readonly string[]>,
): Promise<string> {
  const command = words.length < 2 ? undefined : commands.find(({ name }) => name === words[0]);
  if (words.length >= 2 && words[0] !== 'help' && command === undefined) return '';
  // `current`: the last word. `name`: the flag before it, if there is one. `sign`: `=` or a word break between.
  const last = /(?:^|\n)(?:(?<name>-[^\n=]+)(?<sign>\n?=\n?|\n))?(?<current>[^\n]*)$/.exec(words.join('\n'));
  const { name = '', sign = '', current = '' } = last?.groups ?? {};
  const valued = command?.flags.find((one) => !one.isBool && namesOf(one).includes(name));
  const line = lineOf(command?.flags ?? [], words);
  const wanted = command && wantedAt(command, valued, line, current);
  const found = wanted && (await look(wanted).catch(() => [])).map((word): Answer => [word]);
  const fixed = valued === undefined ? wordsOf(command, commands, current, line) : choicesOf(valued);
  const before = valued !== undefined && sign === '=' ? `${name}=` : '';
  return (found ?? fixed)
    .filter(([word]) => word.startsWith(current))
    .map(([word, text = '']) => `${before}${word}\t${text.replaceAll(/\s+/g, ' ')}\n`)
    .join('');
}

function lineOf(flags: readonly Flag<unknown>[], words: readonly string[]): Line {
  const values = new Map<string, string>();
  const operands: string[] = [];
  const rest = words
    .join('\n')
    .replaceAll(/\n=\n?/g, '=')
    .split('\n')
    .slice(1, -1);
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    const [, name = '', value] = /^(-[^=]+)(?:=(.*))?$/s.exec(word) ?? [];
    const flag = flags.find((one) => namesOf(one).includes(name));
    const given = value ?? (flag?.isBool === false ? rest.shift() : undefined);
    if (name === '') operands.push(word);
    else if (flag !== undefined && given !== undefined) values.set(flag.name, given);
  }
  return { values, operands };
}

/** What the kubeconfig or the cluster must be asked for; `undefined`: nothing. */
function wantedAt(
  { kinds }: Described,
  valued: Flag<unknown> | undefined,
  { values, operands: [kind = ''] }: Line,
  current: string,
): Wanted | undefined {
  const isObject = valued === undefined && kinds !== undefined && kind !== '' && !current.startsWith('-');
  const what = valued === undefined ? (isObject ? 'objects' : undefined) : LOOKED_UP[valued.name];
  const [kubeconfig, context, namespace] = ['kubeconfig', 'context', 'namespace'].map((name) => values.get(name));
  return what && { what, kubeconfig, context, kind, namespace, current };
}

/** The flags whose values the kubeconfig or the cluster knows. */
const LOOKED_UP: Readonly<Record<string, Wanted['what']>> = { context: 'contexts', namespace: 'namespaces' };

function choicesOf({ hint }: Flag<unknown>): Answer[] {
  return hint.includes('|') ? hint.split('|').map((choice) => [choice]) : [];
}

/** @param command `undefined`: the program itself, or its command `help` */
function wordsOf(
  command: Described | undefined,
  commands: readonly Described[],
  current: string,
  { operands }: Line,
): readonly Answer[] {
  if (command === undefined) {
    if (current.startsWith('-')) return [...HELP, ['-V', 'print the version'], ['--version', 'print the version']];
    return [...commands.map(({ name, summary }): Answer => [name, summary]), ['help', 'print help']];
  }
  if (current.startsWith('-') || command.operands === undefined) {
    return [...command.flags.flatMap((one) => namesOf(one).map((word): Answer => [word, helpOf(one)])), ...HELP];
  }
  if (operands.length > 0) return [];
  return (command.words ?? command.kinds ?? []).map((word) => [word]);
}
