/** Tests that the manager opens each controller and each backend independently of the others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nullLog } from '../../../test/support/null-log.ts';
import { stubBackend } from '../../../test/support/stub-backend.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { systemClock } from '../../runtime/clock.ts';
import type { Controller } from './controller.ts';
import { RuleStore } from './life/rule-store.ts';
import { Manager, type ManagerOptions } from './manager.ts';
import { parseResourceKey, resourceKey } from '../model/keys.ts';

const unused = (): never => assert.fail('no rule was touched');
const OPTIONS: ManagerOptions = {
  home: 'local',
  onError: (_loop, _key, error) => assert.fail(String(error)),
  life: {
    api: { cluster: 'local', request: unused, stream: unused },
    clock: systemClock,
    log: nullLog,
    deletionTimeoutMs: 0,
    recordEvent: unused,
    isOutdated: unused,
  },
};

function controller(name: string, log: string[], manager: Manager): Controller {
  return {
    rules: { name, evaluate: unused, markOn: () => undefined, orphanPolicy: () => 'keep' },
    store: new RuleStore({ controller: name, toRule: unused, versionOf: unused }),
    kindOf: unused,
    report: unused,
    open: (signal) => {
      signal.addEventListener('abort', () => log.push(`${name} stop`));
      log.push(`${name} open`);
      manager.engine.onObjects({ objectChanged: (key) => log.push(`${name} ${parseResourceKey(key).name}`) });
      return undefined;
    },
  };
}

test('a controller that waits for its API and an unreachable remote cluster do not delay the other controllers', async () => {
  const log: string[] = [];
  const installed = Promise.withResolvers<Controller>();
  const manager = new Manager(OPTIONS);
  manager.engine.backends.add(stubBackend('local', Promise.resolve()));
  manager.engine.backends.add(stubBackend('away', new Promise(() => undefined)));
  manager.addController(installed.promise);
  manager.addController(controller('first', log, manager));
  const change = (name: string): void => {
    manager.engine.objectChanged(resourceKey('local', 'Secret', 'default', name), undefined, undefined, false);
  };
  const { signal } = new AbortController();
  await manager.open(signal);
  await manager.start(signal);
  change('a');
  assert.deepEqual(log.splice(0), ['first open', 'first a'], 'no event for a controller that is not open');
  installed.resolve(controller('late', log, manager));
  await waitFor(() => log.length > 0, { message: 'the other controller to open' });
  change('b');
  assert.deepEqual(log.splice(0), ['late open', 'first b', 'late b']);
  await manager.drain(0);
  assert.deepEqual(log, ['first stop', 'late stop']);
  await manager.stop(0);
});

test('the start waits for the watches of the home cluster, and ends when its signal is aborted', async () => {
  const stop = new AbortController();
  const manager = new Manager(OPTIONS);
  manager.engine.backends.add(stubBackend('local', new Promise(() => undefined)));
  manager.addController(controller('first', [], manager));
  const opening = manager.open(stop.signal);
  stop.abort(new Error('stopped'));
  await assert.rejects(opening);
  assert.deepEqual(manager.readiness(), [{ ok: false, message: 'no watch is open yet' }]);
});
