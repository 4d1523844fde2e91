import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { z } from 'zod';
import type { SyncSecretFields, SyncSecretStatus } from '../../src/controllers/syncsecret/api.ts';
import type { Same } from './same-type.ts';
import type { syncSecret, syncSecretStatus } from './sync-secret.ts';

it('the TypeScript types of SyncSecret are identical to the types of its CRD schema', () => {
  const fields: Same<Omit<z.input<typeof syncSecret>, 'status'>, SyncSecretFields> = true;
  const status: Same<z.input<typeof syncSecretStatus>, SyncSecretStatus> = true;
  assert.ok(fields && status, 'checked by the compiler');
});
