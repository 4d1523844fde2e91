import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Log } from '../observe/log.ts';
import { createMetrics } from '../observe/metrics/metrics.ts';
import { VaultError } from '../vault/errors.ts';
import { vaultHooks } from './vault-hooks.ts';
import { asKey } from '../../test/support/keys.ts';

test('a failed login causes one warning, even if entries fail because of it; any other failure causes a warning with its rule', () => {
  const named = 'mirrors:default/a';
  const lines: [string, string, unknown][] = [];
  const write =
    (level: string): Log['warn'] =>
    (message, fields) =>
      void lines.push([level, message, fields?.rule]);
  const log = { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
  const hooks = vaultHooks(log, createMetrics('test'));
  const poll = (error: Error): void => {
    hooks.onError({ source: asKey('vault:https://v/secret/x'), rule: asKey(named), error, retryInMs: 1 });
  };
  const addr = 'https://v';
  const login = new VaultError('refused', { kind: 'connection', addr });
  hooks.onSession?.({ type: 'loginFailed', addr, identity: 'token', error: login, retryAfterMs: 1 });
  poll(login);
  poll(login.reworded(login.reason));
  poll(new VaultError('denied', { kind: 'permissionDenied', addr }));
  assert.deepEqual(lines, [
    ['warn', 'cannot log in to Vault', undefined],
    ['debug', 'reconcile failed, retrying', named],
    ['debug', 'reconcile failed, retrying', named],
    ['warn', 'reconcile failed, retrying', named],
  ]);
});
