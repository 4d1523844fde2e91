import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isStopTimeout, type Component, Lifecycle } from './lifecycle.ts';
import { ManualClock } from './manual-clock.ts';

const { signal } = new AbortController();
const never = new Promise<never>(() => undefined);

function recorder(log: string[]): (name: string, more?: Partial<Component>) => Component {
  return (name, more = {}) => ({
    name,
    start: () => void log.push(`+${name}`),
    stop: () => void log.push(`-${name}`),
    ...more,
  });
}

test('starts in order, stops in the opposite order, once', async () => {
  const log: string[] = [];
  const part = recorder(log);
  const life = new Lifecycle({ stopLimitMs: 1000 });
  await life.start([part('a'), part('b'), part('c')], signal);
  assert.deepEqual(await life.stop(), []);
  await life.stop();
  assert.deepEqual(log, ['+a', '+b', '+c', '-c', '-b', '-a']);
});

test('a start that fails stops what was started and is reported first', async () => {
  const log: string[] = [];
  const part = recorder(log);
  const broken = new Error('port in use');
  const life = new Lifecycle({ stopLimitMs: 1000 });
  const start = (): never => {
    throw broken;
  };
  await assert.rejects(life.start([part('a'), part('b', { start }), part('c')], signal), broken);
  assert.deepEqual(log, ['+a', '-a']);

  const both = new Lifecycle({ stopLimitMs: 1000 });
  const stop = (): Promise<void> => Promise.reject(new Error('stuck'));
  await assert.rejects(both.start([part('a', { stop }), part('b', { start })], signal), (error) => {
    assert.ok(error instanceof AggregateError);
    assert.deepEqual(error.errors.map(String), ['Error: port in use', 'Error: stuck']);
    return error.cause === broken;
  });
});

test('every stop is called within the total time, and every failure is in the report', async () => {
  const clock = new ManualClock();
  const log: string[] = [];
  const part = recorder(log);
  const life = new Lifecycle({ stopLimitMs: 1000, clock });
  const told: string[] = [];
  const deaf =
    (name: string): NonNullable<Component['stop']> =>
    (signal) => {
      signal.addEventListener('abort', () => told.push(name));
      return never;
    };
  await life.start(
    [
      part('first'),
      part('fails', { stop: () => Promise.reject(new Error('no')) }),
      part('hangs', { stop: deaf('hangs') }),
      part('own limit', { stop: deaf('own limit'), stopLimitMs: 200 }),
    ],
    signal,
  );
  const stopped = life.stop();
  await clock.advance(200);
  assert.deepEqual(told, ['own limit']);
  await clock.advance(800);
  const failures = await stopped;
  assert.deepEqual(
    failures.map((failure) => [failure.component, isStopTimeout(failure)]),
    [
      ['own limit', true],
      ['hangs', true],
      ['fails', false],
    ],
  );
  assert.deepEqual(told, ['own limit', 'hangs']);
  assert.equal(log.at(-1), '-first', 'called although the time was up');
  assert.equal(clock.pendingTimers, 0);
});

test('stopped while starting: the component that was coming up is stopped too', async () => {
  const log: string[] = [];
  const part = recorder(log);
  const gate = Promise.withResolvers<void>();
  const life = new Lifecycle({ stopLimitMs: 1000 });
  const starting = life.start([part('a'), part('b', { start: () => gate.promise }), part('c')], signal);
  await Promise.resolve();
  const stopped = life.stop();
  gate.resolve();
  await assert.rejects(starting, /stopped while starting b/);
  await stopped;
  assert.deepEqual(log.sort(), ['+a', '-a', '-b']);
});

test('await using reports failures', async () => {
  const life = new Lifecycle({ stopLimitMs: 100 });
  await life.start([{ name: 'a', stop: () => Promise.reject(new Error('no')) }], signal);
  await assert.rejects(life[Symbol.asyncDispose](), /could not stop: a/);
});
