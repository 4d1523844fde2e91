import assert from 'node:assert/strict';
import { test } from 'node:test';

import { asKey } from '../../../../test/support/keys.ts';
import type { KubeStore } from '../../cluster/objects/store.ts';
import type { VaultUser } from '../../model/keys.ts';
import type { VaultAuthRef } from '../locations.ts';
import { VaultCredentials } from './credentials.ts';

test('a Secret stays followed if a user changes its login to another key of the same Secret', () => {
  const followed = new Set<string>();
  const store = {
    key: (namespace: string, name: string) => asKey(`c:Secret/${namespace}/${name}`),
    follow: (key: string) => followed.add(key),
    unfollow: (key: string) => followed.delete(key),
  } as unknown as KubeStore;
  const credentials = new VaultCredentials(store);
  const user: VaultUser = asKey('vault:x');
  const byKey = (key: string): VaultAuthRef => ({ method: 'token', token: { namespace: 'a', name: 'b', key } });
  credentials.follow(user, byKey('old'));
  credentials.follow(user, byKey('new'), byKey('old'));
  assert.deepEqual([[...followed], [...credentials.usersOf(asKey('c:Secret/a/b'))]], [['c:Secret/a/b'], [user]]);
  credentials.follow(user, undefined, byKey('new'));
  assert.equal(followed.size, 0);
});
