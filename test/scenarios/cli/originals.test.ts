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

for (const target of ['the starter', 'the bundle'] as const) {
  for (const [name, args, words] of [
    ['manager', ['--leader-elect', '--metrics-bind-address=x'], 'keyferry mirrors: --metrics-bind-address: bad value'],
    ['k8s-replicator', ['--resync-period=soon'], 'keyferry replicator: --resync-period: bad value'],
    ['ccm', ['--cluster-name=a', '--metrics-addr=x'], 'keyferry syncsecret-ccm: --metrics-addr: bad value'],
    ['kubelb', ['--enable-leader-election', '--debug=x'], 'keyferry syncsecret-manager: --debug: bad value'],
  ] as const) {
    it(`${target} of Keyferry, started through a link with the name ${name}, accepts the flags of that original`, async () => {
      const link = path.join(folder, name);
      await symlink(target === 'the starter' ? STARTER : bundle, link);
      try {
        const { code, stderr } = await runScript(link, args);
        assert.deepEqual([code, stderr.startsWith(words)], [2, true], stderr);
      } finally {
        await rm(link);
      }
    });
  }

  it(`${target} of Keyferry, started with the process name /k8s-replicator, accepts the flags of k8s-replicator`, async () => {
    const script = target === 'the starter' ? STARTER : bundle;
    const { code, stderr } = await runScript(script, ['--leader-elect', '--nope'], '/k8s-replicator');
    assert.deepEqual([code, stderr.split('\n')[0]], [2, 'keyferry replicator: unknown flag --nope'], stderr);
  });

  it(`${target} of Keyferry, started with only a flag of k8s-replicator, runs the replicator`, async () => {
    const script = target === 'the starter' ? STARTER : bundle;
    const { code, stderr } = await runScript(script, ['-annotations-prefix', 'a/b']);
    assert.equal(code, 2);
    assert.ok(stderr.startsWith('keyferry replicator: --annotations-prefix: bad value'), stderr);
  });
}
