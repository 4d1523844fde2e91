import assert from 'node:assert/strict';
import { it } from 'node:test';

import { freePort } from './ports.ts';

/** So many random ports are almost never different by themselves. */
const PORTS = 400;

it('a port is returned once, although nothing listens on it', async () => {
  const ports = await Promise.all(Array.from({ length: PORTS }, () => freePort()));
  assert.equal(new Set(ports).size, PORTS);
});
