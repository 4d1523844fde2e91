/** Tests reads and writes of Vault entries in mounts of KV 1, KV 2 and other kinds, by the path that a user gives. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import * as fc from 'fast-check';

import { systemClock } from '../../../src/runtime/clock.ts';
import { SecretBytes } from '../../../src/runtime/secret-bytes.ts';
import { VaultEntries } from '../../../src/vault/kv/entries.ts';
import { isVaultError, VaultError } from '../../../src/vault/errors.ts';
import type { FoundEntry, KvEntry } from '../../../src/vault/kv/answers.ts';
import type { VaultCaller, VaultSession } from '../../../src/vault/session/session.ts';
import { VaultSessions } from '../../../src/vault/session/sessions.ts';
import { toSecretData, toVaultValues, VaultValues } from '../../../src/vault/kv/values.ts';
import { DevVault } from './dev-vault.ts';
import { waitFor } from '../../support/wait-for.ts';
import { parseServer } from '../../../src/vault/client/server.ts';

let vault: DevVault;
let sessions: VaultSessions;

function sessionFor(token: string): VaultSession {
  return sessions.acquire(parseServer({ addr: vault.addr }), { method: 'token', token: SecretBytes.fromUtf8(token) })
    .session;
}

const rootSession = (): VaultSession => sessionFor(vault.rootToken);

function entriesFor(token: string): VaultEntries {
  return new VaultEntries(sessionFor(token), { clock: systemClock });
}

async function limited(rules: Readonly<Record<string, readonly string[]>>, more: object = {}): Promise<VaultEntries> {
  const name = `p${Math.random().toString(36).slice(2)}`;
  await vault.policy(name, rules);
  const made = await vault.write('auth/token/create', { policies: [name], ...more });
  return entriesFor(made.auth.client_token);
}

function found(entry: KvEntry): FoundEntry {
  assert.equal(entry.state, 'found');
  return entry;
}

/** Reads the creation time of an entry's current version; `undefined` if there is no such version. */
async function createdTime(entries: VaultEntries, path: string): Promise<string | undefined> {
  const head = await entries.readVersion(path);
  return head.state === 'found' ? head.createdTime : undefined;
}

function values(object: Readonly<Record<string, string>>, base?: VaultValues): VaultValues {
  return new VaultValues([...(base?.entries() ?? []), ...Object.entries(object)]);
}

const kind =
  (...kinds: readonly VaultError['kind'][]) =>
  (error: unknown): boolean =>
    isVaultError(error, ...(kinds as ['notFound']));

before(async () => {
  vault = await DevVault.start();
  sessions = new VaultSessions({ clock: systemClock });
  await vault.write('sys/mounts/kv1', { type: 'kv', options: { version: '1' } });
  await vault.write('sys/mounts/kv', { type: 'kv', options: { version: '1' } });
  await vault.write('sys/mounts/team/store', { type: 'kv', options: { version: '2' } });
  await vault.write('sys/mounts/pki', { type: 'pki' });
  await waitFor(
    async () => {
      const root = entriesFor(vault.rootToken);
      return await root.read('team/store/x').then(
        () => true,
        () => false,
      );
    },
    { message: 'the new KV 2 mount serves' },
  );
});

after(async () => {
  await sessions.stop();
  await vault.stop();
});

