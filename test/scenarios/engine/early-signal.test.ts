/** Keyferry gets a signal before it could start its controllers. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { it } from 'node:test';

import { writeKubeconfigFile } from '../../servers/kubeconfig.ts';
import { freePort } from '../../servers/ports.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { waitFor } from '../../support/wait-for.ts';
import { within } from '../../support/yardstick.ts';

/**
 * Limit for a stop, ms. A stop that waits for nothing takes a few ms; a stop that reaches its time limit takes 4,500
 * ms.
 */
const STOP_MS = 2000;

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  it(`if ${signal} comes while the API server cannot be reached, Keyferry stops with code 0 within 2 s`, async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'keyferry-stop-'));
    try {
      const server = `http://127.0.0.1:${await freePort()}`;
      const kubeconfig = await writeKubeconfigFile(folder, { server });
      await using keyferry = await Keyferry.start({ kubeconfig, command: 'replicator' });
      await waitFor(() => keyferry.output.includes('watch failed'), { message: () => keyferry.output });
      const { code } = await within(STOP_MS, 'the stop', async () => await keyferry.stop(signal));
      assert.equal(code, 0, keyferry.output);
      assert.ok(keyferry.output.includes('"stopped"'), keyferry.output);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
}
