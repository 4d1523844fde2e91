import { type EntryKey, isEntryKey, serverOf } from '../model/keys.ts';
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import {
  VaultLocations,
  type VaultLocation,
  vaultLeaseOrigin,
  vaultSourceKey,
  vaultTargetKey,
  type VaultUse,
} from './locations.ts';
import { asKey } from '../../../test/support/keys.ts';
import { parseServer } from '../../vault/client/server.ts';

const secret = { namespace: 'default', name: 'vault-token' };
const at = (change: Partial<VaultLocation> = {}): VaultLocation => ({
  server: parseServer({ addr: 'https://vault.example:8200' }),
  auth: { method: 'token', token: { ...secret, key: 'token' } },
  path: 'secret/data/app',
  encoding: 'plain',
  secretType: 'Opaque',
  ...change,
});
const otherAuth = at({ auth: { method: 'token', token: { ...secret, namespace: 'other', key: 'token' } } });
const sourceKey = (location = at()): EntryKey => vaultSourceKey(location, asKey('mirrors:a/one'));

describe('the key of an entry', () => {
  it('the key of a Vault entry is the same for all spellings of address and path', () => {
    for (const change of [
      { path: '/secret//data/app' },
      { server: parseServer({ addr: 'HTTPS://vault.example:8200/v1/' }) },
    ]) {
      assert.equal(sourceKey(at(change)), sourceKey());
      assert.equal(vaultTargetKey(at(change)), vaultTargetKey(at()));
    }
  });

  it('as a target, a Vault entry has the same key with and without the first segment `data`', () => {
    for (const [path, ...others] of [
      ['secret/app', '/secret/data/app'],
      ['team/kv/app', 'team/kv/data/app'],
      ['secret/data/apps/data/db', '/secret//data/apps/data/db'],
      ['secret/data', 'secret/data/data'],
      ['data/app', 'data/data/app'],
    ] as const) {
      for (const other of others) assert.equal(vaultTargetKey(at({ path: other })), vaultTargetKey(at({ path })));
      assert.notEqual(vaultTargetKey(at({ path: `${path}data/app` })), vaultTargetKey(at({ path })));
      assert.notEqual(vaultTargetKey(at({ path: `other/${path}` })), vaultTargetKey(at({ path })));
    }
    const entries = ['secret/data/apps/data/db', 'secret/data/apps/db', 'secret/data/apps/data/data/db'];
    assert.equal(new Set(entries.map((path) => vaultTargetKey(at({ path })))).size, entries.length);
  });

  it('the keys of Vault entries differ if server, Vault namespace or path differ', () => {
    const changes: readonly Partial<VaultLocation>[] = [
      { path: 'secret/data/app2' },
      { server: parseServer({ addr: 'https://vault.example' }) },
      { server: parseServer({ addr: 'http://vault.example:8200' }) },
      { server: parseServer({ addr: 'https://vault.example:8200', namespace: 'team' }) },
    ];
    const keys = [at(), ...changes.map(at)];
    assert.equal(new Set(keys.map(sourceKey)).size, keys.length);
    assert.equal(new Set(keys.map(vaultTargetKey)).size, keys.length);
  });

  it('as a source, a Vault entry has another key for each rule', () => {
    assert.equal(vaultSourceKey(at(), asKey('mirrors:a/one')), vaultSourceKey(at(), asKey('mirrors:a/one')));
    assert.notEqual(vaultSourceKey(at(), asKey('mirrors:a/one')), vaultSourceKey(at(), asKey('mirrors:a/two')));
    assert.equal(serverOf(vaultSourceKey(at(), asKey('mirrors:a/one'))), 'https://vault.example:8200');
  });

  it('the key of a source depends on login, encoding, type of the copies and TLS settings', () => {
    const caBundle = '';
    assert.equal(sourceKey(), sourceKey(at({ server: parseServer({ addr: at().server.addr, caBundle }) })));
    const named = parseServer({ addr: at().server.addr, tlsServerName: 'vault' });
    for (const other of [otherAuth, at({ encoding: 'base64' }), at({ secretType: undefined }), at({ server: named })]) {
      assert.notEqual(sourceKey(other), sourceKey());
    }
  });

  it('as a target, a Vault entry has the same key for all rules, because only one rule may write it', () => {
    for (const other of [otherAuth, at({ encoding: 'base64' }), at({ secretType: undefined })]) {
      assert.equal(vaultTargetKey(other), vaultTargetKey(at()));
    }
  });

  it('as a target, a Vault entry has the same key for localhost, 127.0.0.1 and [::1], and for the short and the long name of a Service', () => {
    const target = (addr: string): string => vaultTargetKey(at({ server: parseServer({ addr }) }));
    for (const [name, ...others] of [
      [
        'http://127.0.0.1:8200',
        'http://localhost:8200/v1',
        'http://LOCALHOST.:8200',
        'http://[::1]:8200',
        'http://[0::1]:8200',
      ],
      ['https://vault.ns.svc/x', 'https://vault.ns.svc.cluster.local/x/', 'https://vault.ns.svc.cluster.local./x'],
    ] as const) {
      for (const other of others) assert.equal(target(other), target(name), other);
    }
    const different = [
      'http://127.0.0.1:8200',
      'https://localhost:8200',
      'http://localhost',
      'http://localhost.example:8200',
    ];
    different.push(
      'http://vault.cluster.local:8200',
      'http://vault:8200',
      'http://127.0.0.2:8200',
      'http://localhost:8200/x',
    );
    assert.equal(new Set(different.map(target)).size, different.length);
    // The keys of sources differ, because credentials and leases belong to the address as it is written in the spec.
    const addr = 'http://localhost:8200';
    assert.notEqual(
      sourceKey(at({ server: parseServer({ addr }) })),
      sourceKey(at({ server: parseServer({ addr: 'http://127.0.0.1:8200' }) })),
    );
  });

  it('serverOf() reads the address of the server from the key of a Vault entry', () => {
    assert.equal(serverOf(sourceKey()), 'https://vault.example:8200');
    assert.equal(
      serverOf(vaultTargetKey(at({ server: parseServer({ addr: 'http://[fd00::1]:8200/behind/a/proxy' }) }))),
      'http://[fd00::1]:8200',
    );
    assert.ok(isEntryKey(sourceKey()));
    assert.ok(!isEntryKey(asKey('local:Secret/default/vault')));
  });
});

