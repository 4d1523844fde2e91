/** Tests that the manager opens each controller and each backend independently of the others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asKey } from '../../../test/support/keys.ts';
import { nullLog } from '../../../test/support/null-log.ts';
import { observedObject } from '../../../test/support/observed-object.ts';
import { stubBackend } from '../../../test/support/stub-backend.ts';
import { staysTrue, waitFor } from '../../../test/support/wait-for.ts';
import { systemClock } from '../../runtime/clock.ts';
import type { Controller } from './controller.ts';
import { RuleStore } from './life/rule-store.ts';
import { Manager, type ManagerOptions } from './manager.ts';
import { parseResourceKey, type ObjectKey, resourceKey, type RuleKey } from '../model/keys.ts';
import { PLACE_ANNOTATION } from '../model/observed.ts';

const unused = (): never => assert.fail('no rule was touched');
/** A copy, as the watches of other controllers show it. */
const MARKED = observedObject({ annotations: { [PLACE_ANNOTATION]: 'team/copy' } });
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

test('the start waits for the answer whether an API is installed; if not, its controller and an unreachable remote cluster delay no other', async () => {
  const log: string[] = [];
  const installed = Promise.withResolvers<Controller>();
  const manager = new Manager(OPTIONS);
  const copy: ObjectKey = asKey('local:Secret/team/copy');
  const local = { ...stubBackend('local'), objects: () => [[copy, MARKED] as const] };
  manager.engine.backends.add(local);
  manager.engine.backends.add(stubBackend('away', new Promise(() => undefined)));
  manager.addController('late', () => installed.promise);
  manager.addController('first', () => controller('first', log, manager));
  const change = (name: string): void => {
    manager.engine.objectChanged(resourceKey('local', 'Secret', 'default', name), undefined, undefined);
  };
  const { signal } = new AbortController();
  let isOpen = false;
  const opening = manager.open(signal).then(() => (isOpen = true));
  await waitFor(() => log.length > 0, { message: 'the first controller to open' });
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(
    [isOpen, manager.readiness()],
    [false, [{ ok: false, message: 'late: the server has not said yet whether it serves the API' }]],
  );
  manager.startWithout('late');
  await opening;
  await manager.start(signal);
  change('a');
  assert.deepEqual(log.splice(0), ['first open', 'first a'], 'no event for a controller that is not open');
  const { claims } = manager.engine;
  assert.deepEqual([...claims.owners], []);
  const late = controller('late', log, manager);
  const rule: RuleKey = asKey('late:team/rule');
  installed.resolve({ ...late, rules: { ...late.rules, markOn: () => ({ rule }) } });
  await waitFor(() => log.length > 0, { message: 'the other controller to open' });
  await waitFor(() => local.reconciled.includes(copy), { message: 'the copy with a mark of the late controller' });
  assert.deepEqual([...claims.ownedBy(rule)], [copy]);
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
  manager.addController('first', () => controller('first', [], manager));
  const opening = manager.open(stop.signal);
  stop.abort(new Error('stopped'));
  await assert.rejects(opening);
  assert.deepEqual(manager.readiness(), [{ ok: false, message: 'no watch is open yet' }]);
});

test('no rule is evaluated before the lists of its controller are complete', async () => {
  const lists = Promise.withResolvers<void>();
  const manager = new Manager(OPTIONS);
  manager.engine.backends.add(stubBackend('local'));
  let evaluated = 0;
  const first = controller('first', [], manager);
  const evaluate = (): undefined => void (evaluated += 1);
  manager.addController('first', () => ({ ...first, rules: { ...first.rules, evaluate }, open: () => lists.promise }));
  const { signal } = new AbortController();
  await manager.open(signal);
  manager.engine.enqueueRule(asKey('first:team/rule'));
  const started = manager.start(signal);
  try {
    // Within this time, an evaluation that does not wait would have run.
    await staysTrue(() => evaluated === 0, 20, 'no evaluation');
    lists.resolve();
    await started;
    assert.equal(evaluated, 1);
  } finally {
    lists.resolve();
    await manager.drain(0);
    await manager.stop(0);
  }
});
