import assert from 'node:assert/strict';
import { test } from 'node:test';

import { LONGEST_RETRY_AFTER_MS, parseRetryAfter } from './retry-after.ts';

const NOW = Date.parse('2026-01-01T00:00:00Z');
const date = (ms: number): string => new Date(NOW + ms).toUTCString();

test('parseRetryAfter reads seconds and dates', () => {
  assert.equal(parseRetryAfter('3', NOW), 3000);
  assert.equal(parseRetryAfter(' 0 ', NOW), 0);
  assert.equal(parseRetryAfter('1.5', NOW), 1500);
  assert.equal(parseRetryAfter(date(5000), NOW), 5000);
});

test('parseRetryAfter ignores a header that is neither seconds nor a date', () => {
  for (const header of [undefined, '', 'soon', 'NaN', 'Infinity', '0x1']) {
    assert.equal(parseRetryAfter(header, NOW), undefined, String(header));
  }
});

test('parseRetryAfter returns 0 for a time in the past', () => {
  assert.equal(parseRetryAfter(date(-86_400_000), NOW), 0);
  assert.equal(parseRetryAfter('-5', NOW), 0);
});

test('parseRetryAfter returns 60 s for every longer wait', () => {
  const headers = [
    '61',
    '31536000',
    '9'.repeat(17),
    '9'.repeat(400),
    date(86_400_000),
    'Fri, 31 Dec 9999 23:59:59 GMT',
  ];
  for (const header of headers) assert.equal(parseRetryAfter(header, NOW), LONGEST_RETRY_AFTER_MS, header);
});
