import assert from 'node:assert/strict';
import { it } from 'node:test';

import { freePort } from './ports.ts';

/** So many that random ports without a reservation would almost certainly repeat. */
const PORTS = 400;

it('freePort() returns each port once, although nothing listens on it', async () => {
  const ports = await Promise.all(Array.from({ length: PORTS }, () => freePort()));
  assert.equal(new Set(ports).size, PORTS);
});
