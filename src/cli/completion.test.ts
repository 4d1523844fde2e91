/** The words that Keyferry offers for completion, and the scripts in real shells: bash; zsh and fish if installed. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, describe, it } from 'node:test';
import type { CliContext, Wanted } from '../commands/actions.ts';
import { ruleCollections } from '../commands/readers.ts';
import { KINDS } from '../commands/snapshot/inventory.ts';
import { SCRIPTS, type Shell, SHELLS } from './completion.ts';
import { runCli } from './program.ts';
import { EXPLAINED_KINDS } from './short-commands.ts';

/** What the last completion asked the kubeconfig or the cluster for, and what they answer. */
const asked: Wanted[] = [];
let found: readonly string[] | Error = [];

/** The words that Keyferry offers. @param words those after `keyferry`; the cursor is at the end of the last one */
async function answers(...words: readonly string[]): Promise<string[]> {
  let text = '';
  asked.length = 0;
  const complete = async (wanted: Wanted): Promise<readonly string[]> => {
    asked.push(wanted);
    return await (found instanceof Error ? Promise.reject(found) : Promise.resolve(found));
  };
  const stdout = (part: string): void => void (text += part);
  const context = { stdout, startedAs: [], processInfo: { env: {} }, actions: { complete } };
  assert.equal(await runCli(context as unknown as CliContext, ['__complete', ...words]), 0);
  return [...text.matchAll(/^(\S+)\t.*\n/gm)].map(([, word = '']) => word);
}

describe('keyferry __complete', () => {
  it('the first word is completed to the names of all commands except __complete', async () => {
    assert.deepEqual(await answers('sta'), ['status']);
    const all = await answers('');
    for (const word of ['run', 'mirrors', 'plan', 'help']) assert.ok(all.includes(word), word);
    assert.deepEqual(await answers('__'), []);
    assert.deepEqual(await answers('--v'), ['--version']);
  });

  it('a word with a dash is completed to options; after a command that takes no argument, every word is', async () => {
    assert.deepEqual(await answers('status', '--all'), ['--all-namespaces']);
    assert.deepEqual(await answers('plan', '--all'), ['--all']);
    for (const name of ['status', 'explain']) assert.deepEqual(await answers(name, '--exit'), ['--exit-code']);
    assert.deepEqual(await answers('plan', '-f'), ['-f']);
    assert.deepEqual(await answers('run', '--leader-elect-re'), [
      '--leader-elect-renew-deadline',
      '--leader-elect-retry-period',
    ]);
    assert.ok((await answers('status', '')).includes('--failed'));
  });

  it('the value of an option or argument is completed to its allowed values', async () => {
    for (const words of [
      ['status', '-o', 'j'],
      ['status', '--failed', '--output', 'j'],
      ['status', '--output', '=', 'j'],
    ]) {
      assert.deepEqual(await answers(...words), ['json'], words.join(' '));
    }
    assert.deepEqual(await answers('status', '--output=j'), ['--output=json']);
    assert.deepEqual(await answers('plan', '--output', '='), ['table', 'json', 'yaml']);
    assert.deepEqual(await answers('run', '--log-level', 'w'), ['warn']);
    assert.deepEqual(await answers('completion', ''), [...SHELLS]);
    assert.deepEqual(await answers('help', 'pl'), ['plan']);
  });

  it('names of contexts, namespaces and objects come from the kubeconfig and the cluster that the flags so far name', async () => {
    const nothing = { kubeconfig: undefined, context: undefined, kind: '', namespace: undefined, current: '' };
    const cases: readonly (readonly [readonly string[], object])[] = [
      [['status', '--context', ''], { what: 'contexts' }],
      [['status', '--kubeconfig=k', '--context', '=', ''], { what: 'contexts', kubeconfig: 'k' }],
      [['ui', '--context', '=', 'c', '-n', ''], { what: 'namespaces', context: 'c' }],
      [['explain', '--exit-code', 'secret', ''], { what: 'objects', kind: 'secret' }],
      [
        ['explain', '-n', 'team', 'secret', '--output', 'json', 'a'],
        { what: 'objects', kind: 'secret', namespace: 'team', current: 'a' },
      ],
    ];
    found = ['alpha', 'beta'];
    for (const [words, wanted] of cases) {
      const expected = words.at(-1) === 'a' ? ['alpha'] : ['alpha', 'beta'];
      assert.deepEqual(await answers(...words), expected, words.join(' '));
      assert.deepEqual(asked, [{ ...nothing, ...wanted }]);
    }
    assert.deepEqual(await answers('status', '--context=al'), ['--context=alpha']);
    found = new Error('no cluster');
    assert.deepEqual(await answers('status', '-n', ''), []);
    found = [];
  });

  it('the first argument of explain is completed to the kinds that it knows; other words ask nobody', async () => {
    assert.deepEqual(await answers('explain', ''), EXPLAINED_KINDS);
    const known = [...KINDS, ...ruleCollections()].map(({ kind }) => kind.toLowerCase());
    assert.deepEqual(new Set(EXPLAINED_KINDS), new Set(known));
    for (const words of [
      ['explain', 'secret', '-'],
      ['plan', ''],
      ['status', '-o', ''],
    ])
      await answers(...words);
    assert.deepEqual(asked, []);
  });

  it('for paths, free values and unknown commands, keyferry __complete prints nothing', async () => {
    for (const words of [
      ['status', '--kubeconfig', ''],
      ['plan', ''],
      ['plan', 'manifests/mir'],
      ['plan', 'mirror-o', 'j'],
      ['nope', ''],
    ]) {
      assert.deepEqual(await answers(...words), [], words.join(' '));
    }
  });
});

