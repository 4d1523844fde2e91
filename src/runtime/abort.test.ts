import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { AbortedError, anySignal, orAborted, sleep, throwIfAborted, TimeLimitError, withTimeout } from './abort.ts';
import { systemClock } from './clock.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';

const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;
const never = new Promise<never>(() => undefined);

test('if the signal is aborted, throwIfAborted throws an AbortedError with the work and the reason', () => {
  throwIfAborted(undefined, 'reading');
  throwIfAborted(new AbortController().signal, 'reading');
  const reason = new Error('shutdown');
  assert.throws(
    () => {
      throwIfAborted(AbortSignal.abort(reason), 'reading the source');
    },
    (error) =>
      error instanceof AbortedError && error.message === 'aborted while reading the source' && error.cause === reason,
  );
});

test('sleep ends after its time or when its signal is aborted, and leaves no listener and no timer', async () => {
  const clock = new ManualClock();
  const { signal } = new AbortController();
  let awake = false;
  const slept = sleep(100, signal, clock).then(() => (awake = true));
  await clock.advance(99);
  assert.equal(awake, false);
  await clock.advance(1);
  await slept;
  assert.equal(listeners(signal), 0);

  const controller = new AbortController();
  const aborted = sleep(100, controller.signal, clock);
  controller.abort();
  await assert.rejects(aborted, { name: 'AbortError' });
  assert.equal(clock.pendingTimers, 0);
  await assert.rejects(sleep(100, controller.signal, clock), { name: 'AbortError' });
  assert.equal(clock.pendingTimers, 0);
});

test('orAborted returns the outcome of the promise; if the signal is aborted first, it throws AbortedError', async () => {
  const controller = new AbortController();
  assert.equal(await orAborted(Promise.resolve(1), controller.signal, 'x'), 1);
  await assert.rejects(orAborted(Promise.reject(new Error('no')), controller.signal, 'x'), /no/);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(listeners(controller.signal), 0);
  const waiting = orAborted(never, controller.signal, 'waiting for godot');
  controller.abort();
  await assert.rejects(waiting, /aborted while waiting for godot/);
});

test('the signal of anySignal is aborted with the first given signal; its disposal removes all listeners', () => {
  const [a, b] = [new AbortController(), new AbortController()];
  const reason = new Error('b');
  {
    using linked = anySignal(a.signal, undefined, b.signal);
    assert.equal(listeners(a.signal), 1);
    b.abort(reason);
    assert.equal(linked.signal.reason, reason);
  }
  assert.equal(listeners(a.signal), 0);
  using already = anySignal(a.signal, b.signal);
  assert.equal(already.signal.reason, reason);
});

test('withTimeout returns the result of the work, or throws at the limit even if the work ignores its signal', async () => {
  const clock = new ManualClock();
  assert.equal(await withTimeout(async () => 7, { what: 'counting', limitMs: 10, clock }), 7);
  assert.equal(clock.pendingTimers, 0);

  let inner: AbortSignal | undefined;
  const deaf = withTimeout(
    (given) => {
      inner = given;
      return never;
    },
    { what: 'renewing the lease', limitMs: 10, clock },
  );
  const rejected = assert.rejects(
    deaf,
    (error) => error instanceof TimeLimitError && error.message === 'renewing the lease took longer than 10 ms',
  );
  await clock.advance(10);
  await rejected;
  assert.equal(inner?.aborted, true);
  assert.equal(clock.pendingTimers, 0);
});

test('systemClock accepts timers that are longer than the limit of Node, 2^31 ms, and can cancel them', async () => {
  const before = systemClock.monotonic();
  await sleep(5);
  assert.ok(systemClock.monotonic() > before);
  let early = false;
  const long = systemClock.setTimeout(() => (early = true), 2 ** 40);
  await sleep(5);
  assert.equal(early, false);
  long.cancel();
  long.cancel();
});
