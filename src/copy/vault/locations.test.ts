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

const servedAt = (addr: string, more: object = {}): VaultLocation => at({ server: parseServer({ addr, ...more }) });
const { addr } = at().server;
const LOCAL = 'http://127.0.0.1:8200';

/** Checks that the places of a row have one key, and those of different rows different ones. */
function assertRows(rows: readonly (readonly VaultLocation[])[], keyOf: (location: VaultLocation) => string): void {
  const keys = rows.map((row) => new Set(row.map(keyOf)));
  for (const [index, row] of keys.entries()) assert.equal(row.size, 1, `row ${index}`);
  assert.equal(new Set(keys.map((row) => [...row].join())).size, rows.length);
}

describe('the key of an entry', () => {
  it('as a target, an entry has one key for all rules and spellings, and with and without the first segment `data`', () => {
    assertRows(
      [
        [
          at(),
          at({ path: '/secret//data/app' }),
          at({ path: 'secret/app' }),
          servedAt('HTTPS://vault.example:8200/v1/'),
          otherAuth,
          at({ encoding: 'base64' }),
          at({ secretType: undefined }),
        ],
        [at({ path: 'secret/data/app2' })],
        [at({ path: 'team/kv/app' }), at({ path: 'team/kv/data/app' })],
        [at({ path: 'other/team/kv/app' })],
        [at({ path: 'secret/data/apps/data/db' }), at({ path: '/secret//data/apps/data/db' })],
        [at({ path: 'secret/data/apps/db' })],
        [at({ path: 'secret/data/apps/data/data/db' })],
        [at({ path: 'secret/data' }), at({ path: 'secret/data/data' })],
        [at({ path: 'data/app' }), at({ path: 'data/data/app' })],
        [servedAt('https://vault.example')],
        [servedAt('http://vault.example:8200')],
        [servedAt(addr, { namespace: 'team' })],
      ],
      vaultTargetKey,
    );
  });

  it('as a target, an entry has one key for localhost, 127.0.0.1 and [::1], and for the short and the long name of a Service', () => {
    const rows = [
      [LOCAL, 'http://localhost:8200/v1', 'http://LOCALHOST.:8200', 'http://[::1]:8200', 'http://[0::1]:8200'],
      ['https://vault.ns.svc/x', 'https://vault.ns.svc.cluster.local/x/', 'https://vault.ns.svc.cluster.local./x'],
      ...['https://localhost:8200', 'http://localhost', 'http://localhost.example:8200'].map((one) => [one]),
      ...['http://vault.cluster.local:8200', 'http://vault:8200', 'http://127.0.0.2:8200'].map((one) => [one]),
      ['http://localhost:8200/x'],
    ];
    assertRows(
      rows.map((row) => row.map((one) => servedAt(one))),
      vaultTargetKey,
    );
  });

  it('as a source, an entry has another key for each rule, login, encoding, type of the copies and TLS settings, and spelling of the host', () => {
    assertRows(
      [
        [
          at(),
          at({ path: '/secret//data/app' }),
          servedAt('HTTPS://vault.example:8200/v1/'),
          servedAt(addr, { caBundle: '' }),
        ],
        [otherAuth],
        [at({ encoding: 'base64' })],
        [at({ secretType: undefined })],
        [at({ path: 'secret/app' })],
        [servedAt(addr, { tlsServerName: 'vault' })],
        [servedAt(addr, { namespace: 'team' })],
        // Credentials and leases belong to the address as it is written in the spec.
        [servedAt(LOCAL)],
        [servedAt('http://localhost:8200')],
      ],
      sourceKey,
    );
    assert.notEqual(vaultSourceKey(at(), asKey('mirrors:a/one')), vaultSourceKey(at(), asKey('mirrors:a/two')));
  });

  it('serverOf() reads the address of the server from the key of a Vault entry', () => {
    assert.equal(serverOf(sourceKey()), 'https://vault.example:8200');
    assert.equal(serverOf(vaultTargetKey(servedAt('http://[fd00::1]:8200/behind/a/proxy'))), 'http://[fd00::1]:8200');
    assert.ok(isEntryKey(sourceKey()));
    assert.ok(!isEntryKey(asKey('local:Secret/default/vault')));
  });

  it('leases have one origin whatever their TLS settings and the types of the copies are, and another one for each address, namespace, path, login and encoding', () => {
    assertRows(
      [
        [
          at(),
          at({ secretType: 'kubernetes.io/tls' }),
          servedAt(addr, { tlsServerName: 'vault' }),
          at({ server: parseServer({ addr: `${addr}/v1/` }), path: '/secret/data/app' }),
        ],
        [servedAt('https://other.example:8200')],
        [servedAt(addr, { namespace: 'team' })],
        [at({ path: 'secret/data/other' })],
        [otherAuth],
        [at({ auth: { method: 'token', token: { ...secret, key: 'other' } } })],
        [at({ encoding: 'base64' })],
      ],
      vaultLeaseOrigin,
    );
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