describe('KV 2', () => {
  it('Keyferry recognizes a KV 2 mount, and accepts paths into it with and without data/', async () => {
    const root = entriesFor(vault.rootToken);
    await vault.write('secret/data/app', { data: { k: 'v' } });
    await vault.write('team/store/data/data', { data: { k: 'w' } });
    await vault.write('secret/data/a%20b%3F%23%25', { data: { k: 'odd' } });
    for (const path of ['secret/app', '/secret/data/app', 'secret//data/app/']) {
      const entry = found(await root.read(path));
      assert.deepEqual([entry.values.get('k'), entry.version, entry.lease], ['v', 1, undefined], path);
    }
    for (const path of ['team/store/data', 'team/store/data/data']) {
      assert.equal(found(await root.read(path)).values.get('k'), 'w', path);
    }
    assert.equal(found(await root.read('secret/a b?#%')).values.get('k'), 'odd');
    assert.deepEqual((await root.resolve('secret/app')).mount, { path: 'secret/', kind: 'kv2' });
  });

  it('a KV 2 entry is reported as missing, deleted or destroyed, both when its content and when its metadata is read', async () => {
    const root = entriesFor(vault.rootToken);
    const states = async (): Promise<unknown[]> => {
      const entry = await root.read('secret/life');
      const head = await root.readVersion('secret/life');
      assert.deepEqual([head.state, head.version], [entry.state, entry.version]);
      return [entry.state, entry.version];
    };
    assert.deepEqual(await states(), ['missing', 0]);
    await vault.write('secret/metadata/life', { custom_metadata: { a: 'b' } });
    assert.deepEqual(await states(), ['missing', 0]);
    await vault.write('secret/data/life', { data: { k: 'v' } });
    assert.deepEqual(await states(), ['found', 1]);
    await vault.call('DELETE', 'secret/data/life');
    assert.deepEqual(await states(), ['deleted', 1]);
    await vault.write('secret/undelete/life', { versions: [1] });
    assert.deepEqual(await states(), ['found', 1]);
    await vault.write('secret/destroy/life', { versions: [1] });
    assert.deepEqual(await states(), ['destroyed', 1]);
    const rewritten = await root.update('secret/life', () => values({ k: 'new' }));
    assert.deepEqual(rewritten, { written: true, version: 2, createdTime: await createdTime(root, 'secret/life') });
  });

  it('an update of a KV 2 entry makes a new version only if the content changes', async () => {
    const root = entriesFor(vault.rootToken);
    const path = 'secret/versions';
    for (let i = 0; i < 100; i++) {
      const { written, version } = await root.update(path, () => values({ a: '1', b: '2' }));
      assert.deepEqual([written, version], [i === 0, 1]);
    }
    const second = await root.update(path, () => values({ a: '1' }));
    assert.deepEqual(second, { written: true, version: 2, createdTime: await createdTime(root, path) });
    assert.deepEqual(await root.update(path, () => undefined), { ...second, written: false });
    assert.equal((await vault.read('secret/metadata/versions')).data.current_version, 2);
  });

  it('a write to a KV 2 entry is refused if the given version is outdated, and accepted if it is the current version', async () => {
    const root = entriesFor(vault.rootToken);
    await root.write('secret/cas', values({ k: '1' }), { ifVersion: 0 });
    await assert.rejects(root.write('secret/cas', values({ k: '2' }), { ifVersion: 0 }), kind('casMismatch'));
    await assert.rejects(root.write('secret/cas', values({ k: '2' }), { ifVersion: 7 }), kind('casMismatch'));
    assert.equal((await root.write('secret/cas', values({ k: '2' }), { ifVersion: 1 })).version, 2);
  });

  it('if another client writes a KV 2 entry during an update, the update is computed again from the new content', async () => {
    const root = entriesFor(vault.rootToken);
    await vault.write('secret/data/race', { data: { theirs: '0' } });
    let times = 0;
    const merged = await root.update('secret/race', (current) => {
      times++;
      return values({ ours: 'x' }, found(current).values);
    });
    assert.deepEqual([merged.version, times], [2, 1]);
    let interfered = false;
    const rivalled: VaultCaller = {
      addr: vault.addr,
      forgetLease: () => undefined,
      request: async (request) => {
        if (request.method === 'POST' && !interfered) {
          interfered = true;
          await vault.write('secret/data/race', { data: { theirs: '1' } });
        }
        return await rootSession().request(request);
      },
    };
    const decisions: unknown[] = [];
    const result = await new VaultEntries(rivalled, { clock: systemClock }).update('secret/race', (current) => {
      decisions.push(found(current).values.get('theirs'));
      return values({ ours: 'y' }, found(current).values);
    });
    assert.deepEqual([result.written, result.version, decisions], [true, 4, ['0', '1']]);
    assert.deepEqual((await vault.read('secret/data/race')).data.data, { theirs: '1', ours: 'y' });
  });

  it('the version of a KV 2 entry is read from its metadata; if a policy forbids the metadata, it is read from the entry', async () => {
    await vault.write('secret/data/polled', { data: { k: 'v' } });
    const allowed = await limited({ 'secret/data/polled': ['read'], 'secret/metadata/polled': ['read'] });
    assert.equal('values' in (await allowed.readVersion('secret/polled')), false);
    const forbidden = await limited({ 'secret/data/polled': ['read'] });
    const before = vault.auditText().split('"secret/metadata/polled"').length;
    for (let i = 0; i < 3; i++) {
      const entry = await forbidden.readVersion('secret/polled');
      assert.deepEqual([entry.version, entry.state, 'values' in entry], [1, 'found', true]);
    }
    // The audit log has two lines for each call: request and response. So only one of the three reads tried the
    // metadata.
    assert.equal(vault.auditText().split('"secret/metadata/polled"').length - before, 2);
  });

  it("a KV 2 entry that exceeds Vault's size limit is refused, and nothing is written", async () => {
    const root = entriesFor(vault.rootToken);
    const big = values({ key: 'x'.repeat(1_032_192) });
    await assert.rejects(root.write('secret/big', big, { ifVersion: 0 }), (error) => {
      assert.ok(isVaultError(error, 'tooLarge') && /\d+ bytes.*at most 1032192/.test(error.message), String(error));
      return true;
    });
    assert.equal((await root.read('secret/big')).state, 'missing');
  });

  it('any text and any bytes written to a KV 2 entry are read back unchanged', async () => {
    const root = entriesFor(vault.rootToken);
    const text = fc.string({ unit: 'binary' });
    const data = fc.dictionary(fc.stringMatching(/^[-._a-zA-Z0-9]{1,20}$/), text, { minKeys: 1 });
    let n = 0;
    await fc.assert(
      fc.asyncProperty(data, fc.constantFrom('plain' as const, 'base64' as const), async (given, encoding) => {
        const path = `secret/roundtrip/${n++}`;
        const bytes = new Map(Object.entries(given).map(([key, value]) => [key, SecretBytes.fromUtf8(value)]));
        await root.update(path, () => toVaultValues(bytes, encoding));
        const back = toSecretData(found(await root.read(path)).values, encoding);
        assert.deepEqual([...back.keys()].toSorted(), [...bytes.keys()].toSorted());
        for (const [key, value] of bytes) assert.equal(back.get(key)?.base64(), value.base64());
        assert.equal((await root.update(path, () => toVaultValues(bytes, encoding))).written, false);
      }),
      {
        numRuns: 100,
        examples: [
          'password',
          'deadbeef',
          '',
          '-----BEGIN A-----\nQUJD\n-----END A-----\n',
          '🔑',
          'x'.repeat(100_000),
        ].map((value): [Record<string, string>, 'plain'] => [{ k: value }, 'plain']),
      },
    );
  });

  it('text that Keyferry writes to KV 2 is plain text for every other client', async () => {
    const root = entriesFor(vault.rootToken);
    await root.update('secret/plain', () => toVaultValues(new Map([['password', SecretBytes.fromUtf8('cGFzcw==')]])));
    assert.deepEqual((await vault.read('secret/data/plain')).data.data, { password: 'cGFzcw==' });
  });
});

