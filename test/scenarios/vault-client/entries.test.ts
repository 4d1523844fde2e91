/** Tests reads and writes of Vault entries in mounts of KV 1, KV 2 and other kinds, by the path that a user gives. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { systemClock } from '../../../src/runtime/clock.ts';
import { SecretBytes } from '../../../src/runtime/secret-bytes.ts';
import { VaultEntries } from '../../../src/vault/kv/entries.ts';
import { isVaultError, type VaultError } from '../../../src/vault/errors.ts';
import type { FoundEntry, KvEntry } from '../../../src/vault/kv/answers.ts';
import type { VaultRequest } from '../../../src/vault/client/client.ts';
import type { VaultCaller, VaultSession } from '../../../src/vault/session/session.ts';
import { VaultSessions } from '../../../src/vault/session/sessions.ts';
import { toSecretData, VaultValues } from '../../../src/vault/kv/values.ts';
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
  const entry = await entries.read(path);
  return entry.state === 'found' ? entry.createdTime : undefined;
}

function values(object: Readonly<Record<string, string>>, base?: VaultValues): VaultValues {
  return new VaultValues([...(base?.entries() ?? []), ...Object.entries(object)]);
}

const kind =
  (...kinds: readonly VaultError['kind'][]) =>
  (error: unknown): boolean =>
    isVaultError(error, ...(kinds as ['notFound']));

/** A caller that runs `before` once, immediately before a request is sent. Default: the first write. */
function rival(
  before: () => Promise<unknown>,
  isIt = ({ method }: Pick<VaultRequest, 'method' | 'path'>): boolean => method === 'POST',
): VaultCaller {
  let done = false;
  return {
    addr: vault.addr,
    forgetLease: () => undefined,
    request: async (request) => {
      if (!done && isIt(request)) {
        done = true;
        await before();
      }
      return await rootSession().request(request);
    },
  };
}

