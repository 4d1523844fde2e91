/**
 * Entries in Vault as sources: looked at every poll period, read when they moved, whatever the number of rules and copies.
 *
 * State of a followed entry (its view):
 *
 *   unknown ──▶ present ⇄ missing | failed
 *
 * - An entry that is gone, deleted or destroyed is *missing*; one whose values no target may hold is *failed*. Neither is ever taken
 *   for an empty one.
 * - Where Vault cannot be asked, a present entry stays present, with *trouble* to tell about; else it is failed, or missing while there
 *   is no credential.
 * - Dynamic credentials are present as long as their lease is held (vault-leases.ts).
 *
 * Only the polls here call Vault, in lanes by server, credential and mount: one that hangs holds up no other. `load` never waits for Vault: it gives what is cached, or asks for
 * a poll and says that there is nothing yet, so that no writer of copies waits for a slow Vault.
 */
import { randomUUID } from 'node:crypto';

import { ByteCache } from '../runtime/byte-cache.ts';
import type { Clock } from '../runtime/clock.ts';
import type { KeyedQueue } from '../runtime/keyed-queue.ts';
import type { RunResult } from '../runtime/keyed-queue-options.ts';
import { QueueLanes } from '../runtime/queue-lanes.ts';
import { mountOfPath } from '../vault/parties.ts';
import { normalizePath } from '../vault/path.ts';
import type { AbsentEntry, FoundEntry, KvEntry } from '../vault/kv-answers.ts';
import { invalidSecretKeys, toSecretData, ValueConversionError } from '../vault/values.ts';
import type { SourceView } from './claim.ts';
import { Content } from './content.ts';
import { gistOf } from './kube-store.ts';
import type { HolderKey } from './keys.ts';
import { SECRET } from './kind.ts';
import type { Gist } from './plan.ts';
import type { SourceProvider } from './sources.ts';
import {
  saysNothingNew,
  troubleOf,
  type VaultAccess,
  type VaultDoor,
  type VaultTrouble,
  LONGEST_WAIT_MS,
  vaultLongestWaitMs,
  vaultRetryAfterMs,
} from './vault-access.ts';
import { VaultAuthMissingError } from './vault-auth-missing.ts';
import { NotKnownYetError, type VaultCredentials } from './vault-credentials.ts';
import { laneOf, type VaultHolders, type VaultLocation } from './vault-holder.ts';
import { type Lease, type VaultLeases, leaseVersion } from './vault-leases.ts';

/** Annotations of the view of dynamic credentials. */
export const LEASE_ID = 'lease-id';
/** Seconds, decimal. */
export const LEASE_SECONDS = 'lease-seconds';
/** When the token that the lease hangs on ends if we do not renew it, ms since 1970, decimal; not there where that is of no importance. */
export const LEASE_TOKEN_END = 'lease-token-end';

export interface VaultSourcesOptions {
  readonly holders: VaultHolders;
  readonly access: VaultAccess;
  readonly credentials: VaultCredentials;
  readonly leases: VaultLeases;
  readonly clock: Clock;
  /** 0 ≤ r < 1. */
  readonly random: () => number;
  /** The entry, or what is known of it, changed. */
  readonly onChange: (key: HolderKey) => void;
  /** A poll failed and will be repeated. */
  readonly onError: (key: HolderKey, error: unknown, retryInMs: number | undefined) => void;
}

export interface QueueFigures {
  readonly name: string;
  readonly depth: number;
  readonly oldestWaitingMs: number;
  readonly retries: number;
}

interface Followed {
  readonly key: HolderKey;
  readonly location: VaultLocation;
  view: SourceView;
  trouble: VaultTrouble | undefined;
  gist: { readonly version: string; readonly gist: Gist } | undefined;
  /** Somebody needs content that is not cached. */
  hungry: boolean;
  lease: Lease | undefined;
  /** Whether it was looked for a lease from before a restart. */
  recalled: boolean;
  /** The credential changed while a poll was under way. */
  anew: boolean;
}

const CONTENT_CACHE_BYTES = 4 * 1024 * 1024;
/** Entries asked for at once in each lane. */
const POLLS_AT_ONCE = 8;
/** Where a lease must be kept it is tried again at least so often, ms. */
const LEASE_RETRY = { shortest: 500, longest: LONGEST_WAIT_MS };
const UNKNOWN: SourceView = { state: 'unknown' };
const NO_LABELS = Object.freeze({});

