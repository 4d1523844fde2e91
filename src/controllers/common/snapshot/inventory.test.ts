/** What a command may say of objects and namespaces that it could not list. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Listed } from '../../../kube/list-each.ts';
import { Inventory, type Lister, type Coverage } from './inventory.ts';

const namespace = (name: string): Listed => ({
  metadata: { name, uid: name, resourceVersion: '1', creationTimestamp: '' },
});

/** @param namespaces those that the caller can list; `undefined`: it may not list them */
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

test('a namespace that is not in the whole list does not exist', async () => {
  const inventory = await inventoryOf(['home', 'team']);
  assert.deepEqual(
    ['home', 'team', 'other'].map((name) => inventory.hasNamespace(name)),
    [true, true, false],
  );
});

test('a namespace may exist where the caller may not list namespaces', async () => {
  const inventory = await inventoryOf(undefined);
  assert.deepEqual(
    ['home', 'other'].map((name) => inventory.hasNamespace(name)),
    [true, true],
  );
});