before(async () => {
  vault = await DevVault.start();
  sessions = new VaultSessions({ clock: systemClock });
  await vault.write('sys/mounts/kv1', { type: 'kv', options: { version: '1' } });
  await vault.write('sys/mounts/team/store', { type: 'kv', options: { version: '2' } });
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
    assert.partialDeepStrictEqual((await root.resolve('secret/app')).mount, { path: 'secret/', kind: 'kv2' });
  });

  it('a KV 2 entry is reported as missing, deleted or destroyed', async () => {
    const root = entriesFor(vault.rootToken);
    const states = async (): Promise<unknown[]> => {
      const entry = await root.read('secret/life');
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

  it('if another client writes a KV 2 entry during an update, the update is computed again from the new content', async () => {
    const root = entriesFor(vault.rootToken);
    await vault.write('secret/data/race', { data: { theirs: '0' } });
    let times = 0;
    const merged = await root.update('secret/race', (current) => {
      times++;
      return values({ ours: 'x' }, found(current).values);
    });
    assert.deepEqual([merged.version, times], [2, 1]);
    const rivalled = rival(() => vault.write('secret/data/race', { data: { theirs: '1' } }));
    const decisions: unknown[] = [];
    const result = await new VaultEntries(rivalled, { clock: systemClock }).update('secret/race', (current) => {
      decisions.push(found(current).values.get('theirs'));
      return values({ ours: 'y' }, found(current).values);
    });
    assert.deepEqual([result.written, result.version, decisions], [true, 4, ['0', '1']]);
    assert.deepEqual((await vault.read('secret/data/race')).data.data, { theirs: '1', ours: 'y' });
  });
});

it('if another client creates an entry during an update that creates it, too, nothing is overwritten', async () => {
  for (const path of ['secret/data/created', 'kv1/created']) {
    const theirs = path.startsWith('kv1') ? { theirs: '1' } : { data: { theirs: '1' } };
    let isRead = false;
    // KV 1 has no check-and-set: Keyferry reads the entry again after the mount.
    const rivalled = rival(
      () => vault.write(path, theirs),
      ({ path: called }) => isRead && called.startsWith('sys/'),
    );
    const result = await new VaultEntries(rivalled, { clock: systemClock }).update(path, (current) => {
      isRead = true;
      return values({ ours: 'y' }, current.state === 'found' ? current.values : undefined);
    });
    assert.equal(result.written, true);
    const both = found(await entriesFor(vault.rootToken).read(path)).values;
    assert.deepEqual(Object.fromEntries(both.entries()), { ours: 'y', theirs: '1' });
  }
});

describe('KV 1', () => {
  it('Keyferry recognizes a KV 1 mount, even if keys and paths in the mount are named data', async () => {
    const root = entriesFor(vault.rootToken);
    await vault.write('kv1/app', { data: 'x', n: 1 });
    await vault.write('kv1/data/app', { k: 'inner' });
    const entry = found(await root.read('kv1/app'));
    assert.deepEqual([entry.values.get('data'), entry.version], ['x', undefined]);
    assert.equal(found(await root.read('kv1/data/app')).values.get('k'), 'inner');
    assert.partialDeepStrictEqual((await root.resolve('kv1/app')).mount, { path: 'kv1/', kind: 'kv1' });
    assert.equal((await root.read('kv1/none')).state, 'missing');
  });

  it('an update of a KV 1 entry with equal content writes nothing', async () => {
    const root = entriesFor(vault.rootToken);
    assert.equal((await root.update('kv1/w', () => values({ a: '1' }))).written, true);
    assert.equal((await root.update('kv1/w', () => values({ a: '1' }))).written, false);
    assert.equal((await root.update('kv1/w', () => values({ a: '2' }))).written, true);
    assert.deepEqual((await vault.read('kv1/w')).data, { a: '2' });
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

describe('a mount that another one replaces under its name', () => {
  let count = 0;

  /** Makes a KV mount, in place of the one that may be there. */
  async function mount(path: string, version: '1' | '2'): Promise<void> {
    await vault.call('DELETE', `sys/mounts/${path}`);
    await vault.write(`sys/mounts/${path}`, { type: 'kv', options: { version } });
    const serves = async (): Promise<boolean> => (await vault.server.raw('GET', `${path}/config`)).status < 400;
    if (version === '2') await waitFor(serves, { message: `the new mount ${path} serves` });
  }

  /** The paths of all entries of a KV 1 mount. */
  async function list(path: string, below = ''): Promise<string[]> {
    const keys: string[] = (await vault.call('LIST', `${path}/${below}`))?.data?.keys ?? [];
    const all: string[] = [];
    for (const key of keys) all.push(...(key.endsWith('/') ? await list(path, below + key) : [below + key]));
    return all;
  }

  /** Entries of a client that has read `<mount>/app` of a new mount with this KV version. */
  async function known(version: '1' | '2'): Promise<[string, VaultEntries]> {
    const path = `replaced${(count += 1)}`;
    await mount(path, version);
    const entries = entriesFor(vault.rootToken);
    await entries.update(`${path}/app`, () => values({ k: 'old' }));
    assert.equal(found(await entries.read(`${path}/app`)).values.get('k'), 'old');
    return [path, entries];
  }

  it('KV 2 by KV 1 in the moment of a write: the write fails, and the error says where the values are', async () => {
    const [path] = await known('2');
    const entries = new VaultEntries(
      rival(() => mount(path, '1')),
      { clock: systemClock },
    );
    const update = (): Promise<unknown> => entries.update(`${path}/app`, () => values({ k: 'new' }));
    await assert.rejects(
      update(),
      new RegExp(
        `POST ${path}/data/app: Vault accepted the write, but another kind of store .*: it has the fields "options" and "data"`,
      ),
    );
    assert.deepEqual((await vault.read(`${path}/data/app`)).data, { options: { cas: 1 }, data: { k: 'new' } });
    await update();
    assert.deepEqual((await vault.read(`${path}/app`)).data, { k: 'new' });
  });

  it('KV 1 by KV 2: an entry of KV 1 named data/app does not become the entry app', async () => {
    const [path, entries] = await known('1');
    const update = (client: VaultEntries): Promise<unknown> =>
      client.update(`${path}/data/app`, () => values({ k: 'new' }), undefined, { nestedInKv1: true });
    await mount(path, '2');
    await assert.rejects(update(entries), /not sent/);
    assert.equal((await vault.server.raw('GET', `${path}/data/app`)).status, 404);

    await mount(path, '1');
    const raced = new VaultEntries(
      rival(() => mount(path, '2')),
      { clock: systemClock },
    );
    await assert.rejects(
      update(raced),
      /accepted the write, but another kind of store .*: it has a version of an entry/,
    );
  });

  it('KV 1 by another KV 1 after the read: what was read in the old one is not written into the new one', async () => {
    const [path] = await known('1');
    let isRead = false;
    const before = () => mount(path, '1');
    const entries = new VaultEntries(
      rival(before, (request) => isRead && request.path.startsWith('sys/internal')),
      {
        clock: systemClock,
      },
    );
    const update = entries.update(`${path}/app`, (current) => {
      isRead = true;
      return values({ more: 'x' }, found(current).values);
    });
    await assert.rejects(update, /not sent/);
    assert.deepEqual(await list(path), []);
  });

  for (const [before, now] of [
    ['1', '2'],
    ['2', '1'],
  ] as const) {
    it(`after a read of KV ${before} that does not fit KV ${now}, the next read looks the mount up`, async () => {
      const [path, entries] = await known(before);
      await mount(path, now);
      await vault.write(
        now === '2' ? `${path}/data/app` : `${path}/app`,
        now === '2' ? { data: { k: 'n' } } : { k: 'n' },
      );
      const read = (): Promise<KvEntry> => entries.read(`${path}/app`);
      if (now === '2') await assert.rejects(read(), kind('invalidPath'));
      else assert.equal((await read()).state, 'missing');
      assert.equal(found(await read()).values.get('k'), 'n');
    });
  }

  it('after a read of KV 2 got an entry of KV 1, the next read looks the mount up', async () => {
    const [path, entries] = await known('2');
    await mount(path, '1');
    await vault.write(`${path}/data/app`, { k: 'beside' });
    await vault.write(`${path}/app`, { k: 'n' });
    await assert.rejects(entries.read(`${path}/app`), kind('badResponse'));
    assert.equal(found(await entries.read(`${path}/app`)).values.get('k'), 'n');
  });
});

describe('paths of entries', () => {
  it('a path that has no mount or an invalid form is an error, and not a missing entry', async () => {
    const root = entriesFor(vault.rootToken);
    await assert.rejects(root.read('nothing/here'), kind('invalidPath'));
    await assert.rejects(
      root.update('nothing/here', () => values({ a: 'b' })),
      kind('invalidPath'),
    );
    await assert.rejects(root.read('secret'), kind('invalidPath'));
    await assert.rejects(root.read('secret/../sys/mounts'), kind('invalidPath'));
    await assert.rejects(root.read(''), kind('invalidPath'));
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
    assert.partialDeepStrictEqual((await blind.resolve('secret/data/shape')).mount, { path: 'secret/', kind: 'kv2' });
    assert.equal(found(await blind.read('secret/data/shape')).values.get('k'), 'v');
    assert.equal(found(await blind.read('secret/shape')).values.get('k'), 'v');
    assert.equal(found(await blind.read('kv1/data/shape')).values.get('k'), 'one');
    await blind.update('kv1/data/shape', () => values({ k: 'two' }));
    assert.deepEqual((await vault.read('kv1/data/shape')).data, { k: 'two' });
  });
});
