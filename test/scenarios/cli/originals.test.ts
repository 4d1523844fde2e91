/** Starts the program through links with the names of the originals' programs. The container image has such links. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, it } from 'node:test';

import { ensureBundle } from '../../support/bundle.ts';

const STARTER = path.join(import.meta.dirname, '../../../bin/keyferry.cjs');

let folder: string;
let bundle: string;

before(async () => {
  bundle = await ensureBundle();
  folder = await mkdtemp(path.join(tmpdir(), 'keyferry-names-'));
});
after(() => rm(folder, { recursive: true }));

interface Answer {
  readonly code: unknown;
  readonly stderr: string;
}

/** Runs a script until it exits. */
async function runScript(script: string, args: readonly string[], argv0 = 'node'): Promise<Answer> {
  const child = spawn(process.execPath, [script, ...args], {
    argv0,
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: 60_000,
  });
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')]);
  return { code, stderr };
}

// What each name and flag means: `src/cli/program.test.ts`.
for (const target of ['the starter', 'the bundle'] as const) {
  it(`${target} of Keyferry, started through a link with the name of an original, accepts the flags of that original`, async () => {
    const link = path.join(folder, 'k8s-replicator');
    await symlink(target === 'the starter' ? STARTER : bundle, link);
    try {
      const { code, stderr } = await runScript(link, ['--resync-period=soon']);
      assert.deepEqual([code, stderr.split(' bad')[0]], [2, 'keyferry replicator: --resync-period:'], stderr);
    } finally {
      await rm(link);
    }
  });

  it(`${target} of Keyferry, started with the process name /k8s-replicator, accepts the flags of k8s-replicator`, async () => {
    const script = target === 'the starter' ? STARTER : bundle;
    const { code, stderr } = await runScript(script, ['--leader-elect', '--nope'], '/k8s-replicator');
    assert.deepEqual([code, stderr.split('\n')[0]], [2, 'keyferry replicator: unknown flag --nope'], stderr);
  });
}
