/** The words that Keyferry offers for completion, and the scripts in real shells: bash; zsh and fish if installed. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, describe, it } from 'node:test';
import type { CliContext } from '../commands/actions.ts';
import { SCRIPTS, type Shell, SHELLS } from './completion.ts';
import { runCli } from './program.ts';

/** The words that Keyferry offers. @param words those after `keyferry`; the cursor is at the end of the last one */
async function answers(...words: readonly string[]): Promise<string[]> {
  let text = '';
  const context = { stdout: (part: string) => void (text += part), startedAs: [], processInfo: { env: {} } };
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
  const program = `exec '${process.execPath}' '${path.resolve('src/cli/main.ts')}' "$@"`;
  writeFileSync(path.join(folder, 'keyferry'), `#!/bin/sh\n${program}\n`, { mode: 0o755 });

  /** Runs a shell with `before`, its completion script and `use`. @returns the lines that it prints */
  const linesOf = (shell: Shell, options: readonly string[], before: string, use: string): string[] => {
    const PATH = `${folder}${path.delimiter}${process.env['PATH']}`;
    const args = [...options, '-c', `${before}\n${SCRIPTS[shell]}${use}\n`];
    const { status, stdout, stderr, error } = spawnSync(shell, args, {
      env: { ...process.env, PATH },
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
  });

  it(
    'zsh shows the words of keyferry __complete with descriptions; if there are none, it completes paths',
    { skip: isMissing('zsh') },
    () => {
      // The functions of zsh's completion system work only at a prompt, so the test defines simple ones.
      const system = `compdef() {}; _files() { print paths; }
      _describe() { (( \${#\${(P)2}} )) && print -l -- \${(P)2}; }`;
      const offered = (...words: readonly string[]): string[] => {
        const line = ['keyferry', ...words].map((word) => `'${word}'`).join(' ');
        return linesOf('zsh', ['-f'], system, `words=(${line}); CURRENT=${words.length + 1}; _keyferry`);
      };
      assert.deepEqual(offered('stat'), ['status:show what is copied, what is not copied, and why']);
      assert.deepEqual(offered('status', '--output=j'), ['--output=json:']);
      assert.deepEqual(offered('plan', '--recursive'), ['--recursive:read folders recursively']);
      assert.deepEqual(offered('plan', ''), ['paths']);
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
    },
  );
});
