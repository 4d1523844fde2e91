/** The completion scripts in real shells, as far as they are installed. bash is everywhere. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, it } from 'node:test';
import type { CliContext } from '../commands/actions.ts';
import { runProgram } from './program.ts';
import { SHELLS, type Shell } from './completion.ts';

async function scriptFor(shell: Shell): Promise<string> {
  let text = '';
  const context = { stdout: (part: string) => void (text += part), build: { version: '1.2.3' } } as CliContext;
  assert.equal(await runProgram(context, ['completion', shell]), 0);
  return text;
}

function run(shell: Shell, args: readonly string[], input: string): string {
  const { status, stdout, stderr, error } = spawnSync(shell, args, { input, encoding: 'utf8' });
  assert.deepEqual([error, status, stderr], [undefined, 0, '']);
  return stdout;
}

/** What bash would offer. @param words after `keyferry`, split as bash splits them; the last one is under the cursor */
async function offered(...words: readonly string[]): Promise<string[]> {
  const line = ['keyferry', ...words].map((word) => `'${word}'`).join(' ');
  const use = `COMP_WORDS=(${line}); COMP_CWORD=${words.length}; _keyferry; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const stdout = run('bash', ['--norc', '-s'], `${await scriptFor('bash')}${use}\n`);
  return stdout.split('\n').filter((word) => word !== '');
}

describe('completion of bash', () => {
  it('bash is offered commands', async () => {
    assert.deepEqual(await offered('sta'), ['status']);
    const all = await offered('');
    for (const word of ['run', 'mirrors', 'plan', 'help', '--version']) assert.ok(all.includes(word), word);
  });

  it('bash is offered the options of a command', async () => {
    assert.deepEqual(await offered('status', '--all'), ['--all-namespaces']);
    assert.deepEqual(await offered('plan', '--all'), ['--all']);
    assert.deepEqual(await offered('run', '--leader-elect-re'), [
      '--leader-elect-renew-deadline',
      '--leader-elect-retry-period',
    ]);
  });

  it('bash is offered the values of options and arguments', async () => {
    for (const words of [
      ['status', '-o', 'j'],
      ['status', '--failed', '--output', 'j'],
      ['status', '--output', '=', 'j'],
    ]) {
      assert.deepEqual(await offered(...words), ['json'], words.join(' '));
    }
    assert.deepEqual(await offered('plan', '--output', '='), ['table', 'json', 'yaml']);
    assert.deepEqual(await offered('run', '--log-level', 'w'), ['warn']);
    assert.deepEqual(await offered('completion', ''), [...SHELLS, '-h', '--help']);
    assert.deepEqual(await offered('help', 'pl'), ['plan']);
  });

  it('bash is offered nothing for paths and free values, so that it completes paths', async () => {
    assert.deepEqual(await offered('status', '--kubeconfig', ''), []);
    assert.deepEqual(await offered('plan', 'manifests/mir'), []);
  });
});

describe('the scripts', () => {
  for (const shell of SHELLS) {
    const isMissing = spawnSync(shell, ['-c', 'true']).error !== undefined;
    it(`${shell} can read its own script`, { skip: isMissing && `${shell} is not installed` }, async () => {
      run(shell, ['-n'], await scriptFor(shell));
    });
  }

  it('the scripts of zsh and fish have every command and option', async () => {
    const zsh = await scriptFor('zsh');
    const fish = await scriptFor('fish');
    for (const option of ['output', 'failed', 'mirrors-regex', 'leader-elect-lease-duration']) {
      assert.match(zsh, new RegExp(`--${option}[=[]`));
      assert.match(fish, new RegExp(` -l ${option} `));
    }
    assert.match(zsh, /'\(-o --output\)--output=\[output format\]:value:\(table wide json yaml\)'/);
    assert.match(
      fish,
      /__fish_seen_subcommand_from status' -s o -l output -x -a 'table wide json yaml' -d 'output format'/,
    );
  });
});
