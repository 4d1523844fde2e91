import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { EventCorrelator, type EventInput, eventName, MAX_MESSAGE_BYTES, truncate } from './event-correlator.ts';

const START = Date.UTC(2026, 10, 21);
const subject = {
  apiVersion: 'mirrors.kts.studio/v1alpha2',
  kind: 'SecretMirror',
  name: 'db',
  namespace: 'shop',
  uid: 'u1',
};

function event(more: Partial<EventInput> = {}): EventInput {
  return { subject, type: 'Warning', reason: 'NoSecret', message: 'secret shop/db not found', ...more };
}

test('if the same event occurs again, the count of its Event rises; a different event gets a new Event', () => {
  const correlator = new EventCorrelator();
  const first = correlator.correlate('test', event(), START);
  assert.ok(first);
  for (let i = 1; i < 11; i++) assert.equal(correlator.correlate('test', event(), START + i * 30_000), first);
  assert.deepEqual([first.count, first.firstAt, first.lastAt], [11, START, START + 300_000]);
  const others = [
    event({ reason: 'SyncError' }),
    event({ type: 'Normal' }),
    event({ message: 'else' }),
    event({ subject: { ...subject, uid: 'u2' } }),
  ];
  const names = others.map((other) => correlator.correlate('test', other, START)?.name);
  assert.equal(new Set([first.name, ...names, correlator.correlate('other', event(), START)?.name]).size, 6);
});

test('if the same event occurs again more than an hour later, it gets a new Event', () => {
  const correlator = new EventCorrelator();
  const first = correlator.correlate('test', event(), START);
  assert.equal(correlator.correlate('test', event(), START + 3_600_000), first);
  const later = correlator.correlate('test', event(), START + 2 * 3_600_000 + 1);
  assert.notEqual(later, first);
  assert.equal(later?.count, 1);
});

test('if an event reports a lasting state, its Event has the same name in every process', () => {
  const nameOf = (more: Partial<EventInput>): string | undefined =>
    new EventCorrelator().correlate('test', event({ state: 'found', ...more }), START)?.name;
  assert.equal(nameOf({}), nameOf({}));
  assert.match(nameOf({}) ?? '', /^db\.[0-9a-f]{20}$/);
  const others = [{ message: 'else' }, { reason: 'Else' }, { subject: { ...subject, uid: 'u2' } }];
  assert.equal(new Set([nameOf({}), ...others.map(nameOf)]).size, 4);
});

test('property: an object gets at most 25 events of one type at once, then one every five minutes', () => {
  const waits = fc.array(fc.integer({ min: 0, max: 120_000 }), { minLength: 30, maxLength: 200, size: 'max' });
  fc.assert(
    fc.property(waits, fc.boolean(), (history, varied) => {
      const correlator = new EventCorrelator();
      let now = START;
      let passed = 0;
      for (const [index, wait] of history.entries()) {
        now += wait;
        if (correlator.correlate('test', event(varied ? { message: `${index}` } : {}), now) !== undefined) passed++;
        assert.ok(passed <= 25 + (now - START) / 300_000);
      }
      assert.ok(passed >= 25);
    }),
  );
});

test('events above the limit are not written, but the count of the next written Event includes them', () => {
  const correlator = new EventCorrelator();
  for (let i = 0; i < 40; i++) correlator.correlate('test', event(), START);
  assert.equal(correlator.correlate('test', event(), START), undefined);
  assert.equal(correlator.correlate('test', event(), START + 300_000)?.count, 42);
  assert.ok(correlator.correlate('test', event({ type: 'Normal' }), START), 'another type has its own limit');
});

test('the memory for events is limited, and the oldest events are forgotten first', () => {
  const correlator = new EventCorrelator(Math.random, 64 * 1024);
  const first = correlator.correlate('test', event(), START);
  for (let i = 0; i < 2000; i++)
    correlator.correlate('test', event({ subject: { ...subject, uid: `other-${i}` } }), START);
  const last = event({ subject: { ...subject, uid: 'other-1999' } });
  assert.equal(correlator.correlate('test', last, START)?.count, 2);
  assert.notEqual(correlator.correlate('test', event(), START), first);
});

test('if the message of an event is too long, it is cut between two whole characters', () => {
  const record = new EventCorrelator().correlate('test', event({ message: 'ü'.repeat(2000) }), START);
  assert.ok(record && Buffer.byteLength(record.message) <= MAX_MESSAGE_BYTES);
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), fc.integer({ min: 3, max: 80 }), (text, limit) => {
      const cut = truncate(text, limit);
      assert.ok(Buffer.byteLength(cut) <= limit);
      if (cut !== text) assert.ok(cut.endsWith('…') && text.startsWith(cut.slice(0, -1)));
    }),
  );
});

test('the name of an Event is valid, whatever the length of the name of its object', () => {
  assert.match(eventName('db', START, 0.5), /^db\.[0-9a-f]+80000$/);
  const long = eventName(`${'a'.repeat(235)}.${'b'.repeat(17)}`, START, 0.999_999_9);
  assert.ok(long.length <= 253);
  for (let length = 225; length <= 253; length++)
    assert.match(
      eventName(`${'a'.repeat(length - 20)}${'.b'.repeat(10)}`, START, 0),
      /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/,
    );
});
