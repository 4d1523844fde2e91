import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ManualClock } from '../../../test/support/manual-clock.ts';
import { nullLog } from '../../../test/support/null-log.ts';
import { MetricRegistry } from '../../observe/metric-registry.ts';
import { TimeLimitError } from '../../runtime/abort.ts';
import { VaultError } from '../../vault/errors.ts';
import { ruleOf } from './external-secret.ts';
import { GeneratorMetrics } from './metrics.ts';
import type { Result } from './result.ts';
import { Worker } from './worker.ts';

const STORES = 200;
/** Time limit of a call, ms. */
const CALL_MS = 10_000;

test('a run ends after two minutes, however many servers do not answer', async () => {
  const clock = new ManualClock();
  const data = Array.from({ length: STORES }, (_, index) => ({
    secretKey: `key-${index}`,
    remoteRef: { key: 'app', property: 'a' },
    sourceRef: { storeRef: { name: `store-${index}` } },
  }));
  const conditions = [{ type: 'Ready', status: 'False', reason: 'SecretSyncedError' }];
  const metadata = {
    name: 'many',
    namespace: 'default',
    uid: 'a',
    resourceVersion: '1',
    creationTimestamp: '2026-01-01T00:00:00Z',
    annotations: { create: 'true' },
  };
  const object = { apiVersion: 'v1', kind: 'ExternalSecret', metadata, spec: { data }, status: { conditions } };
  const rule = ruleOf(object, false);
  const auth = { tokenSecretRef: { name: 'token', key: 'token' } };
  const provider = { vault: { server: 'http://silent', path: 'secret', auth } };
  const user = { namespace: 'default', labels: {}, matches: () => false, mayGetApiTokens: () => false };
  const results: Result[] = [];
  let opened = 0;
  const worker = new Worker({
    rule: () => rule,
    mode: () => 'limited',
    stores: {
      userOf: () => Promise.resolve(user),
      sourceFor: () => ({ from: 'stores', get: () => ({ provider }) }),
      readCa: () => Promise.reject(new Error('there is none')),
    },
    vault: {
      open: async () => {
        opened += 1;
        await clock.advance(CALL_MS);
        throw new VaultError('the server does not answer', { kind: 'timeout', addr: 'http://silent' });
      },
      close: () => undefined,
    },
    book: { on: () => [] },
    writes: {
      result: (_key, _rule, result) => Promise.resolve(results.push(result) > 0),
      condition: (_key, same) => Promise.resolve(same),
      heal: () => Promise.resolve(),
      event: () => undefined,
      forget: () => undefined,
    },
    metrics: new GeneratorMetrics(new MetricRegistry(), () => 0),
    clock,
    log: nullLog,
  });
  await assert.rejects(worker.run('generator:default/many', new AbortController().signal), TimeLimitError);
  assert.deepEqual([opened, results.map(({ reason }) => reason)], [13, ['ErrorCreating']]);
});
