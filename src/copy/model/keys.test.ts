/** Tests that each key can be parsed into its parts, for all names that Kubernetes and Vault allow. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';

import {
  backendOf,
  controllerOf,
  entryKey,
  isEntryKey,
  kindOf,
  loginKey,
  namespaceOf,
  parseResourceKey,
  parseRuleKey,
  resourceKey,
  ruleKey,
  ruleKeyOfKind,
  ruleName,
  ruleOfLogin,
  serverOf,
} from './keys.ts';

/** Names of objects: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ */
const name = fc.stringMatching(/^[a-z0-9](?:[-.a-z0-9]{0,20}[a-z0-9])?$/);
const kind = fc.stringMatching(/^[A-Z][A-Za-z]{0,12}$/);
const cluster = fc.constantFrom('local', 'management');
const controller = fc.constantFrom('mirrors', 'replicator', 'syncsecret-ccm');

test('the key of an object can be parsed into cluster, kind, namespace and name', () => {
  fc.assert(
    fc.property(cluster, kind, name, name, (...parts) => {
      const key = resourceKey(...parts);
      const [where, what, namespace, called] = parts;
      assert.deepEqual(parseResourceKey(key), { cluster: where, kind: what, namespace, name: called });
      assert.deepEqual(
        [backendOf(key), kindOf(key), namespaceOf(key), isEntryKey(key)],
        [where, what, namespace, false],
      );
    }),
  );
});

test('the key of a rule can be parsed into controller, kind (if it has one), namespace and name', () => {
  fc.assert(
    fc.property(controller, kind, name, name, (which, what, namespace, called) => {
      const plain = ruleKey(which, namespace, called);
      const ofKind = ruleKeyOfKind(which, what, namespace, called);
      assert.deepEqual(parseRuleKey(plain), { controller: which, kind: '', namespace, name: called });
      assert.deepEqual(parseRuleKey(ofKind), { controller: which, kind: what, namespace, name: called });
      assert.deepEqual(
        [ruleName(plain), ruleName(ofKind)],
        [`${namespace}/${called}`, `${what}/${namespace}/${called}`],
      );
      for (const key of [plain, ofKind]) assert.deepEqual([controllerOf(key), namespaceOf(key)], [which, namespace]);
    }),
  );
});

test('ruleOfLogin() finds the rule in the key of a Vault login, whatever text its purpose is', () => {
  fc.assert(
    fc.property(controller, name, name, fc.string(), (which, namespace, called, purpose) => {
      const rule = ruleKey(which, namespace, called);
      const login = loginKey(rule, purpose);
      assert.equal(ruleOfLogin(login), rule);
      assert.equal(isEntryKey(login), false);
    }),
  );
});

test('the key of a Vault entry can be parsed into its server, and has an empty namespace', () => {
  for (const server of ['https://vault.example:8200', 'http://[fd00::1]:8200']) {
    const key = entryKey(server, 'secret/data/a/b', '1f');
    assert.deepEqual([serverOf(key), backendOf(key), namespaceOf(key), isEntryKey(key)], [server, 'vault', '', true]);
  }
});
