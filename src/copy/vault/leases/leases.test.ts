/** Checks when a lease is renewed, restored and released, even if the wall clock is set to another time. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { fixRandom } from '../../../../test/support/fixed-random.ts';
import { ManualClock } from '../../../../test/support/manual-clock.ts';
import { SecretBytes } from '../../../runtime/secret-bytes.ts';
import { VaultError } from '../../../vault/errors.ts';
import { VaultEntries } from '../../../vault/kv/entries.ts';
import type { VaultSession } from '../../../vault/session/session.ts';
import { Content } from '../../model/content.ts';
import type { ResourceKey } from '../../model/keys.ts';
import { SECRET } from '../../model/kind.ts';
import type { VaultConnection } from '../access/access.ts';
import type { VaultLease } from './lease.ts';
import type { LeaseUser } from './lease.ts';
import { type LeaseRecord, VaultLeases, leaseVersion } from './leases.ts';
import { asKey } from '../../../../test/support/keys.ts';

const HOUR_MS = 3_600_000;
const USER: LeaseUser = { key: asKey('vault:x'), rule: asKey('mirrors:default/x') };
const OTHER: LeaseUser = { key: asKey('vault:y'), rule: asKey('mirrors:default/y') };
const { signal } = new AbortController();
const content = (text: string): Content =>
  Content.ofFields(SECRET, { data: { password: SecretBytes.fromUtf8(text).base64() } }, 'Opaque', '1');

/** Makes leases of one hour, and records the paths of requests to Vault and how many leases keep the session open. */
class Scene {
  readonly clock = new ManualClock();
  readonly requests: string[] = [];
  readonly forgotten: string[] = [];
  readonly abandoned: string[] = [];
  readonly notRevoked: string[] = [];
  refs = 0;
  recorded: LeaseRecord | undefined;
  /** The content that the copies have. */
  copied: Content | undefined;
  deadline = Infinity;
  refusal: VaultError | undefined;
  readonly session = {
    tokenDeadline: () => this.deadline,
    tokenEndWithoutRenewal: () => undefined,
    forgetLease: (id: string) => this.forgotten.push(id),
    abandonLease: (id: string) => this.abandoned.push(id),
    request: async ({ path }: { readonly path: string }) => {
      this.requests.push(path);
      if (this.refusal !== undefined) throw this.refusal;
      const data = { issue_time: '', expire_time: new Date(this.clock.now() + HOUR_MS).toISOString(), renewable: true };
      return await Promise.resolve({ leaseSeconds: 3600, renewable: true, data });
    },
  } as unknown as VaultSession;
  readonly connection: VaultConnection = {
    session: this.session,
    entries: undefined as never,
    acquire: () => {
      this.refs++;
      return { ...this.connection, release: () => void this.refs-- };
    },
  };
  readonly leases = new VaultLeases({
    clock: this.clock,
    leaseRecordOf: () => this.recorded,
    readCopy: async () => await Promise.resolve(this.copied),
    onEvent: () => undefined,
    onRevokeFailed: (_, leaseId) => this.notRevoked.push(leaseId),
  });

  constructor() {
    fixRandom(0);
  }

  granted(leaseId = 'l', user = USER): VaultLease {
    const grant = { leaseId, durationSeconds: 3600, renewable: true, issuedAt: this.clock.now(), tokenId: 't' };
    return this.leases.granted(user, this.connection, grant, content(leaseId));
  }

  record(leaseId: string, more: Partial<LeaseRecord> = {}): void {
    const copies: ResourceKey[] = [asKey('local:Secret/a/b')];
    this.recorded = { leaseId, durationSeconds: 3600, tokenExpiresAt: undefined, copies, ...more };
  }

  restore(user = USER, type = 'Opaque'): Promise<VaultLease | undefined> {
    return this.leases.restore(user, this.connection, type, signal);
  }
}