describe('the completion scripts', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'keyferry-completion-'));
  after(() => rmSync(folder, { recursive: true }));
  const kubeconfig = path.join(folder, 'kubeconfig');
  writeFileSync(kubeconfig, 'contexts: [{ name: "arn:aws:x", context: { cluster: c } }]\n');
  const program = `exec '${process.execPath}' '${path.resolve('src/cli/main.ts')}' "$@"`;
  writeFileSync(path.join(folder, 'keyferry'), `#!/bin/sh\n${program}\n`, { mode: 0o755 });

  /** Runs a shell with `before`, its completion script and `use`. @returns the lines that it prints */
  const linesOf = (shell: Shell, options: readonly string[], before: string, use: string): string[] => {
    const PATH = `${folder}${path.delimiter}${process.env['PATH']}`;
    const args = [...options, '-c', `${before}\n${SCRIPTS[shell]}${use}\n`];
    const { status, stdout, stderr, error } = spawnSync(shell, args, {
      env: { ...process.env, PATH, KUBECONFIG: kubeconfig },
      encoding: 'utf8',
    });
    assert.deepEqual([error, status, stderr], [undefined, 0, '']);
    return stdout.split('\n').filter((line) => line !== '');
  };
  const isMissing = (shell: Shell): false | string =>
    spawnSync(shell, ['-c', 'true']).error !== undefined && `${shell} is not installed`;

  it('bash shows the words of keyferry __complete; if there are none, it completes paths', () => {
    const offered = (...words: readonly string[]): string[] => {
      const line = ['keyferry', ...words].map((word) => `'${word}'`).join(' ');
      const use = `COMP_WORDS=(${line}); COMP_CWORD=${words.length}; _keyferry keyferry; printf '%s\\n' "\${COMPREPLY[@]}"`;
      return linesOf('bash', ['--norc'], '', use);
    };
    assert.deepEqual(offered('sta'), ['status']);
    assert.deepEqual(offered('status', '--output', '=', 'j'), ['json']);
    assert.deepEqual(offered('status', '--output', '='), ['table', 'wide', 'json', 'yaml', 'name']);
    assert.deepEqual(offered('plan', ''), []);
    assert.deepEqual(offered('status', '--context', 'arn'), ['arn:aws:x']);
  });

  it(
    'zsh shows the words of keyferry __complete with descriptions; if there are none, it completes paths',
    { skip: isMissing('zsh') },
    () => {
      // The functions of zsh's completion system work only at a prompt, so the test defines simple ones.
      const system = `compdef() {}; _files() { print paths; }
      _describe() { (( \${#\${(P)2}} )) && print -lr -- \${(P)2}; }`;
      const offered = (...words: readonly string[]): string[] => {
        const line = ['keyferry', ...words].map((word) => `'${word}'`).join(' ');
        return linesOf('zsh', ['-f'], system, `words=(${line}); CURRENT=${words.length + 1}; _keyferry`);
      };
      assert.deepEqual(offered('stat'), ['status:show what is copied, what is not copied, and why']);
      assert.deepEqual(offered('status', '--output=j'), ['--output=json:']);
      assert.deepEqual(offered('plan', '--recursive'), ['--recursive:read folders recursively']);
      assert.deepEqual(offered('plan', ''), ['paths']);
      assert.deepEqual(offered('status', '--context', 'arn'), [String.raw`arn\:aws\:x:`]);
    },
  );

  it(
    'fish shows the words of keyferry __complete with descriptions; if there are none, it completes paths',
    { skip: isMissing('fish') },
    () => {
      const offered = (...words: readonly string[]): string[] =>
        linesOf('fish', ['--no-config'], '', `complete -C 'keyferry ${words.join(' ')}'`);
      assert.deepEqual(offered('stat'), ['status\tshow what is copied, what is not copied, and why']);
      assert.deepEqual(offered('status', '--output=j'), ['--output=json']);
      assert.deepEqual(offered('plan', 'package.js'), ['package.json']);
      assert.ok(offered('').length > 10);
      assert.deepEqual(offered('status --context arn'), ['arn:aws:x']);
    },
  );
});
