/**
 * Reads the `sh` blocks of README and docs: all their commands, the commands that a test can run, and the programs that
 * these need.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';

import { ensureServer } from '../../servers/ensure.ts';
import { codeBlocks } from '../../support/markdown.ts';

const ROOT = path.join(import.meta.dirname, '../../..');
const MARK = 'norun=';

export interface ShellBlock {
  readonly heading: string;
  readonly text: string;
  /** Reasons in the fence of the block why some of its commands are not run. */
  readonly reasons: readonly string[];
  /**
   * The commands of the block that can run.
   * @param possible - reasons that do not apply in the cluster of the test
   * @throws as `runnable`
   */
  readonly commands: (possible?: readonly string[]) => string[];
}

/**
 * Commands that a test does not run. Keys: the reason in the fence of their block, as in `sh norun=no-pods,endless`.
 * The test runs the other commands of the block.
 */
const NOT_RUN: Readonly<Record<string, RegExp>> = {
  /** Commands that make the checkout. The test runs in a checkout already. */
  checkout: /^git clone|^npm ci$/,
  /** Commands of the demo, which starts its own servers. test/scenarios/demo.test.ts runs the demo. */
  demo: /^npm run demo/,
  /** Commands that run until a signal. Other tests start them. */
  endless: /^(npx --no )?keyferry (run|generator|syncsecret-|status -w|ui(?! --out))/,
  /**
   * Commands that need Pods, and a curl to a port that is forwarded to a Pod. test/scenarios/pods/more/pages.test.ts
   * runs these commands.
   */
  'no-pods': /^kubectl (-n \S+ )?(exec|logs|port-forward)| POD\b|^until curl |^kill \$!$/,
  /** Commands that need the metrics-server. No cluster of the tests has it. */
  'no-metrics-server': /^kubectl (-n \S+ )?top /,
  /** Commands that delete objects which later blocks need. test/scenarios/chart tests these commands. */
  undo: /^kubectl delete -f deploy\/keyferry\.yaml$/,
  /** Completion for shells that some machines do not have. src/cli/completion tests the scripts. */
  'no-shell': /^keyferry completion (zsh|fish)/,
  /** Commands that read the audit log of an API server. test/scenarios/docs/more/audit.test.ts runs these commands. */
  audit: /^jq /,
  /** Commands for SyncSecrets. This cluster has no SyncSecrets. */
  'no-syncsecrets': /^kubectl get syncsecrets -A -o json \| kubectl replace/,
  /** Commands that check a published release. */
  'no-release': /^(cosign|gh|npm audit) /,
  /** Commands about the Deployments of an original and of Keyferry. The tests change-over.test.ts run these commands. */
  'no-original': /^kubectl scale -n \S+ deployment\//,
  /** Commands of Vault's own program, for a Vault of the reader. */
  'no-vault': /^vault /,
};
/** Placeholders in the commands, and the names with which the test replaces them. */
const REPLACED: readonly (readonly [RegExp, string])[] = [
  [/TARGET-NAMESPACE\/NAME/g, 'team-a/mysecret'],
  [/NAMESPACE\/NAME/g, 'default/mysecret'],
  [/tenant-NAME/g, 'tenant-docs'],
  [/-n NAMESPACE/g, '-n default'],
  [/\bNAME\b/g, 'mysecret-mirror'],
  [/\bFILE\b/g, 'management.kubeconfig'],
];
/**
 * Exit codes other than 0 that are no failure: of a search without a result, of `explain` of what does not exist, and of
 * `plan` if a user must decide something.
 */
const OTHER_CODES: readonly (readonly [RegExp, number])[] = [
  [/\| grep /, 1],
  [/keyferry explain /, 1],
  [/keyferry plan/, 3],
];
/** The `sh` blocks of a page. @param page - the page's path from the project's root */
export function shellBlocks(page: string): ShellBlock[] {
  return codeBlocks(readFileSync(path.join(ROOT, page), 'utf8'))
    .filter(({ language }) => language === 'sh')
    .map(({ heading, mark, text }) => ({
      heading,
      text,
      reasons: reasonsOf(mark),
      commands: (possible = []) => runnable(commandsIn(unindented(text)), mark, possible),
    }));
}

/** The text in which each placeholder is replaced by a name, as a reader would do. */
export function replaced(text: string): string {
  return REPLACED.reduce((result, [from, to]) => result.replaceAll(from, to), text);
}

/** Whether a command may end with this exit code. */
export function mayEndWith(code: unknown, command: string): boolean {
  return code === 0 || OTHER_CODES.some(([pattern, allowed]) => code === allowed && pattern.test(command));
}

/** Makes a folder for `PATH` with the programs that the pages use. @returns the folder */
export async function programFolder(folder: string): Promise<string> {
  const bin = path.join(folder, 'bin');
  await mkdir(bin);
  for (const name of ['kubectl', 'helm', 'kustomize'] as const) {
    await symlink(await ensureServer(name), path.join(bin, name));
  }
  await symlink(path.join(ROOT, 'bin/keyferry.cjs'), path.join(bin, 'keyferry'));
  // `npx --no keyferry` finds the program only in the checkout. This script finds it in every folder.
  await writeFile(path.join(bin, 'npx'), '#!/bin/sh\nshift\nexec "$@"\n');
  await chmod(path.join(bin, 'npx'), 0o755);
  return bin;
}

function reasonsOf(mark: string): string[] {
  return mark.startsWith(MARK) ? mark.slice(MARK.length).split(',') : [];
}

/** The commands of a block. A command of several lines is one element. */
function commandsIn(block: string): string[] {
  const commands: string[] = [];
  for (const line of block.split('\n')) {
    const last = commands.at(-1)?.trimEnd() ?? '';
    const isInText = last.includes("<<'EOF'") && !last.endsWith('\nEOF');
    const isContinued = isInText || /\\$|\|$|; do$/.test(last) || /^\s/.test(line);
    if (isContinued && commands.length > 0) commands[commands.length - 1] += `\n${line}`;
    else commands.push(line);
  }
  return joined(commands).filter((command) => command.trim() !== '');
}

/**
 * The commands of a block that can run.
 * @param mark - the text in the fence of the block
 * @param possible - reasons that do not apply in the cluster of the test
 * @throws Error if a reason is unknown, or if it applies to no command of the block
 */
function runnable(commands: readonly string[], mark: string, possible: readonly string[]): string[] {
  if (mark === '') return [...commands];
  assert.match(mark, /^norun=/, 'a block has no other mark');
  const patterns = reasonsOf(mark).flatMap((reason) => {
    const pattern = NOT_RUN[reason];
    assert.ok(pattern, `"${reason}" is none of the reasons ${Object.keys(NOT_RUN).join(', ')}`);
    assert.ok(
      commands.some((command) => pattern.test(command)),
      `no command of the block needs "${reason}"`,
    );
    return possible.includes(reason) ? [] : [pattern];
  });
  return commands.filter((command) => !patterns.some((pattern) => pattern.test(command)));
}

/** Joins the `done` or `fi` of a loop or condition to the command that begins it. */
function joined(commands: readonly string[]): string[] {
  const result: string[] = [];
  for (const command of commands) {
    if (/^(done|fi)\b/.test(command)) result.push(`${result.pop() ?? ''}\n${command}`);
    else result.push(command);
  }
  return result;
}

/** The text without the indentation of the list in which it stands. */
function unindented(text: string): string {
  const indent = /^ */.exec(text)?.[0] ?? '';
  return text
    .split('\n')
    .map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line))
    .join('\n');
}