describe('KV 1', () => {
  it('Keyferry recognizes a KV 1 mount, even if keys and paths in the mount are named data', async () => {
    const root = entriesFor(vault.rootToken);
    await vault.write('kv1/app', { data: 'x', n: 1 });
    await vault.write('kv1/data/app', { k: 'inner' });
    const entry = found(await root.read('kv1/app'));
    assert.deepEqual([entry.values.get('data'), entry.version], ['x', undefined]);
    assert.equal(found(await root.read('kv1/data/app')).values.get('k'), 'inner');
    assert.deepEqual((await root.resolve('kv1/app')).mount, { path: 'kv1/', kind: 'kv1' });
    assert.equal((await root.read('kv1/none')).state, 'missing');
  });

  it('a path in the mount kv1/ is not taken for a path in the mount kv/', async () => {
    const root = entriesFor(vault.rootToken);
    assert.deepEqual((await root.resolve('kv/app')).mount, { path: 'kv/', kind: 'kv1' });
    assert.deepEqual((await root.resolve('kv1/app')).mount, { path: 'kv1/', kind: 'kv1' });
    await root.update('kv1/beside', () => values({ k: 'v' }));
    assert.equal(found(await root.read('kv1/beside')).values.get('k'), 'v');
  });

  it('an update of a KV 1 entry with equal content writes nothing', async () => {
    const root = entriesFor(vault.rootToken);
    assert.equal((await root.update('kv1/w', () => values({ a: '1' }))).written, true);
    assert.equal((await root.update('kv1/w', () => values({ a: '1' }))).written, false);
    assert.equal((await root.update('kv1/w', () => values({ a: '2' }))).written, true);
    assert.deepEqual((await vault.read('kv1/w')).data, { a: '2' });
    await assert.rejects(root.write('kv1/w', values({ a: '3' }), { ifVersion: 0 }), kind('casMismatch'));
  });

  it('if an update adds a key to a KV 1 entry, a number in the entry keeps all its digits', async () => {
    const root = entriesFor(vault.rootToken);
    await fetch(`${vault.addr}/v1/kv1/num`, {
      method: 'POST',
      headers: { 'x-vault-token': vault.rootToken },
      body: '{"big":9007199254740993123,"price":1.10}',
    });
    const { values: read } = found(await root.read('kv1/num'));
    await root.update('kv1/num', () => values({ more: 'x' }, read));
    const data = toSecretData(found(await root.read('kv1/num')).values);
    assert.deepEqual([data.get('big')?.utf8(), data.get('price')?.utf8()], ['9007199254740993123', '1.10']);
  });
});

