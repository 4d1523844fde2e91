/** Tests what an Inventory tells about objects and namespaces that the caller has no permission to list. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Listed } from '../../../kube/list-each.ts';
import { ServedNamespaces } from '../../../kube/watch/served-namespaces.ts';
import { Inventory, type Lister, type Coverage } from './inventory.ts';

const namespace = (name: string): Listed => ({
  metadata: { name, uid: name, resourceVersion: '1', creationTimestamp: '' },
});

/** @param namespaces the existing namespaces; `undefined`: the caller has no permission to list them */
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

test('if all namespaces could be listed, hasNamespace is false for a namespace that is not in the list', async () => {
  const inventory = await inventoryOf(['home', 'team']);
  assert.deepEqual(
    ['home', 'team', 'other'].map((name) => inventory.hasNamespace(name)),
    [true, true, false],
  );
});

test('if the caller has no permission to list namespaces, hasNamespace is true for every namespace', async () => {
  const inventory = await inventoryOf(undefined);
  assert.deepEqual(
    ['home', 'other'].map((name) => inventory.hasNamespace(name)),
    [true, true],
  );
});

test('if the caller has no permission to list a kind in one of the served namespaces, isWhole is false for this kind', async () => {
  const served = new ServedNamespaces(['home', 'team']);
  const inventory = new Inventory('home', served);
  const without = ['team'];
  await inventory.list('c', async ({ kind }) => {
    return await Promise.resolve<Coverage>({ extent: 'cluster', ...(kind === 'Secret' && { without }) });
  });
  assert.deepEqual([inventory.isWhole('Secret'), inventory.isWhole('ConfigMap')], [false, true]);
  assert.deepEqual([inventory.isListed('Secret', 'home'), inventory.isListed('Secret', 'team')], [true, false]);
});
