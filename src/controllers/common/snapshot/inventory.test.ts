/** What a command knows about objects and namespaces that it could not list. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Listed } from '../../../kube/list-each.ts';
import { ServedNamespaces } from '../../../kube/watch/served-namespaces.ts';
import { Inventory, type Lister, type Coverage } from './inventory.ts';

const namespace = (name: string): Listed => ({
  metadata: { name, uid: name, resourceVersion: '1', creationTimestamp: '' },
});

/** @param namespaces the existing ones; `undefined`: the caller may not list namespaces */
async function inventoryOf(namespaces: readonly string[] | undefined): Promise<Inventory> {
  const lister: Lister = async ({ kind }, _home, take) => {
    if (kind !== 'Namespace') return await Promise.resolve<Coverage>({ extent: 'cluster' });
    for (const name of namespaces ?? []) take(namespace(name));
    return namespaces === undefined ? { extent: 'refused', message: 'no' } : { extent: 'cluster' };
  };
  const inventory = new Inventory('home');
  await inventory.list('c', lister);
  return inventory;
}

test('a namespace that the list of all namespaces lacks does not exist', async () => {
  const inventory = await inventoryOf(['home', 'team']);
  assert.deepEqual(
    ['home', 'team', 'other'].map((name) => inventory.hasNamespace(name)),
    [true, true, false],
  );
});

test('any namespace may exist if the caller may not list namespaces', async () => {
  const inventory = await inventoryOf(undefined);
  assert.deepEqual(
    ['home', 'other'].map((name) => inventory.hasNamespace(name)),
    [true, true],
  );
});

test('a kind is not wholly known if the caller may not list it in one of the served namespaces', async () => {
  const served = new ServedNamespaces(['home', 'team']);
  const inventory = new Inventory('home', served);
  const without = ['team'];
  await inventory.list('c', async ({ kind }) => {
    return await Promise.resolve<Coverage>({ extent: 'cluster', ...(kind === 'Secret' && { without }) });
  });
  assert.deepEqual([inventory.isWhole('Secret'), inventory.isWhole('ConfigMap')], [false, true]);
  assert.deepEqual([inventory.isListed('Secret', 'home'), inventory.isListed('Secret', 'team')], [true, false]);
});
