import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDataKey, isDnsLabel, isSubdomain } from './dns-names.ts';

test('isSubdomain accepts DNS subdomains and no other text', () => {
  assert.ok(isSubdomain('k8s-replicator') && isSubdomain('a.b-c.d0'));
  for (const text of ['', 'a/', 'A', '-a', 'a..b', 'a'.repeat(254)]) assert.ok(!isSubdomain(text), text);
});

test('isDnsLabel accepts DNS labels and no other text', () => {
  assert.ok(isDnsLabel('team-a') && isDnsLabel('0') && isDnsLabel('a'.repeat(63)));
  for (const text of ['', 'a.b', '..', 'a/', 'A', '-a', 'a-', 'a'.repeat(64)]) assert.ok(!isDnsLabel(text), text);
});

test('isDataKey accepts keys of Secret data and no other text', () => {
  assert.ok(['tls.crt', '.dockerconfigjson', '_A-0', 'a..b', 'a'.repeat(253)].every(isDataKey));
  for (const text of ['', '.', '..', '..data', 'a/b', 'a b', 'ä', 'a'.repeat(254)]) assert.ok(!isDataKey(text), text);
});
