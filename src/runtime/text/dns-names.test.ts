import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDnsLabel, isSubdomain } from './dns-names.ts';

test('recognizes DNS subdomains', () => {
  assert.ok(isSubdomain('k8s-replicator') && isSubdomain('a.b-c.d0'));
  for (const text of ['', 'a/', 'A', '-a', 'a..b', 'a'.repeat(254)]) assert.ok(!isSubdomain(text), text);
});

test('recognizes DNS labels', () => {
  assert.ok(isDnsLabel('team-a') && isDnsLabel('0') && isDnsLabel('a'.repeat(63)));
  for (const text of ['', 'a.b', '..', 'a/', 'A', '-a', 'a-', 'a'.repeat(64)]) assert.ok(!isDnsLabel(text), text);
});