export class VaultSources implements SourceProvider {
  readonly #options: VaultSourcesOptions;
  readonly #followed = new Map<HolderKey, Followed>();
  readonly #contents = new ByteCache<Content>({ maxBytes: CONTENT_CACHE_BYTES });
  readonly #polls: QueueLanes;
  /** Entries without versions of their own get some that no other process gives. */
  readonly #process = randomUUID().slice(0, 8);
  #count = 0;

  constructor(options: VaultSourcesOptions) {
    this.#options = options;
    this.#polls = new QueueLanes({
      name: 'polls',
      clock: options.clock,
      random: options.random,
      concurrency: POLLS_AT_ONCE,
      retryBaseMs: 500,
      retryAfterMs: vaultRetryAfterMs,
      retryMaxMsOf: vaultLongestWaitMs,
      onError: (key, error, retryInMs) => {
        options.onError(key, error, retryInMs);
      },
    });
    this.#polls.start((key, signal) => this.#poll(key, signal));
  }

  get cachedBytes(): number {
    return this.#contents.bytes;
  }

  /** Figures of the polls by server: lanes are as many as credentials. */
  get queues(): readonly QueueFigures[] {
    const servers = new Map<string, QueueFigures>();
    for (const { name, queue } of this.#polls.all) {
      const server = name.split(' ', 2).join(' ');
      const { depth: waiting, oldestWaitingMs: oldest, retries: repeated } = queue.metrics();
      const { depth = 0, oldestWaitingMs = 0, retries = 0 } = servers.get(server) ?? {};
      const figures = {
        depth: depth + waiting,
        oldestWaitingMs: Math.max(oldestWaitingMs, oldest),
        retries: retries + repeated,
      };
      servers.set(server, { name: server, ...figures });
    }
    return [...servers.values()];
  }

  want(key: HolderKey): void {
    const location = this.#options.holders.get(key);
    if (location === undefined || this.#followed.has(key)) return;
    this.#options.credentials.follow(key, location.auth);
    const nothing = { trouble: undefined, gist: undefined, lease: undefined };
    const not = { hungry: false, recalled: false, anew: false };
    this.#followed.set(key, { key, location, view: UNKNOWN, ...nothing, ...not });
    this.refresh(key);
  }

  forget(key: HolderKey): void {
    const followed = this.#followed.get(key);
    if (followed === undefined) return;
    this.#followed.delete(key);
    this.#queue(followed).forget(key);
    this.#options.credentials.unfollow(key, followed.location.auth);
    this.#options.access.close(key);
    if (followed.lease !== undefined) this.#options.leases.dropped(followed.lease);
  }

  view(key: HolderKey): SourceView {
    return this.#followed.get(key)?.view ?? UNKNOWN;
  }

  /** What keeps a present entry from being looked at. */
  trouble(key: HolderKey): VaultTrouble | undefined {
    return this.#followed.get(key)?.trouble;
  }

  gist(key: HolderKey): Gist | undefined {
    const followed = this.#followed.get(key);
    if (followed?.view.state !== 'present' || followed.gist?.version !== followed.view.version) return undefined;
    return followed.gist.gist;
  }

  load(key: HolderKey): Promise<Content | undefined> {
    const followed = this.#followed.get(key);
    if (followed?.view.state !== 'present') return Promise.resolve(undefined);
    const content = followed.lease?.content ?? this.#contents.get(`${key}@${followed.view.version}`);
    if (content === undefined) {
      followed.hungry = true;
      this.#queue(followed).add(key);
    }
    return Promise.resolve(content);
  }

  /** Looks at an entry now. */
  refresh(key: HolderKey): void {
    const followed = this.#followed.get(key);
    if (followed !== undefined) this.#queue(followed).add(key);
  }

  /** The credential by which an entry is read may be another: what failed before may work now. */
  retry(key: HolderKey): void {
    const followed = this.#followed.get(key);
    if (followed === undefined) return;
    followed.anew = true;
    this.#queue(followed).forget(key);
    this.refresh(key);
  }

  /** Lets polls under way end within `drainMs`: new credentials that nobody hears of would be lost. */
  async stop(drainMs: number): Promise<void> {
    await this.#polls.stop({ drainMs, graceMs: 100 });
    this.#contents.clear();
  }

  /** By server, credential and mount, so that one that hangs holds up no other. */
  #queue({ key, location: { auth, path } }: Followed): KeyedQueue {
    const { namespace, name } = auth.method === 'kubernetes' ? auth.serviceAccount : auth.secret;
    return this.#polls.of(`${laneOf(key)} ${namespace}/${name} ${mountOfPath(normalizePath(path))}`);
  }

  async #poll(key: HolderKey, signal: AbortSignal): Promise<RunResult | undefined> {
    const followed = this.#followed.get(key);
    if (followed === undefined) return undefined;
    followed.anew = false;
    const { access, holders, random } = this.#options;
    const before = stateOf(followed);
    const { hungry } = followed;
    try {
      const door = await access.open(key, followed.location, signal);
      const waitMs = await this.#look(followed, door, signal);
      followed.trouble = undefined;
      if (this.#followed.get(key) !== followed) return this.#abandoned(followed);
      return { requeueAfterMs: waitMs ?? holders.pollMs(key) * (0.9 + 0.1 * random()) };
    } catch (error) {
      if (this.#followed.get(key) !== followed) this.#abandoned(followed);
      else if (!signal.aborted) return this.#failed(followed, error);
      throw error;
    } finally {
      const news = hungry || stateOf(followed) !== before;
      if (news && this.#followed.get(key) === followed) this.#options.onChange(key);
    }
  }

  /** It was forgotten while it was looked at, and what was found or opened since is nobody's. */
  #abandoned(followed: Followed): undefined {
    this.#options.access.close(followed.key);
    if (followed.lease !== undefined) this.#options.leases.dropped(followed.lease);
    return undefined;
  }

  #failed(followed: Followed, error: unknown): RunResult | undefined {
    // Its watch wakes us.
    if (error instanceof NotKnownYetError) return undefined;
    const told = followed.trouble !== undefined || followed.view.state === 'failed';
    const trouble = troubleOf(error, followed.location, 'reading from');
    if (told && saysNothingNew(error)) {
      // Nothing to add.
    } else if (followed.view.state === 'present') followed.trouble = trouble;
    else {
      const { pending, reason, message } = trouble;
      followed.view = { state: pending ? 'missing' : 'failed', reason, message };
    }
    if (followed.anew) return { requeueAfterMs: 0 };
    if (error instanceof VaultAuthMissingError) return { requeueAfterMs: this.#options.holders.pollMs(followed.key) };
    if (followed.lease === undefined) throw error;
    const left = (followed.lease.expiresAt - this.#options.clock.monotonic()) / 4;
    const soon = Math.min(Math.max(left, LEASE_RETRY.shortest), LEASE_RETRY.longest);
    const requeueAfterMs = Math.max(soon, vaultRetryAfterMs(error) ?? 0);
    this.#options.onError(followed.key, error, requeueAfterMs);
    return { requeueAfterMs };
  }

  /** @returns ms until it is to be looked at again, where that is not the poll period */
  async #look(followed: Followed, door: VaultDoor, signal: AbortSignal): Promise<number | undefined> {
    const { leases, holders } = this.#options;
    const { key, location } = followed;
    if (!followed.recalled) {
      const lease = await leases.recall(key, door, signal);
      followed.recalled = true;
      if (lease !== undefined) this.#hold(followed, lease);
    }
    if (followed.lease !== undefined) {
      const waitMs = await leases.tend(followed.lease, holders.pollMs(key), signal);
      if (waitMs !== 'replace') return this.#leased(followed, waitMs);
    }
    const entry = await this.#readIfMoved(followed, door, location.path, signal);
    followed.hungry = false;
    if (entry === undefined) return undefined;
    if (entry.state !== 'found') {
      this.#drop(followed);
      followed.view = missing(entry, location, door.session.addr);
      return undefined;
    }
    return this.#found(followed, door, entry);
  }

  /** `undefined`: it is as it was. */
  async #readIfMoved(
    followed: Followed,
    { entries }: VaultDoor,
    path: string,
    signal: AbortSignal,
  ): Promise<KvEntry | undefined> {
    if (followed.view.state !== 'present' || followed.hungry || followed.lease !== undefined) {
      return await entries.read(path, signal);
    }
    const { head, entry } = await entries.readVersion(path, signal);
    if (entry !== undefined || head.state !== 'found') return entry ?? (head as AbsentEntry);
    return versionOf(head) === followed.view.version ? undefined : await entries.read(path, signal);
  }

  #found(followed: Followed, door: VaultDoor, entry: FoundEntry): number | undefined {
    const { leases } = this.#options;
    const version = entry.lease === undefined ? versionOf(entry) : leaseVersion(entry.lease.leaseId);
    const made = contentOf(entry, followed.location, version ?? '');
    if (!(made instanceof Content)) {
      followed.view = made;
      return undefined;
    }
    if (entry.lease !== undefined) {
      const old = followed.lease;
      this.#hold(followed, leases.granted(followed.key, door, entry.lease, made));
      if (old !== undefined) leases.replaced(old);
      return Math.min(this.#options.holders.pollMs(followed.key), entry.lease.durationSeconds * 500);
    }
    this.#drop(followed);
    const content = version === undefined ? this.#numbered(followed, made) : made;
    followed.gist = { version: content.version, gist: gistOf(content) };
    followed.view = present(content.version);
    this.#contents.set(`${followed.key}@${content.version}`, content, content.weight);
    return undefined;
  }

  /** Without a version from Vault the content itself says whether it is another. */
  #numbered({ gist }: Followed, content: Content): Content {
    const same = gist?.gist.digest === content.digest;
    return content.withVersion(same ? gist.version : `${this.#process}-${++this.#count}`);
  }

  #hold(followed: Followed, lease: Lease): void {
    followed.lease = lease;
    followed.gist = { version: leaseVersion(lease.leaseId), gist: gistOf(lease.content) };
    this.#leased(followed, 0);
  }

  #leased(followed: Followed, waitMs: number): number {
    const { lease } = followed;
    if (lease !== undefined) {
      const { leaseId, durationSeconds, tokenExpiresAt } = lease;
      const annotations = {
        [LEASE_ID]: leaseId,
        [LEASE_SECONDS]: String(durationSeconds),
        ...(tokenExpiresAt === undefined ? {} : { [LEASE_TOKEN_END]: String(tokenExpiresAt) }),
      };
      followed.view = { ...present(leaseVersion(lease.leaseId)), annotations };
    }
    return waitMs;
  }

  #drop(followed: Followed): void {
    if (followed.lease !== undefined) this.#options.leases.replaced(followed.lease);
    followed.lease = undefined;
  }
}

