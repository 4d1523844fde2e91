import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { entryPathOf, type StoreMount } from './store-spec.ts';

function of(mount: string | undefined, version: StoreMount['version'], key: string): string {
  return entryPathOf(key, { mount, version });
}

test('entryPathOf returns the path where ESO reads a key, with and without a mount, in KV 1 and KV 2', () => {
  // The results of `buildPath` in ESO v0.20.4, and then of path.Join in its Vault client.
  const cases: readonly [mount: string | undefined, key: string, v1: string, v2: string][] = [
    [undefined, 'secret/app', 'secret/app', 'secret/data/app'],
    [undefined, 'secret/data/app', 'secret/data/app', 'secret/data/app'],
    [undefined, 'data/app', 'data/app', 'data/data/app'],
    [undefined, 'secret/data/data/app', 'secret/data/data/app', 'secret/data/data/app'],
    [undefined, 'team/kv/app', 'team/kv/app', 'team/data/kv/app'],
    [undefined, 'team/kv/data/app', 'team/kv/data/app', 'team/kv/data/app'],
    [undefined, '/secret/app', 'secret/app', 'data/secret/app'],
    [undefined, 'secret//app/', 'secret/app', 'secret/data/app'],
    [undefined, 'a b/c#d%/?e', 'a b/c#d%/?e', 'a b/data/c#d%/?e'],
    [undefined, 'secret/metadata/app', 'secret/metadata/app', 'secret/data/metadata/app'],
    ['secret', 'app', 'secret/app', 'secret/data/app'],
    ['secret', 'secret/app', 'secret/app', 'secret/data/app'],
    ['secret', 'secret/data/app', 'secret/data/app', 'secret/data/app'],
    ['secret', 'data/app', 'secret/data/app', 'secret/data/data/app'],
    ['secret', 'app/data/x', 'secret/app/data/x', 'secret/data/app/data/x'],
    ['secret', 'secret/data/data/app', 'secret/data/data/app', 'secret/data/data/app'],
    ['secret', 'secret/secret/app', 'secret/secret/app', 'secret/data/secret/app'],
    ['secret', 'secretive/app', 'secret/secretive/app', 'secret/data/secretive/app'],
    ['secret', '/secret/app', 'secret/secret/app', 'secret/data/secret/app'],
    ['secret', 'secret//app', 'secret/app', 'secret/data/app'],
    ['secret', 'app/', 'secret/app', 'secret/data/app'],
    ['secret', 'a b/c#d%/?e', 'secret/a b/c#d%/?e', 'secret/data/a b/c#d%/?e'],
    ['secret/', 'app', 'secret/app', 'secret/data/app'],
    ['secret/', 'secret/app', 'secret/secret/app', 'secret/data/secret/app'],
    ['/secret', '/secret/app', 'secret/app', 'secret/data/app'],
    ['team/kv', 'app', 'team/kv/app', 'team/kv/data/app'],
    ['team/kv', 'team/kv/app', 'team/kv/app', 'team/kv/data/app'],
    ['team/kv', 'team/kv/data/app', 'team/kv/data/app', 'team/kv/data/app'],
  ];
  for (const [mount, key, v1, v2] of cases) {
    assert.equal(of(mount, 'v1', key), v1, `v1 ${mount} ${key}`);
    assert.equal(of(mount, 'v2', key), v2, `v2 ${mount} ${key}`);
  }
});

test('entryPathOf throws an EntryPathError that tells why if a key does not name an entry', () => {
  const cases: readonly [mount: string | undefined, version: StoreMount['version'], key: string, says: RegExp][] = [
    [undefined, 'v1', '', /not the path/],
    [undefined, 'v1', '//', /not the path/],
    [undefined, 'v1', 'secret', /"secret" names a mount/],
    [undefined, 'v1', 'secret/', /names a mount/],
    [undefined, 'v2', 'secret', /names a mount/],
    [undefined, 'v2', 'secret/data/', /names a mount/],
    ['secret', 'v1', 'secret/', /names a mount/],
    ['secret', 'v2', '/', /names a mount/],
    ['secret', 'v2', 'secret/data/', /names a mount/],
    ['secret/', 'v2', '', /names a mount/],
    ['team/kv', 'v2', 'team/kv/', /names a mount/],
    ['secret', 'v2', '../sys/policy', /"\.\.\/sys\/policy" is not the path/],
    ['secret', 'v2', 'app/../../other', /not the path/],
    ['secret', 'v2', './app', /not the path/],
    ['../sys', 'v1', 'app', /not the path/],
    ['secret', 'v2', 'a\u0000b', /not the path/],
    ['secret', 'v2', 'a\nb', /not the path/],
    ['secret', 'v2', '\uD800', /not the path/],
    ['secret', 'v2', 'x'.repeat(2000), /^has 2000 characters, and at most 512 are allowed$/],
  ];
  for (const [mount, version, key, says] of cases) {
    assert.throws(() => of(mount, version, key), { name: 'EntryPathError', message: says }, `${mount} ${key}`);
  }
  assert.equal(of('secret', 'v1', 'x'.repeat(512)).length, 519);
});

test('for any key, even with "..", entryPathOf returns a path below the mount or throws', () => {
  const part = fc.constantFrom('..', '.', '', 'data', 'secret', 'sys', 'metadata', '%2e%2e', 'a');
  const key = fc.array(part, { maxLength: 6 }).map((parts) => parts.join('/'));
  fc.assert(
    fc.property(key, fc.constantFrom<StoreMount['version']>('v1', 'v2'), (text, version) => {
      let path: string;
      try {
        path = of('secret', version, text);
      } catch (error) {
        assert.equal((error as Error).name, 'EntryPathError');
        return;
      }
      assert.ok(path.startsWith(version === 'v2' ? 'secret/data/' : 'secret/'), path);
      for (const segment of path.split('/')) assert.ok(!['', '.', '..'].includes(segment), path);
    }),
  );
});