describe('a lease of an hour', () => {
  for (const jumpMs of [0, -10 * HOUR_MS, 10 * HOUR_MS]) {
    it(`a lease of an hour is renewed after 40 minutes, even if the wall clock is set by ${jumpMs / HOUR_MS} h`, async () => {
      const scene = new Scene();
      const lease = scene.granted();
      scene.clock.jump(jumpMs);
      await scene.clock.advance((HOUR_MS * 2) / 3 - 1);
      assert.equal(await scene.leases.maintain(lease, 10 * HOUR_MS, signal), 1);
      assert.deepEqual(scene.requests, []);
      await scene.clock.advance(1);
      await scene.leases.maintain(lease, 10 * HOUR_MS, signal);
      assert.deepEqual(scene.requests, ['sys/leases/renew']);
    });
  }

  it('the duration of a lease counts from the request, however long the response takes', async () => {
    const scene = new Scene();
    const issuedAt = scene.clock.now();
    await scene.clock.advance(50_000);
    const grant = { leaseId: 'l', durationSeconds: 60, renewable: true, issuedAt, tokenId: 't' };
    const lease = scene.leases.granted(USER, scene.connection, grant, content('l'));
    assert.equal(lease.expiresAt - scene.clock.monotonic(), 10_000);
  });

  it('the metrics show a live lease as overdue from the time of its renewal until it is renewed', async () => {
    const scene = new Scene();
    const lease = scene.granted();
    const ages = (): string[] => scene.leases.figures().map(({ age }) => age);
    await scene.clock.advance(HOUR_MS * 0.6);
    assert.deepEqual(ages(), ['fresh']);
    await scene.clock.advance(HOUR_MS * 0.1);
    assert.deepEqual(ages(), ['overdue']);
    await scene.leases.maintain(lease, 10 * HOUR_MS, signal);
    assert.deepEqual(ages(), ['fresh']);
    lease.renewable = false;
    await scene.clock.advance(HOUR_MS * 0.7);
    assert.deepEqual(ages(), ['old']);
    scene.leases.replaced(lease);
    assert.deepEqual(ages(), []);
  });

  it('the duration of a renewed lease counts from the request of the renewal, not from the response', async () => {
    const scene = new Scene();
    const lease = scene.granted();
    await scene.clock.advance(HOUR_MS * 0.7);
    const requests = scene.clock.monotonic();
    const request = scene.session.request.bind(scene.session);
    scene.session.request = async (call) => {
      await scene.clock.advance(9000);
      return await request(call);
    };
    await scene.leases.maintain(lease, 10 * HOUR_MS, signal);
    assert.equal(lease.expiresAt, requests + HOUR_MS);
  });

  it('when the session loses the token of a live lease, the lease is replaced within 10 s, however long the poll period is', async () => {
    const scene = new Scene();
    const lease = scene.granted();
    const waitMs = await scene.leases.maintain(lease, 10 * HOUR_MS, signal);
    assert.ok(typeof waitMs === 'number' && waitMs <= 10_000);
    scene.deadline = 0;
    assert.equal(await scene.leases.maintain(lease, 10 * HOUR_MS, signal), 'replace');
    assert.deepEqual(scene.requests, []);
  });
});

