/** Checks when a source is polled, and which rule gets the dynamic credentials. Vault's responses are made up. */
import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';

import { fixRandom } from '../../../test/support/fixed-random.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { VaultError } from '../../vault/errors.ts';
import type { KvEntry } from '../../vault/kv/answers.ts';
import { VaultValues, type ValueEncoding } from '../../vault/kv/values.ts';
import type { VaultAccess, VaultConnection } from './access/access.ts';
import { VaultLocations, type VaultLocation, vaultSourceKey } from './locations.ts';
import { VaultLeases } from './leases/leases.ts';
import { VaultSources } from './poll/sources.ts';
import { asKey } from '../../../test/support/keys.ts';
import { Content } from '../model/content.ts';
import type { RuleKey, EntryKey } from '../model/keys.ts';
import { SECRET } from '../model/kind.ts';
import { parseServer } from '../../vault/client/server.ts';

const ONE: RuleKey = asKey('mirrors:default/one');
const TWO: RuleKey = asKey('mirrors:default/two');
const POLL_MS = 1000;

function locationOf(encoding: ValueEncoding = 'plain'): VaultLocation {
  const auth = { method: 'token', token: { namespace: 'default', name: 'token', key: 'token' } } as const;
  return { server: parseServer({ addr: 'http://v' }), auth, path: 'there/app', encoding, secretType: 'Opaque' };
}

