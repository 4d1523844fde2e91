import assert from 'node:assert/strict';
import { it } from 'node:test';

import { freePort } from './ports.ts';

/** With this many random ports, two would almost certainly be equal, if freePort() did not reserve them. */
const PORTS = 400;

it('freePort() never returns the same port again, even if nothing listens on it', async () => {
  const ports = await Promise.all(Array.from({ length: PORTS }, () => freePort()));
  assert.equal(new Set(ports).size, PORTS);
});