describe('a lease that its rule left', () => {
  for (const how of ['replaced', 'dropped'] as const) {
    it(`a lease that was ${how} keeps the session of its token open until it expires, and is not revoked`, async () => {
      const scene = new Scene();
      // The session has a newer token now. It would revoke the token of this lease as soon as no lease depends on it.
      const lease = scene.granted();
      scene.deadline = scene.clock.now() + HOUR_MS;
      scene.leases[how](lease);
      assert.equal(scene.leases.isReplaced(USER.rule, 'l'), how === 'replaced');
      await scene.clock.advance(HOUR_MS - 1);
      assert.deepEqual([scene.requests, scene.forgotten, scene.refs], [[], [], 1]);
      assert.equal(scene.leases.refOf(USER.rule, 'l'), lease.ref);
      await scene.clock.advance(1);
      assert.deepEqual([scene.requests, scene.forgotten, scene.refs], [[], ['l'], 0]);
      assert.equal(scene.leases.refOf(USER.rule, 'l'), undefined);
      assert.equal(scene.clock.pendingTimers, 0);
    });

    it(`only the last lease that was ${how} keeps its session, and the token of an earlier one is left to expire`, () => {
      const scene = new Scene();
      scene.leases[how](scene.granted('other', OTHER));
      for (let number = 1; number <= 50; number++) scene.leases[how](scene.granted(`l${number}`));
      assert.deepEqual([[...scene.leases.of(USER.rule)], scene.forgotten], [['l50'], []]);
      assert.deepEqual([scene.abandoned.length, scene.abandoned.at(-1)], [49, 'l49']);
      assert.deepEqual([scene.refs, scene.clock.pendingTimers], [2, 2]);
      assert.deepEqual([...scene.leases.of(OTHER.rule)], ['other']);
    });
  }

  it('when a lease that its rule left is revoked, its session is released at once, and no timer is left', () => {
    const scene = new Scene();
    scene.leases.dropped(scene.granted());
    scene.leases.ended(USER.rule, 'another');
    assert.equal(scene.refs, 1);
    scene.leases.ended(USER.rule, 'l');
    assert.deepEqual([scene.forgotten, scene.refs, scene.clock.pendingTimers], [['l'], 0, 0]);
  });

  it('when a rule is deleted, the lease that it left is released, and its token is left to expire', () => {
    const scene = new Scene();
    scene.leases.dropped(scene.granted());
    scene.leases.release(USER.rule);
    assert.deepEqual([scene.forgotten, scene.abandoned], [[], ['l']]);
    assert.deepEqual([scene.refs, scene.clock.pendingTimers], [0, 0]);
  });

  it('when a rule is deleted, its live lease is not released, because a poll still uses it', () => {
    const scene = new Scene();
    scene.granted();
    scene.leases.release(USER.rule);
    assert.deepEqual([[...scene.leases.of(USER.rule)], scene.refs], [['l'], 1]);
  });

  it('if a rule returns to a lease, the lease is restored as after a restart, and the poll that ends late does not drop it', async () => {
    const scene = new Scene();
    const lease = scene.granted();
    await scene.clock.advance(HOUR_MS / 4);
    scene.leases.dropped(lease);
    scene.record('l', { copies: [] });
    assert.equal(await scene.restore(), undefined, 'no copy names it');
    scene.record('l');
    scene.copied = content('in the copy');
    const again = await scene.restore({ ...USER, key: asKey('vault:z') }, 'kubernetes.io/basic-auth');
    assert.ok(again);
    assert.deepEqual([again.key, again.content.type], ['vault:z', 'kubernetes.io/basic-auth']);
    assert.equal(again.content.fingerprint.digest, scene.copied.fingerprint.digest);
    assert.deepEqual([scene.requests, scene.refs, scene.clock.pendingTimers], [['sys/leases/lookup'], 1, 0]);
    assert.deepEqual([scene.forgotten, scene.abandoned], [[], []]);
    scene.leases.dropped(lease);
    assert.deepEqual([[...scene.leases.of(USER.rule)], scene.clock.pendingTimers], [['l'], 0]);
    assert.ok(scene.leases.isUsedByOther('l', OTHER.rule));
  });

  it('a lease that another rule uses is not restored', async () => {
    const scene = new Scene();
    scene.granted();
    scene.copied = content('l');
    scene.record('l');
    assert.equal(await scene.restore(OTHER), undefined);
    assert.deepEqual(scene.requests, []);
  });
});