describe('paths of entries', () => {
  it('a path that has no mount or an invalid form is an error, and not a missing entry', async () => {
    const root = entriesFor(vault.rootToken);
    await assert.rejects(root.read('nothing/here'), kind('invalidPath'));
    await assert.rejects(root.write('nothing/here', values({ a: 'b' }), { ifVersion: 0 }), kind('invalidPath'));
    await assert.rejects(root.read('secret'), kind('invalidPath'));
    await assert.rejects(root.read('secret/../sys/mounts'), kind('invalidPath'));
    await assert.rejects(root.read(''), kind('invalidPath'));
  });

  it('a path in a mount that is not KV is recognized as such, and a write to the path is refused', async () => {
    const root = entriesFor(vault.rootToken);
    assert.equal((await root.resolve('pki/cert/ca')).mount.kind, 'other');
    await assert.rejects(root.write('pki/config/urls', values({ a: 'b' }), { ifVersion: 0 }), kind('invalidPath'));
  });

  it('if a policy forbids a path, the error names the path, and the token stays in use', async () => {
    const limitedUser = await limited({ 'secret/data/mine': ['read'] });
    await assert.rejects(limitedUser.read('secret/theirs'), (error) => {
      assert.ok(isVaultError(error, 'permissionDenied'), String(error));
      assert.match(error.message, /GET secret\/data\/theirs: 403/);
      return true;
    });
    assert.equal((await limitedUser.read('secret/mine')).state, 'missing');
  });

  it('if Vault does not show its mounts to a client, the form of a path decides between KV 1 and KV 2', async () => {
    const untold: VaultCaller = {
      addr: vault.addr,
      forgetLease: () => undefined,
      // Asks for a path outside of all mounts. Vault answers the same if a client has no permission to see the mount.
      request: (request) =>
        rootSession().request({
          ...request,
          path: request.path.replace(/^(sys\/internal\/ui\/mounts\/).*/, '$1nowhere'),
        }),
    };
    const blind = new VaultEntries(untold, { clock: systemClock });
    await vault.write('secret/data/shape', { data: { k: 'v' } });
    await vault.write('kv1/data/shape', { k: 'one' });
    assert.deepEqual((await blind.resolve('secret/data/shape')).mount, { path: 'secret/', kind: 'kv2' });
    assert.equal(found(await blind.read('secret/data/shape')).values.get('k'), 'v');
    assert.equal(found(await blind.read('secret/shape')).values.get('k'), 'v');
    assert.equal(found(await blind.read('kv1/data/shape')).values.get('k'), 'one');
  });
});

describe('errors of Vault', () => {
  it("the error of a refused Vault call has Vault's message, but contains neither a value nor a token", async () => {
    const token = (await vault.write('auth/token/create', { policies: ['default'] })).auth.client_token;
    const limitedUser = entriesFor(token);
    await assert.rejects(limitedUser.write('secret/x', values({ password: 'hunter2' }), { ifVersion: 0 }), (error) => {
      assert.ok(error instanceof VaultError);
      const text = `${error.stack} ${JSON.stringify(error)} ${String(error.cause)}`;
      assert.ok(!text.includes('hunter2') && !text.includes(token), text);
      assert.match(error.message, /permission denied/);
      return true;
    });
  });
});
