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
import { parseResourceKey, type ObjectKey, type RuleKey } from '../model/keys.ts';
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

test('the start waits for the first controller that is open; another one, whose marks count at once, and an unreachable remote cluster delay it no longer', async () => {
  const log: string[] = [];
  const opened = Promise.withResolvers<void>();
  const manager = new Manager(OPTIONS);
  const local = stubBackend('local');
  manager.engine.backends.add(local);
  manager.engine.backends.add(stubBackend('away', new Promise(() => undefined)));
  const add = (name: string, lists: Promise<void>, more: Partial<Controller> = {}): void => {
    const made = controller(name, log, manager);
    const open = async (signal: AbortSignal): Promise<void> => {
      await made.open(signal);
      await lists;
    };
    manager.addController({ ...made, ...more, open });
  };
  const rule: RuleKey = asKey('late:team/rule');
  const rules = { ...controller('late', log, manager).rules, markOn: () => ({ rule }) };
  add('late', new Promise(() => undefined), { rules });
  add('first', opened.promise);
  const { signal } = new AbortController();
  let isOpen = false;
  const opening = manager.open(signal).then(() => (isOpen = true));
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([log.splice(0), isOpen], [['late open', 'first open'], false]);
  opened.resolve();
  await opening;
  await manager.start(signal);
  const copy: ObjectKey = asKey('local:Secret/team/copy');
  manager.engine.objectChanged(copy, undefined, MARKED);
  assert.deepEqual(log.splice(0), ['late copy', 'first copy']);
  assert.deepEqual([...manager.engine.claims.ownedBy(rule)], [copy]);
  await waitFor(() => local.reconciled.includes(copy), { message: 'the copy with a mark of the other controller' });
  await manager.drain(0);
  assert.deepEqual(log, ['late stop', 'first stop']);
  await manager.stop(0);
});

test('the process is not ready while the work of a controller lacks something', () => {
  const manager = new Manager(OPTIONS);
  const watch = { collection: 'secrets', name: 'secrets', synced: true, connected: true, silentMs: 0 };
  manager.engine.backends.add({ ...stubBackend('local'), watches: [watch] });
  const work = { start: unused, drain: unused, queues: [], lacks: 'the API is not installed' as string | undefined };
  manager.addController({ ...controller('first', [], manager), work });
  const ready = { ok: true, message: 'secrets: last activity 0 s ago' };
  assert.deepEqual(manager.readiness(), [ready, { ok: false, message: 'the API is not installed' }]);
  work.lacks = undefined;
  assert.deepEqual(manager.readiness(), [ready]);
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

test('no rule is evaluated before the lists of its controller are complete', async () => {
  const lists = Promise.withResolvers<void>();
  const manager = new Manager(OPTIONS);
  manager.engine.backends.add(stubBackend('local'));
  let evaluated = 0;
  const first = controller('first', [], manager);
  const evaluate = (): undefined => void (evaluated += 1);
  manager.addController(controller('second', [], manager));
  manager.addController({ ...first, rules: { ...first.rules, evaluate }, open: () => lists.promise });
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
