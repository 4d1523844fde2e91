/** The `sh` blocks of README and docs: their commands, which of them a test runs, and the programs that these need. */
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
  /** Why some of its commands are not run. */
  readonly reasons: readonly string[];
  /** @param possible - reasons that do not hold in the cluster of the test @throws as `runnable` */
  readonly commands: (possible?: readonly string[]) => string[];
}

/**
 * Commands that a test does not run, by the reason that the fence of their block names: `sh norun=no-pods,endless`. The other commands of such
 * a block run.
 */
const NOT_RUN: Readonly<Record<string, RegExp>> = {
  /** The test is in the checkout. */
  checkout: /^git clone|^npm ci$/,
  /** It starts servers of its own: test/scenarios/demo.test.ts. */
  demo: /^npm run demo/,
  /** They run until a signal; other tests start them. */
  endless: /^npx keyferry (run|generator|syncsecret-)|^keyferry status -w/,
  /** They need Pods, and a curl needs the port-forward before it: test/scenarios/pods/more/pages.test.ts runs these. */
  'no-pods': /^kubectl (-n \S+ )?(logs|port-forward)| POD\b|^until curl |^kill \$!$/,
  /** No cluster of the tests has one. */
  'no-metrics-server': /^kubectl (-n \S+ )?top /,
  /** The blocks after it need what it deletes: test/scenarios/chart. */
  undo: /^kubectl delete -f deploy\/keyferry\.yaml$/,
  /** Not every machine has them; src/cli/completion tests the scripts. */
  'no-shell': /^keyferry completion (zsh|fish)/,
  /** They read the audit log of an API server: test/scenarios/docs/audit.test.ts. */
  audit: /^jq /,
  /** No tenant has SyncSecrets here. */
  'no-syncsecrets': /^kubectl get syncsecrets -A -o json \| kubectl replace/,
  /** No release is published. */
  'no-release': /^(cosign|gh|npm audit) /,
  /** Vault's own program, for a server of the reader. */
  'no-vault': /^vault /,
};
/** What a reader replaces. */
const REPLACED: readonly (readonly [RegExp, string])[] = [
  [/TARGET-NAMESPACE\/NAME/g, 'team-a/mysecret'],
  [/NAMESPACE\/NAME/g, 'default/mysecret'],
  [/tenant-NAME/g, 'tenant-docs'],
  [/-n NAMESPACE/g, '-n default'],
  [/\bNAME\b/g, 'mysecret-mirror'],
  [/\bFILE\b/g, 'management.kubeconfig'],
];
/** A search that finds nothing, and what `plan` and `migrate` exit with if there is something to decide. */
const OTHER_CODES: readonly (readonly [RegExp, number])[] = [
  [/\| grep /, 1],
  [/keyferry (plan|migrate)|\| keyferry plan/, 3],
];
/** The `sh` blocks of a page. @param page from the project's root */
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

/** A text with what a reader writes in place of names. */
export function replaced(text: string): string {
  return REPLACED.reduce((result, [from, to]) => result.replaceAll(from, to), text);
}

/** Whether a command may end with this code. */
export function mayEndWith(code: unknown, command: string): boolean {
  return code === 0 || OTHER_CODES.some(([pattern, allowed]) => code === allowed && pattern.test(command));
}

/** Makes a folder for `PATH` with the programs of the pages. @returns the folder */
export async function programFolder(folder: string): Promise<string> {
  const bin = path.join(folder, 'bin');
  await mkdir(bin);
  for (const name of ['kubectl', 'helm', 'kustomize'] as const) {
    await symlink(await ensureServer(name), path.join(bin, name));
  }
  await symlink(path.join(ROOT, 'bin/keyferry.cjs'), path.join(bin, 'keyferry'));
  // In a checkout, npx finds keyferry.
  await writeFile(path.join(bin, 'npx'), '#!/bin/sh\nexec "$@"\n');
  await chmod(path.join(bin, 'npx'), 0o755);
  return bin;
}

function reasonsOf(mark: string): string[] {
  return mark.startsWith(MARK) ? mark.slice(MARK.length).split(',') : [];
}

/** The commands of a block. Lines of one command stay together. */
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
 * Those that can run.
 * @param mark of the block
 * @param possible - reasons that do not hold in the cluster of the test
 * @throws Error for a reason that this test does not know, or that no command of the block needs
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

/** A loop and its end are one command. */
function joined(commands: readonly string[]): string[] {
  const result: string[] = [];
  for (const command of commands) {
    if (/^(done|fi)\b/.test(command)) result.push(`${result.pop() ?? ''}\n${command}`);
    else result.push(command);
  }
  return result;
}

/** Indented in a list. */
function unindented(text: string): string {
  const indent = /^ */.exec(text)?.[0] ?? '';
  return text
    .split('\n')
    .map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line))
    .join('\n');
}
