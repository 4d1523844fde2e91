/**
 * An error that nobody catches ends the process. The log shows type, message and stack of the error. It does not show
 * other properties of the error, because these may hold values of Secrets.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { it } from 'node:test';

import { writeKubeconfigFile } from '../../servers/kubeconfig.ts';
import { freePort } from '../../servers/ports.ts';
import { assertNoCanaries, makeCanary } from '../../support/canary.ts';
import { Keyferry } from '../../support/keyferry.ts';

/**
 * A script that throws the error that Node throws for a malformed response. It first waits until the operator has its
 * handler for uncaught errors.
 */
const FAULT = `const timer = setInterval(() => {
  if (process.listenerCount('uncaughtException') === 0) return;
  clearInterval(timer);
  Promise.reject(Object.assign(new Error('Parse Error'), { body: process.env.CANARY }));
}, 50);
`;

it('if an error that nobody catches ends the process, the log shows its type, message and stack, and no other property', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'keyferry-crash-'));
  const canary = makeCanary('crash');
  try {
    const server = `http://127.0.0.1:${await freePort()}`;
    const kubeconfig = await writeKubeconfigFile(folder, { server });
    const fault = path.join(folder, 'fault.cjs');
    await writeFile(fault, FAULT);
    await using keyferry = await Keyferry.start({
      kubeconfig,
      command: 'replicator',
      nodeArgs: ['--require', fault],
      env: { CANARY: canary },
    });
    const { code } = await keyferry.ended();
    assert.equal(code, 1);
    const line = keyferry.logs().find(({ msg }) => msg === 'crashed');
    assert.equal(line?.error.message, 'Parse Error', keyferry.output);
    assert.match(keyferry.output, /^ {4}at .*fault\.cjs/m);
    assertNoCanaries({ output: keyferry.output }, { canary });
  } finally {
    await rm(folder, { recursive: true });
  }
});