describe('a lease from before a restart', () => {
  it('a lease from before a restart is restored if it is valid and a copy has its content', async () => {
    // The original recorded no duration of a lease that it did not renew: then what is left counts as the duration.
    for (const durationSeconds of [3600, 0]) {
      const scene = new Scene();
      scene.record('l', { durationSeconds });
      scene.copied = content('before');
      const lease = await scene.restore(USER, 'x');
      assert.deepEqual([lease?.leaseId, lease?.content.version, lease?.content.type], ['l', leaseVersion('l'), 'x']);
      assert.deepEqual([scene.requests, lease?.expiresAt], [['sys/leases/lookup'], HOUR_MS]);
      assert.equal(lease?.durationSeconds, 3600);
    }
  });

  it('a lease from before a restart gets the recorded expiry of its token, but not if this time has passed', async () => {
    for (const leftMs of [HOUR_MS / 2, -1]) {
      const scene = new Scene();
      const tokenExpiresAt = scene.clock.now() + leftMs;
      scene.record('l', { tokenExpiresAt });
      scene.copied = content('before');
      const lease = await scene.restore();
      assert.equal(lease?.tokenExpiresAt, leftMs > 0 ? tokenExpiresAt : undefined);
    }
  });

  it('a lease from before a restart is looked up every 10 s if the expiry of its token is not known, and is replaced when it is gone', async () => {
    const scene = new Scene();
    scene.record('l');
    scene.copied = content('before');
    const lease = await scene.restore();
    assert.ok(lease !== undefined);
    assert.equal(await scene.leases.maintain(lease, 600_000, signal), 10_000);
    await scene.clock.advance(10_000);
    await scene.leases.maintain(lease, 600_000, signal);
    assert.deepEqual(scene.requests, ['sys/leases/lookup', 'sys/leases/lookup']);
    await scene.clock.advance(10_000);
    scene.refusal = new VaultError('lease not found', { kind: 'leaseGone', addr: 'https://v' });
    assert.equal(await scene.leases.maintain(lease, 600_000, signal), 'replace');
  });

  it('a lease from before a restart whose token expires before it is replaced before that time', async () => {
    const scene = new Scene();
    scene.record('l', { tokenExpiresAt: scene.clock.now() + HOUR_MS / 2 });
    scene.copied = content('before');
    const lease = await scene.restore();
    assert.ok(lease !== undefined);
    assert.equal(typeof (await scene.leases.maintain(lease, 600_000, signal)), 'number');
    await scene.clock.advance(HOUR_MS / 2 - 360_000);
    assert.equal(await scene.leases.maintain(lease, 600_000, signal), 'replace');
  });

  it('a lease from before a restart is not restored if no copy has its content, or if Vault does not have it', async () => {
    const scene = new Scene();
    scene.record('l');
    assert.equal(await scene.restore(), undefined);
    scene.copied = content('before');
    scene.refusal = new VaultError('lease not found', { kind: 'leaseGone', addr: 'https://v' });
    assert.equal(await scene.restore(), undefined);
    assert.equal(scene.refs, 0);
  });

  it('a lease from before a restart belongs to one rule, even if two rules restore it at the same time', async () => {
    const scene = new Scene();
    scene.record('l');
    scene.copied = content('before');
    const [one, two] = await Promise.all([scene.restore(), scene.restore(OTHER)]);
    assert.deepEqual([one?.rule, two], [USER.rule, undefined]);
    assert.ok(scene.leases.isUsedByOther('l', OTHER.rule));
    assert.ok(!scene.leases.isUsedByOther('l', USER.rule));
  });
});

it('discard() revokes credentials that cannot be used, and reports a failed revocation', async () => {
  const scene = new Scene();
  await scene.leases.discard(USER, scene.connection, 'l');
  assert.deepEqual([scene.requests, scene.notRevoked], [['sys/leases/revoke'], []]);
  assert.deepEqual(scene.forgotten, ['l'], 'so its session may revoke its token');
  scene.refusal = new VaultError('no', { kind: 'permissionDenied', addr: 'https://v' });
  await scene.leases.discard(USER, scene.connection, 'm');
  assert.deepEqual(scene.notRevoked, ['m']);
});

it('a lease from before a restart is renewed in time; it stays if Vault does not answer, and is replaced if Vault refuses', async () => {
  const rows = [
    [undefined, 'renewed'],
    ['connection', 'kept'],
    ['unavailable', 'kept'],
    ['leaseGone', 'replace'],
    ['permissionDenied', 'replace'],
  ] as const;
  for (const [kind, end] of rows) {
    const scene = new Scene();
    scene.record('l', { tokenExpiresAt: scene.clock.now() + 10 * HOUR_MS });
    scene.copied = content('before');
    const lease = await scene.restore();
    assert.ok(lease !== undefined);
    await scene.clock.advance(HOUR_MS * 0.7);
    if (kind !== undefined) scene.refusal = new VaultError(kind, { kind, addr: 'https://v' });
    const result = await scene.leases.maintain(lease, 10 * HOUR_MS, signal).then(
      (next) => (next === 'replace' ? next : 'renewed'),
      () => 'kept',
    );
    assert.deepEqual([result, scene.requests.at(-1)], [end, 'sys/leases/renew'], kind);
  }
});

it('the life of new credentials counts from the request, however long the response takes', async () => {
  const clock = new ManualClock();
  const caller = {
    addr: 'https://v',
    forgetLease: () => undefined,
    request: async ({ path }: { readonly path: string }) => {
      const answer = { status: 200, leaseId: '', leaseSeconds: 0, renewable: false, auth: undefined, tokenId: 't' };
      if (path.startsWith('sys/')) return { ...answer, data: { path: 'database/', type: 'database' } };
      await clock.advance(50_000);
      return { ...answer, data: { username: 'u' }, leaseId: 'l', leaseSeconds: 60, renewable: true };
    },
  };
  const begin = clock.now();
  const entry = await new VaultEntries(caller, { clock }).read('database/creds/app');
  assert.ok(entry.state === 'found');
  assert.equal(entry.lease?.issuedAt, begin);
});