describe('a source in Vault', () => {
  let clock: ManualClock;
  let kind: 'kv2' | 'other';
  /** The key of the only value in the entry. */
  let field: string;
  let value: string;
  let createdTime: string;
  /** The id of the lease that comes with a read, by the number of the read. */
  let leaseId: (read: number) => string;
  let reads: number;
  let revoked: string[];
  /** Whether a lease that is looked up no longer exists in Vault. */
  let gone: () => boolean;
  /** The id of the lease that the status of each rule names; a copy has its credentials. */
  let recorded: string | undefined;
  let leaseSeconds: number;
  let renewable: boolean;
  /** Whether the status of the rule names each new lease at once. */
  let isRecording: boolean;
  let onRead: () => void;
  let errors: unknown[];
  let failedRule: RuleKey | undefined;
  /** Opens a connection for a poll. */
  let open: (location: VaultLocation) => Promise<void>;
  let polls: number;
  /** How many times a connection was closed. */
  let closes: number;
  let onChange: (key: EntryKey) => void;
  let locations: VaultLocations;
  let sources: VaultSources;
  let leases: VaultLeases;

  const entry = (read: number): KvEntry => {
    const values = new VaultValues([[field, value]]);
    if (kind === 'kv2') return { state: 'found', values, version: 1, createdTime };
    const grant = { durationSeconds: leaseSeconds, renewable, issuedAt: clock.now(), tokenId: 't' };
    return { state: 'found', values, lease: { ...grant, leaseId: leaseId(read) } };
  };
  const session = {
    addr: 'http://v',
    tokenDeadline: () => Infinity,
    tokenEndWithoutRenewal: () => undefined,
    forgetLease: () => undefined,
    abandonLease: () => undefined,
    request: async ({ path, body }: { readonly path: string; readonly body?: Buffer }) => {
      if (path === 'sys/leases/revoke') revoked.push((JSON.parse(String(body)) as { lease_id: string }).lease_id);
      if (path === 'sys/leases/lookup') {
        if (gone()) throw new VaultError('invalid lease', { kind: 'leaseGone', addr: 'http://v' });
      }
      return await Promise.resolve({ leaseSeconds, renewable: true, data: {} });
    },
  };
  const connection = {
    session,
    acquire: () => ({ session, key: '', release: () => undefined }),
    entries: {
      resolve: async () => await Promise.resolve({ mount: { path: 'there/', kind }, known: true }),
      read: async () => {
        const read = ++reads;
        await Promise.resolve();
        onRead();
        return entry(read);
      },
    },
  } as unknown as VaultConnection;

  beforeEach(() => {
    clock = new ManualClock();
    fixRandom(0);
    [kind, field, reads, revoked] = ['kv2', 'a', 0, []];
    [leaseSeconds, recorded] = [3600, undefined];
    [gone, renewable, isRecording] = [() => false, true, true];
    value = 'x';
    createdTime = '2026-01-01T00:00:01.5Z';
    leaseId = (read) => `lease-${read}`;
    onRead = () => undefined;
    onChange = () => undefined;
    open = () => Promise.resolve();
    [polls, closes] = [0, 0];
    errors = [];
    locations = new VaultLocations(() => undefined);
    leases = new VaultLeases({
      clock,
      leaseRecordOf: () =>
        recorded === undefined
          ? undefined
          : {
              leaseId: recorded,
              durationSeconds: 3600,
              tokenExpiresAt: undefined,
              copies: [asKey('local:Secret/a/b')],
            },
      readCopy: async () => {
        const data = { [field]: Buffer.from(value).toString('base64') };
        return await Promise.resolve(Content.ofFields(SECRET, { data }, 'Opaque', '1'));
      },
      onEvent: (key, { type, leaseId: id }) => {
        if (isRecording && type === 'granted') queueMicrotask(() => sources.leaseRecorded(key, id));
      },
      onRevokeFailed: () => undefined,
    });
    sources = new VaultSources({
      locations,
      access: {
        open: async (_key: EntryKey, location: VaultLocation) => {
          polls++;
          await open(location);
          return connection;
        },
        follow: () => undefined,
        close: () => closes++,
      } as unknown as VaultAccess,
      leases,
      clock,
      onChange: (key) => onChange(key),
      onError: ({ error, rule }) => {
        errors.push(error);
        failedRule = rule;
      },
    });
  });

  function follow(rule: RuleKey, location = locationOf()): EntryKey {
    const key = vaultSourceKey(location, rule);
    locations.set(rule, [{ key, location, pollSeconds: POLL_MS / 1000 }]);
    sources.follow(key);
    return key;
  }

  /** Advances the clock by `ms`, and runs all timers and queues that are due before and after. */
  async function settle(ms = 0): Promise<void> {
    for (let turn = 0; turn < 20; turn++) await clock.advance(0);
    if (ms > 0) await clock.advance(ms);
    for (let turn = 0; turn < 20; turn++) await clock.advance(0);
  }

  const leaseOf = (key: EntryKey): string | undefined => {
    const view = sources.view(key);
    return view.state === 'present' ? view.version : undefined;
  };

  it('each poll reads a KV entry; the same values keep their version, and other values get another one', async () => {
    const key = follow(ONE);
    const versions: unknown[] = [];
    onChange = () => versions.push(leaseOf(key));
    await settle();
    const { digest } = sources.fingerprint(key) ?? {};
    for (const [time, text] of [
      ['2026-01-01T00:00:02.5Z', 'x'],
      ['2026-01-01T00:00:03.5Z', 'y'],
      // The times of OpenBao are whole seconds: a recreated entry may have the same version, now and after a restart.
      ['2026-01-01T00:00:04Z', 'x'],
      ['2026-01-01T00:00:04Z', 'z'],
      ['2026-01-01T00:00:04Z', 'z'],
    ] as const) {
      [createdTime, value] = [time, text];
      await settle(POLL_MS);
    }
    assert.deepEqual([versions.slice(0, 2), reads], [['1 2026-01-01T00:00:01.5Z', '1 2026-01-01T00:00:03.5Z'], 6]);
    assert.match(String(versions.slice(2)), /^(\w+)-1,\1-2$/u);
    assert.notEqual(sources.fingerprint(key)?.digest, digest);
  });

  it('values that have not changed take no place in the cache, unless a copy needs them', async () => {
    value = 'x'.repeat(2 * 1024 * 1024);
    const [one, two] = [follow(ONE), follow(TWO)];
    const isCached = async (key: EntryKey): Promise<boolean> => (await sources.load(key)) !== undefined;
    const changed: EntryKey[] = [];
    await settle();
    onChange = (key) => changed.push(key);
    sources.refresh(one);
    await settle();
    assert.deepEqual([await isCached(two), await isCached(one), changed], [true, false, []]);
    await settle();
    assert.deepEqual([await isCached(one), changed], [true, [one]]);
    sources.refresh(one);
    await settle();
    assert.deepEqual([reads, changed], [5, [one]]);
  });

  it('if the read of a source in Vault fails, the error is reported with the rule that uses the source', async () => {
    onRead = () => {
      throw new VaultError('denied', { kind: 'permissionDenied', addr: 'x' });
    };
    follow(ONE);
    await settle();
    assert.deepEqual([errors.length > 0, failedRule], [true, ONE]);
  });

  it('if a rule stops using a source in Vault during its read, no error is reported', async () => {
    onRead = () => {
      locations.set(ONE, []);
    };
    const key = follow(ONE);
    await settle();
    assert.equal(reads, 1);
    sources.unfollow(key);
    await settle(10 * POLL_MS);
    assert.deepEqual([errors, reads], [[], 1]);
  });

  it('if a source in Vault is unfollowed during its read, the session of the read is released', async () => {
    const key = follow(ONE);
    let before = 0;
    onRead = () => {
      sources.unfollow(key);
      before = closes;
    };
    await settle();
    assert.equal(closes - before, 1);
  });

  it('if the credential of a source in Vault changes during a poll that fails, the source is polled again after half a second', async () => {
    onRead = () => {
      onRead = () => undefined;
      sources.retry(key);
      throw new VaultError('denied', { kind: 'permissionDenied', addr: 'http://v' });
    };
    const key = follow(ONE);
    await settle(500);
    assert.deepEqual([reads, sources.view(key).state], [2, 'present']);
  });

  it('if two rules read dynamic credentials at the same path, each rule gets credentials of its own, with one request for each rule', async () => {
    kind = 'other';
    const keys = [follow(ONE), follow(TWO)];
    await settle();
    assert.deepEqual(new Set(keys.map(leaseOf)), new Set(['lease lease-1', 'lease lease-2']));
    assert.deepEqual([reads, revoked], [2, []]);
    assert.equal([...leases.of(ONE)].length, 1);
  });

  it('copies get dynamic credentials only when the status names their lease; until then they keep those of the lease before', async () => {
    [kind, isRecording] = ['other', false];
    const key = follow(ONE);
    const shown = async (): Promise<unknown> => [
      leaseOf(key),
      (await sources.load(key))?.version,
      sources.lease(key)?.id,
    ];
    await settle();
    assert.deepEqual(await shown(), [undefined, undefined, 'lease-1']);
    sources.leaseRecorded(key, 'another');
    assert.deepEqual(await shown(), [undefined, undefined, 'lease-1']);
    sources.leaseRecorded(key, 'lease-1');
    assert.deepEqual(await shown(), ['lease lease-1', 'lease lease-1', 'lease-1']);
    gone = () => reads === 1;
    await settle(POLL_MS);
    assert.deepEqual(await shown(), ['lease lease-1', undefined, 'lease-2']);
    await settle(POLL_MS);
    assert.deepEqual([leaseOf(key), reads], ['lease lease-1', 2]);
    sources.leaseRecorded(key, 'lease-2');
    assert.deepEqual(await shown(), ['lease lease-2', 'lease lease-2', 'lease-2']);
  });

  it('if the type of the copies changes, their source keeps its lease, although its new key is followed before the old one is unfollowed', async () => {
    kind = 'other';
    const old = follow(ONE);
    await settle();
    recorded = 'lease-1';
    const key = follow(ONE, { ...locationOf(), secretType: 'kubernetes.io/basic-auth' });
    sources.unfollow(old);
    await settle();
    assert.deepEqual([leaseOf(key), (await sources.load(key))?.type], ['lease lease-1', 'kubernetes.io/basic-auth']);
    assert.deepEqual([reads, revoked, [...leases.of(ONE)]], [1, [], ['lease-1']]);
  });

  it('while the status does not name a new lease, decisions on copies cause no polls', async () => {
    [kind, isRecording] = ['other', false];
    const key = follow(ONE);
    await settle();
    sources.leaseRecorded(key, 'lease-1');
    gone = () => reads === 1;
    await settle(POLL_MS);
    assert.equal(sources.lease(key)?.id, 'lease-2');
    onChange = (changed) => void sources.load(changed);
    polls = 0;
    assert.equal(await sources.load(key), undefined);
    await settle();
    assert.equal(polls, 0);
    await settle(POLL_MS);
    assert.deepEqual([polls, reads], [1, 2], 'the usual poll');
  });

  it('if the polls of all mounts of one namespace hang, other namespaces still get their share of the workers', async () => {
    const hanging = new Map<string, number>();
    open = async ({ auth }) => {
      const namespace = auth.method === 'token' ? auth.token.namespace : '';
      hanging.set(namespace, (hanging.get(namespace) ?? 0) + 1);
      await Promise.withResolvers<void>().promise;
    };
    const followAll = async (namespace: string, count: number): Promise<void> => {
      const auth = { method: 'token', token: { namespace, name: 'token', key: 'token' } } as const;
      for (let mount = 0; mount < count; mount++) {
        follow(asKey(`mirrors:${namespace}/${mount}`), { ...locationOf(), auth, path: `mount-${mount}/app` });
      }
      await settle();
    };
    await followAll('noisy', 30);
    assert.deepEqual([...hanging], [['noisy', 24]]);
    await followAll('quiet', 10);
    await followAll('other', 1);
    assert.deepEqual([...hanging], Object.entries({ noisy: 24, quiet: 8, other: 1 }));
  });

  it('dynamic credentials that cannot be used are revoked, and new ones are requested after ten minutes', async () => {
    [kind, field] = ['other', 'no/key'];
    const key = follow(ONE);
    await settle();
    assert.deepEqual([reads, revoked, sources.view(key).state], [1, ['lease-1'], 'failed']);
    await settle(599_000);
    assert.equal(reads, 1);
    await settle(1000);
    assert.deepEqual([reads, revoked], [2, ['lease-1', 'lease-2']]);
    field = 'a';
    await settle(600_000);
    assert.equal(leaseOf(key), 'lease lease-3');
    assert.equal(revoked.length, 2);
  });

  it('dynamic credentials are revoked if their source is unfollowed during the read', async () => {
    kind = 'other';
    const key = follow(ONE);
    onRead = () => {
      locations.set(ONE, []);
      sources.unfollow(key);
    };
    await settle();
    assert.deepEqual([reads, revoked], [1, ['lease-1']]);
    assert.equal([...leases.of(ONE)].length, 0);
  });

  for (const [what, expected, enlarge] of [
    ['credentials', /take 6\d+ bytes/, () => void (value = 'x'.repeat(48 * 1024))],
    ['a lease id', /1030 characters/, () => void (leaseId = (read) => `lease-${read}`.padEnd(1030, 'y'))],
  ] as const) {
    it(`if Vault answers with ${what} above the maximum size, the source fails and the lease is revoked`, async () => {
      kind = 'other';
      enlarge();
      const key = follow(ONE);
      await settle();
      const view = sources.view(key);
      assert.ok(view.state === 'failed' && view.reason === 'InvalidValues', view.state);
      assert.match(view.message, expected);
      assert.deepEqual(revoked, [leaseId(1)]);
      assert.equal([...leases.of(ONE)].length, 0);
    });
  }

  /** Advances the clock by `seconds`, in steps of 1 s. @returns how many credentials were requested meanwhile */
  async function requestsIn(seconds: number): Promise<number> {
    const before = reads;
    for (let second = 0; second < seconds; second++) {
      await clock.advance(1000);
      for (let turn = 0; turn < 4; turn++) await clock.advance(0);
    }
    return reads - before;
  }

  it('if one lease after the other ends early, credentials are requested one time in each poll period', async () => {
    kind = 'other';
    follow(ONE);
    await settle();
    gone = () => true;
    const requests = await requestsIn(30);
    assert.ok(requests >= 29 && requests <= 30, `${requests} requests in 30 s`);
  });

  it('if short leases end on time, the next credentials are requested without a delay', async () => {
    [kind, leaseSeconds, renewable] = ['other', 3, false];
    let issued = clock.now();
    onRead = () => (issued = clock.now());
    gone = () => clock.now() - issued >= 3000;
    follow(ONE);
    await settle();
    const requests = await requestsIn(60);
    assert.ok(requests >= 28, `${requests} requests`);
    assert.deepEqual(errors, []);
  });
});