describe('the origin of a lease', () => {
  const { addr } = at().server;
  it('leases have the same origin even if their TLS settings or the types of the copies differ', () => {
    for (const same of [
      at({ secretType: 'kubernetes.io/tls' }),
      at({ server: parseServer({ addr, tlsServerName: 'vault' }) }),
      at({ server: parseServer({ addr: `${addr}/v1/` }), path: '/secret/data/app' }),
    ]) {
      assert.equal(vaultLeaseOrigin(same), vaultLeaseOrigin(at()));
    }
  });

  it('the origins of leases differ if address, Vault namespace, path, login or encoding differ', () => {
    const others = [
      at({ server: parseServer({ addr: 'https://other.example:8200' }) }),
      at({ server: parseServer({ addr, namespace: 'team' }) }),
      at({ path: 'secret/data/other' }),
      otherAuth,
      at({ auth: { method: 'token', token: { ...secret, key: 'other' } } }),
      at({ encoding: 'base64' }),
    ];
    assert.equal(new Set([at(), ...others].map(vaultLeaseOrigin)).size, others.length + 1);
  });
});

describe('VaultLocations', () => {
  const use = (pollSeconds: number, location = at()): VaultUse => ({ key: asKey('vault:k'), location, pollSeconds });
  const make = (): { locations: VaultLocations; hurried: string[] } => {
    const hurried: string[] = [];
    return { locations: new VaultLocations((key) => hurried.push(key)), hurried };
  };

  it('the poll period of a Vault entry is the shortest period of the rules that use it, and a minute if no rule uses it', () => {
    const { locations } = make();
    assert.equal(locations.pollMs(asKey('vault:k')), 60_000);
    locations.set(asKey('mirrors:a/slow'), [use(180)]);
    locations.set(asKey('mirrors:a/fast'), [use(2)]);
    assert.equal(locations.pollMs(asKey('vault:k')), 2000);
    locations.set(asKey('mirrors:a/fast'), []);
    assert.equal(locations.pollMs(asKey('vault:k')), 180_000);
    locations.set(asKey('mirrors:a/slow'), []);
    assert.equal(locations.pollMs(asKey('vault:k')), 60_000);
    assert.equal(locations.get(asKey('vault:k')), undefined);
    assert.deepEqual([...locations.users(asKey('vault:k'))], []);
  });

  it('a change of a rule causes an immediate poll only if its poll period became shorter than all others, or its location changed', () => {
    const { locations, hurried } = make();
    locations.set(asKey('mirrors:a/one'), [use(180)]);
    locations.set(asKey('mirrors:a/one'), [use(180)]);
    locations.set(asKey('mirrors:a/two'), [use(180)]);
    locations.set(asKey('mirrors:a/two'), [use(300)]);
    assert.deepEqual(hurried, []);
    locations.set(asKey('mirrors:a/two'), [use(1)]);
    assert.deepEqual(hurried, ['vault:k']);
    locations.set(asKey('mirrors:a/two'), [use(1, otherAuth)]);
    assert.deepEqual(hurried, ['vault:k', 'vault:k']);
  });

  it('VaultLocations returns the location of each rule, and drops a location when no rule uses it any more', () => {
    const { locations } = make();
    locations.set(asKey('mirrors:a/one'), [use(180)]);
    locations.set(asKey('mirrors:a/two'), [use(180, otherAuth), { ...use(180), key: asKey('vault:l') }]);
    assert.equal(locations.get(asKey('vault:k'), asKey('mirrors:a/two')), otherAuth);
    assert.equal(locations.get(asKey('vault:k'), asKey('mirrors:a/three')), undefined);
    assert.deepEqual([...locations.users(asKey('vault:k'))], ['mirrors:a/one', 'mirrors:a/two']);
    locations.set(asKey('mirrors:a/two'), [{ ...use(180), key: asKey('vault:l') }]);
    assert.deepEqual([...locations.users(asKey('vault:k'))], ['mirrors:a/one']);
    assert.deepEqual([...locations.users(asKey('vault:l'))], ['mirrors:a/two']);
  });
});
