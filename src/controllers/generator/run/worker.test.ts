import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ManualClock } from '../../../../test/support/manual-clock.ts';
import { nullLog } from '../../../../test/support/null-log.ts';
import { MetricRegistry } from '../../../observe/metrics/metric-registry.ts';
import { TimeLimitError } from '../../../runtime/abort.ts';
import { VaultError } from '../../../vault/errors.ts';
import { type ExternalSecretRule, ruleOf } from '../request/external-secret.ts';
import type { Result } from './result.ts';
import { Worker, type WorkerOptions } from './worker.ts';
import { vaultStoreOf } from '../store/store-spec.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';

const STORES = 200;
/** Time limit of a call, ms. */
const CALL_MS = 10_000;

const KEY: RuleKey = asKey('generator:default/one');
const { signal } = new AbortController();

/** A failing ExternalSecret that reads one missing value from each of these stores. */
function failing(stores: readonly string[], generation = 1): ExternalSecretRule {
  const data = stores.map((name, index) => ({
    secretKey: `key-${index}`,
    remoteRef: { key: 'app', property: 'a' },
    sourceRef: { storeRef: { name } },
  }));
  const conditions = [{ type: 'Ready', status: 'False', reason: 'SecretSyncedError' }];
  const metadata = {
    name: 'one',
    namespace: 'default',
    uid: 'a',
    resourceVersion: '1',
    generation,
    creationTimestamp: '2026-01-01T00:00:00Z',
    annotations: { create: 'true' },
  };
  const object = { apiVersion: 'v1', kind: 'ExternalSecret', metadata, spec: { data }, status: { conditions } };
  const rule = ruleOf(object, false);
  assert.ok(rule !== undefined);
  return rule;
}

interface Scene {
  readonly worker: Worker;
  readonly results: Result[];
  readonly closed: string[];
}

function sceneOf(options: Pick<WorkerOptions, 'rule'> & { clock?: ManualClock; open: () => Promise<never> }): Scene {
  const { rule, open, clock = new ManualClock() } = options;
  const auth = { tokenSecretRef: { name: 'token', key: 'token' } };
  const provider = { vault: { server: 'http://silent', path: 'secret', auth } };
  const user = { namespace: 'default', labels: {}, matches: () => false, mayGetApiTokens: () => false };
  const results: Result[] = [];
  const closed: string[] = [];
  const worker = new Worker({
    rule,
    mode: () => 'limited',
    stores: {
      usableIn: () => Promise.resolve((ref) => vaultStoreOf(ref, { provider }, user)),
      readCa: () => Promise.reject(new Error('there is none')),
    },
    vault: { open, close: (one) => closed.push(one) },
    book: { on: () => [] },
    writes: {
      result: async (_job, result) => {
        results.push(result);
        return await Promise.resolve();
      },
      announce: ({ rule: same }) => Promise.resolve(same),
      heal: () => Promise.resolve(),
    },
    registry: new MetricRegistry(),
    clock,
    log: nullLog,
  });
  return { worker, results, closed };
}

test('if an ExternalSecret uses 200 Vault servers and none responds, its run ends after two minutes with the result ErrorCreating', async () => {
  const clock = new ManualClock();
  const rule = failing(Array.from({ length: STORES }, (_, index) => `store-${index}`));
  let opened = 0;
  const open = async (): Promise<never> => {
    opened += 1;
    await clock.advance(CALL_MS);
    throw new VaultError('the server does not answer', { kind: 'timeout', addr: 'http://silent' });
  };
  const { worker, results } = sceneOf({ rule: () => rule, open, clock });
  await assert.rejects(worker.run(KEY, signal), TimeLimitError);
  assert.deepEqual([opened, results.map(({ reason }) => reason)], [13, ['ErrorCreating']]);
});

const DENIED = new VaultError('denied', { kind: 'permissionDenied', addr: 'http://silent' });

for (const [what, after, reports] of [
  ['of an ExternalSecret reports its result if the object does not change meanwhile', failing(['one']), 1],
  ['of an ExternalSecret reports nothing if the spec changes meanwhile', failing(['one'], 2), 0],
  ['of an ExternalSecret reports nothing if the object is deleted meanwhile', undefined, 0],
] as const) {
  test(`a run ${what}`, async () => {
    let rule: ExternalSecretRule | undefined = failing(['one']);
    const open = async (): Promise<never> => {
      rule = after;
      return await Promise.reject(DENIED);
    };
    const { worker, results } = sceneOf({ rule: () => rule, open });
    await worker.run(KEY, signal).catch((error: unknown) => assert.equal(error, DENIED));
    assert.equal(results.length, reports);
  });
}

test('the login of a store is closed when the ExternalSecret no longer names the store, or is deleted', async () => {
  let rule: ExternalSecretRule | undefined = failing(['one', 'two']);
  const { worker, closed } = sceneOf({ rule: () => rule, open: () => Promise.reject(DENIED) });
  const run = async (): Promise<string[]> => {
    await worker.run(KEY, signal).catch((error: unknown) => assert.equal(error, DENIED));
    return closed.splice(0);
  };
  assert.deepEqual(await run(), []);
  rule = failing(['two', 'three'], 2);
  assert.deepEqual(await run(), [`${KEY} SecretStore/one`]);
  rule = undefined;
  assert.deepEqual(await run(), [`${KEY} SecretStore/two`, `${KEY} SecretStore/three`]);
});