function present(version: string): Extract<SourceView, { state: 'present' }> {
  return { state: 'present', version, labels: NO_LABELS, annotations: NO_LABELS };
}

/** `undefined`: Vault counts no versions there. The time tells a deleted and re-created entry from the old one. */
function versionOf({ version, createdTime = '' }: Pick<FoundEntry, 'version' | 'createdTime'>): string | undefined {
  return version === undefined ? undefined : `${version} ${createdTime}`;
}

/** The entry's content, or why no target may have it. */
function contentOf(
  entry: FoundEntry,
  { encoding, secretType, path }: VaultLocation,
  version: string,
): Content | SourceView {
  // With base64 it may be the original that wrote it, which puts the pairs of an entry of KV 1 below one key.
  const original = encoding === 'base64' && entry.version === undefined && entry.lease === undefined;
  const values = original ? entry.values.unnested() : entry.values;
  const bad = secretType === undefined ? [] : invalidSecretKeys(values.keys());
  if (bad.length > 0) {
    const keys = bad.slice(0, 5).map((key) => JSON.stringify(key.slice(0, 100)));
    const rest = bad.length > 5 ? ` and ${bad.length - 5} more` : '';
    const message = `the vault entry ${path} has keys that no Secret may have: ${keys.join(', ')}${rest}`;
    return { state: 'failed', reason: 'InvalidKeys', message };
  }
  try {
    const data = [...toSecretData(values, encoding)].map(([key, value]) => [key, value.base64()] as const);
    return Content.ofFields(SECRET, { data: Object.fromEntries(data) }, secretType ?? '', version);
  } catch (error) {
    if (!(error instanceof ValueConversionError)) throw error;
    return { state: 'failed', reason: 'InvalidValues', message: `the vault entry ${path}: ${error.message}` };
  }
}

function missing(entry: AbsentEntry, { path }: VaultLocation, addr: string): SourceView {
  const where = `vault ${addr}: ${path}`;
  const left = 'copies keep what they have';
  const text = {
    missing: `${where} not found, waiting to appear`,
    deleted: `${where} is deleted (version ${entry.version}); ${left}`,
    destroyed: `${where} is destroyed (version ${entry.version}); ${left}`,
  }[entry.state];
  return { state: 'missing', reason: 'VaultNotFound', message: text };
}

/** What others see of it, to be compared. */
function stateOf({ view, trouble }: Followed): string {
  return JSON.stringify([view, trouble]);
}
