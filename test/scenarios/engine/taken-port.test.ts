/** Keyferry cannot open its port while a controller waits for its API. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { it } from 'node:test';

import { writeKubeconfigFile } from '../../servers/kubeconfig.ts';
import { freePort } from '../../servers/ports.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { waitFor } from '../../support/wait-for.ts';

it('if the port of the probes is in use, Keyferry ends with code 1 and says so, also while a controller waits for its API', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'keyferry-port-'));
  const other = createServer().listen(0, '127.0.0.1');
  try {
    await once(other, 'listening');
    const address = other.address();
    assert.ok(typeof address === 'object' && address !== null);
    const server = `http://127.0.0.1:${await freePort()}`;
    const kubeconfig = await writeKubeconfigFile(folder, { server });
    await using keyferry = await Keyferry.start({
      kubeconfig,
      args: ['--controllers=generator,replicator'],
      statusAddress: `127.0.0.1:${address.port}`,
    });
    await waitFor(() => !keyferry.running, { message: () => `Keyferry to end:\n${keyferry.output}` });
    const { code } = await keyferry.stop();
    assert.equal(code, 1, keyferry.output);
    assert.ok(!keyferry.output.includes('crashed'), keyferry.output);
    assert.match(keyferry.output, /--status-address: cannot listen on .*: the port is in use/);
  } finally {
    other.close();
    await rm(folder, { recursive: true });
  }
});
