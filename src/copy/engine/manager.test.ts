/** Tests that the manager opens each controller and each backend independently of the others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reconcilerOf } from '../../../test/support/reconciler.ts';
import { stubBackend } from '../../../test/support/stub-backend.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import type { Controller } from './controller.ts';
import { Manager } from './manager.ts';
import { parseResourceKey, resourceKey } from '../model/keys.ts';

function controller(name: string, log: string[], manager: Manager, installed?: Promise<void>): Controller {
  return {
    reconciler: reconcilerOf({
      name,
      evaluate: () => assert.fail('no rule was touched'),
      ownerOf: () => undefined,
      getLive: async () => await Promise.resolve({ state: 'gone' }),
      orphanPolicy: () => 'keep',
      updateStatus: async () => await Promise.resolve(undefined),
    }),
    ...(installed === undefined ? {} : { installed: async () => await installed }),
    open: () => {
      log.push(`${name} open`);
      manager.engine.onObjects({ objectChanged: (key) => log.push(`${name} ${parseResourceKey(key).name}`) });
    },
    stop: () => log.push(`${name} stop`),
  };
}

test('a controller that waits for its API and an unreachable remote cluster do not delay the other controllers', async () => {
  const log: string[] = [];
  const installed = Promise.withResolvers<void>();
  const manager = new Manager({ home: 'local', onError: (_loop, _key, error) => assert.fail(String(error)) });
  manager.engine.backends.add(stubBackend('local', Promise.resolve()));
  manager.engine.backends.add(stubBackend('away', new Promise(() => undefined)));
  manager.addController(controller('late', log, manager, installed.promise));
  manager.addController(controller('first', log, manager));
  const change = (name: string): void => {
    manager.engine.objectChanged(resourceKey('local', 'Secret', 'default', name), undefined, undefined, false);
  };
  const { signal } = new AbortController();
  await manager.open(signal);
  await manager.start(signal);
  change('a');
  assert.deepEqual(log.splice(0), ['first open', 'first a'], 'no event for a controller that is not open');
  installed.resolve();
  await waitFor(() => log.length > 0, { message: 'the other controller to open' });
  change('b');
  assert.deepEqual(log.splice(0), ['late open', 'first b', 'late b']);
  await manager.drain(0);
  assert.deepEqual(log, ['first stop', 'late stop']);
  await manager.stop(0);
});

test('the start waits for the watches of the home cluster, and ends when its signal is aborted', async () => {
  const stop = new AbortController();
  const manager = new Manager({ home: 'local', onError: (_loop, _key, error) => assert.fail(String(error)) });
  manager.engine.backends.add(stubBackend('local', new Promise(() => undefined)));
  manager.addController(controller('first', [], manager));
  const opening = manager.open(stop.signal);
  stop.abort(new Error('stopped'));
  await assert.rejects(opening);
  assert.deepEqual(manager.readiness(), [{ ok: false, message: 'no watch is open yet' }]);
});
