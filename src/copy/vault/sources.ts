/**
 * Entries in Vault as sources: looked at every poll period, read when they moved, whatever the number of rules and copies.
 *
 * What is polled is a *unit*. A KV entry is one unit for all rules that read it in the same way (`vaultPollKey`). Of dynamic credentials
 * each rule has its own: a unit begins as a shared one, and is split before the first read when its mount turns out to be no KV store. Where
 * a policy forbids to ask for the mount, a lease from before a restart tells; or else the answer does, whose lease goes to one of the rules.
 *
 * State of a unit (its view):
 *
 *   unknown ──▶ present ⇄ missing | failed
 *
 * - An entry that is gone, deleted or destroyed is *missing*; one whose values no target may hold is *failed*. Neither is ever taken
 *   for an empty one.
 * - Where Vault cannot be asked, a present entry stays present, with *trouble* to tell about; else it is failed, or missing while there
 *   is no credential.
 * - Dynamic credentials are present as long as their lease is held (copy/vault/leases.ts). Those that nobody can use are ended at once, and the
 *   next are asked for at growing distance.
 *
 * Only the polls here call Vault, in lanes by server, credential and mount: one that hangs holds up no other. `load` never waits for Vault: it gives what is cached, or asks for
 * a poll and says that there is nothing yet, so that no writer of copies waits for a slow Vault.
 */
import { randomUUID } from 'node:crypto';

import { ByteCache } from '../../runtime/byte-cache.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import type { KeyedQueue } from '../../runtime/queue/keyed-queue.ts';
import { QueueLanes } from '../../runtime/queue/queue-lanes.ts';
import { mountOfPath } from '../../vault/parties.ts';
import { normalizePath } from '../../vault/path.ts';
import type { AbsentEntry, FoundEntry, KvEntry, LeaseGrant } from '../../vault/kv-answers.ts';
import { invalidSecretKeys, toSecretData, ValueConversionError } from '../../vault/values.ts';
import type { SourceView } from '../model/claim.ts';
import { Content } from '../model/content.ts';
import { fingerprintOf } from '../model/fingerprint.ts';
import type { ResourceKey, RuleKey } from '../model/keys.ts';
import { SECRET } from '../model/kind.ts';
import type { Fingerprint } from '../model/fingerprint.ts';
import type { QueueFigures, SourceProvider } from '../backend.ts';
import {
  saysNothingNew,
  troubleOf,
  type VaultAccess,
  type VaultConnection,
  type VaultTrouble,
  LONGEST_WAIT_MS,
  vaultLongestWaitMs,
  vaultRetryAfterMs,
} from './access.ts';
import { VaultAuthMissingError } from './auth-missing.ts';
import { NotKnownYetError, type VaultCredentials } from './credentials.ts';
import { laneOf, vaultLeaseOrigin, vaultPollKey, type VaultLocations, type VaultLocation } from './locations.ts';
import { type Lease, type VaultLeases, leaseVersion } from './leases.ts';

/** Longest id of a lease, in characters: Vault's own are a path and some 25 more. */
const MAX_LEASE_ID = 1024;
/** Most bytes of dynamic credentials. A certificate with its key and chain takes a tenth of it. */
const MAX_LEASED = 64 * 1024;

export interface VaultSourcesOptions {
  readonly locations: VaultLocations;
  readonly access: VaultAccess;
  readonly credentials: VaultCredentials;
  readonly leases: VaultLeases;
  readonly clock: Clock;
  /** 0 ≤ r < 1. */
  readonly random: () => number;
  /** The entry, or what is known of it, changed. */
  readonly onChange: (key: ResourceKey) => void;
  /** A poll failed and will be repeated. */
  readonly onError: (key: ResourceKey, error: unknown, retryInMs: number | undefined) => void;
}

interface Unit {
  /** Of its polls. */
  readonly key: ResourceKey;
  readonly location: VaultLocation;
  /** The one rule whose dynamic credentials it is; `undefined`: shared. */
  readonly rule: RuleKey | undefined;
  /** The sources that show it. */
  readonly members: Set<ResourceKey>;
  view: SourceView;
  trouble: VaultTrouble | undefined;
  fingerprint: { readonly version: string; readonly fingerprint: Fingerprint } | undefined;
  /** Somebody needs content that is not cached. */
  hungry: boolean;
  lease: Lease | undefined;
  /** Whether it was looked for a lease from before a restart. */
  recalled: boolean;
  /** The credential changed while a poll was under way. */
  anew: boolean;
  /** How many times in a row credentials were made that nobody can use. */
  wasted: number;
}

/** A unit of dynamic credentials. */
type OwnUnit = Unit & { readonly rule: RuleKey };

const CONTENT_CACHE_BYTES = 4 * 1024 * 1024;
/** Entries asked for at once in each lane. */
const POLLS_AT_ONCE = 8;
/** Where a lease must be kept it is tried again at least so often, ms. */
const LEASE_RETRY = { shortest: 500, longest: LONGEST_WAIT_MS };
/** Where credentials are made that nobody can use: how long the next are waited for, ms. It doubles. */
const WASTE_WAIT = { first: 60_000, longest: 3_600_000 };
/** How long a source waits for the rules that call it by another path, ms. */
const RENAMED_MS = 50;
/** Of a source whose rule has given it up in a run that is not over yet, ms. */
const UNUSED_POLL_MS = 60_000;
const UNKNOWN: SourceView = { state: 'unknown' };
const NO_LABELS = Object.freeze({});

export class VaultSources implements SourceProvider {
  readonly #options: VaultSourcesOptions;
  readonly #units = new Map<ResourceKey, Unit>();
  readonly #byMember = new Map<ResourceKey, Unit>();
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

  want(key: ResourceKey): void {
    const location = this.#options.locations.get(key);
    if (location === undefined || this.#byMember.has(key)) return;
    const shared = vaultPollKey(location);
    const unit = this.#units.get(shared) ?? this.#open({ key: shared, location, rule: undefined, members: new Set() });
    const isNew = unit.members.size === 0;
    const sooner = this.#options.locations.pollMs(key) < this.#pollMs(unit);
    this.#join(unit, key);
    if (isNew || sooner) this.#refresh(unit);
  }

  forget(key: ResourceKey): void {
    const unit = this.#byMember.get(key);
    if (unit === undefined) return;
    this.#byMember.delete(key);
    unit.members.delete(key);
    if (unit.members.size === 0) this.#close(unit);
  }

  view(key: ResourceKey): SourceView {
    return this.#byMember.get(key)?.view ?? UNKNOWN;
  }

  /** What keeps a present entry from being looked at. */
  trouble(key: ResourceKey): VaultTrouble | undefined {
    return this.#byMember.get(key)?.trouble;
  }

  fingerprint(key: ResourceKey): Fingerprint | undefined {
    const unit = this.#byMember.get(key);
    if (unit?.view.state !== 'present' || unit.fingerprint?.version !== unit.view.version) return undefined;
    return unit.fingerprint.fingerprint;
  }

  load(key: ResourceKey): Promise<Content | undefined> {
    const unit = this.#byMember.get(key);
    if (unit?.view.state !== 'present') return Promise.resolve(undefined);
    const content = unit.lease?.content ?? this.#contents.get(`${unit.key}@${unit.view.version}`);
    if (content === undefined) {
      unit.hungry = true;
      this.#refresh(unit);
    }
    return Promise.resolve(content);
  }

  /** Looks at a source now. */
  refresh(key: ResourceKey): void {
    const unit = this.#byMember.get(key);
    if (unit !== undefined) this.#refresh(unit);
  }

  /** The credential by which a unit is read (what `VaultCredentials` calls a user) may be another: what failed before may work now. */
  retry(user: ResourceKey): void {
    const unit = this.#units.get(user);
    if (unit === undefined) return;
    unit.anew = true;
    this.#lane(unit).forget(user);
    this.#refresh(unit);
  }

  /** Lets polls under way end within `drainMs`: new credentials that nobody hears of would be lost. */
  async stop(drainMs: number): Promise<void> {
    await this.#polls.stop({ drainMs, graceMs: 100 });
    this.#contents.clear();
  }

  #open<U extends Pick<Unit, 'key' | 'location' | 'rule' | 'members'>>(what: U): U & Unit {
    const nothing = { trouble: undefined, fingerprint: undefined, lease: undefined };
    const not = { hungry: false, recalled: false, anew: false, wasted: 0 };
    const unit = { ...what, view: UNKNOWN, ...nothing, ...not };
    this.#options.credentials.follow(unit.key, unit.location.auth);
    this.#units.set(unit.key, unit);
    return unit;
  }

  #join(unit: Unit, member: ResourceKey): void {
    unit.members.add(member);
    this.#byMember.set(member, unit);
  }

  #close(unit: Unit): void {
    this.#units.delete(unit.key);
    this.#lane(unit).forget(unit.key);
    this.#options.credentials.unfollow(unit.key, unit.location.auth);
    this.#options.access.close(unit.key);
    if (unit.lease !== undefined) this.#options.leases.dropped(unit.lease);
  }

  #refresh(unit: Unit): void {
    this.#lane(unit).add(unit.key);
  }

  /** By server, credential and mount, so that one that hangs holds up no other. */
  #lane({ key, location: { auth, path } }: Unit): KeyedQueue {
    const { namespace, name } = auth.method === 'kubernetes' ? auth.serviceAccount : auth.secret;
    return this.#polls.of(`${laneOf(key)} ${namespace}/${name} ${mountOfPath(normalizePath(path))}`);
  }

  /** The shortest period of those who use it, ms. Without any it is about to be forgotten, and need not be looked at before that. */
  #pollMs({ members }: Unit): number {
    const ms = Math.min(...Array.from(members, (member) => this.#options.locations.pollMs(member)));
    return Number.isFinite(ms) ? ms : UNUSED_POLL_MS;
  }

  #isCurrent(unit: Unit): boolean {
    return this.#units.get(unit.key) === unit;
  }

  async #poll(key: ResourceKey, signal: AbortSignal): Promise<RunResult | undefined> {
    const unit = this.#units.get(key);
    if (unit === undefined) return undefined;
    unit.anew = false;
    const { access, random } = this.#options;
    const before = stateOf(unit);
    const { hungry } = unit;
    try {
      const connection = await access.open(key, unit.location, signal);
      const waitMs = await this.#look(unit, connection, signal);
      unit.trouble = undefined;
      if (!this.#isCurrent(unit)) return this.#abandoned(unit);
      return { requeueAfterMs: waitMs ?? this.#pollMs(unit) * (0.9 + 0.1 * random()) };
    } catch (error) {
      // Nobody waits for what it was to find out, so its failure is nobody's either.
      if (!this.#isCurrent(unit)) return this.#abandoned(unit);
      if (!signal.aborted) return this.#failed(unit, error);
      throw error;
    } finally {
      const news = hungry || stateOf(unit) !== before;
      if (news && this.#isCurrent(unit)) this.#tell(unit);
    }
  }

  #tell(unit: Unit): void {
    for (const member of unit.members) this.#options.onChange(member);
  }

  /** It was forgotten while it was looked at, and what was found or opened since is nobody's. */
  #abandoned(unit: Unit): undefined {
    this.#options.access.close(unit.key);
    if (unit.lease !== undefined) this.#options.leases.dropped(unit.lease);
    return undefined;
  }

  #failed(unit: Unit, error: unknown): RunResult | undefined {
    // Its watch wakes us.
    if (error instanceof NotKnownYetError) return undefined;
    const told = unit.trouble !== undefined || unit.view.state === 'failed';
    const trouble = troubleOf(error, unit.location, 'reading from');
    if (told && saysNothingNew(error)) {
      // Nothing to add.
    } else if (unit.view.state === 'present') unit.trouble = trouble;
    else {
      const { pending, reason, message } = trouble;
      unit.view = { state: pending ? 'missing' : 'failed', reason, message };
    }
    if (unit.anew) return { requeueAfterMs: 0 };
    if (error instanceof VaultAuthMissingError) return { requeueAfterMs: this.#pollMs(unit) };
    if (unit.lease === undefined) throw error;
    const left = (unit.lease.expiresAt - this.#options.clock.monotonic()) / 4;
    const soon = Math.min(Math.max(left, LEASE_RETRY.shortest), LEASE_RETRY.longest);
    const requeueAfterMs = Math.max(soon, vaultRetryAfterMs(error) ?? 0);
    this.#options.onError(unit.key, error, requeueAfterMs);
    return { requeueAfterMs };
  }

  /** @returns ms until it is to be looked at again, where that is not the poll period */
  async #look(unit: Unit, connection: VaultConnection, signal: AbortSignal): Promise<number | undefined> {
    const { location } = unit;
    if (isOwn(unit)) {
      const waitMs = await this.#keep(unit, connection, signal);
      if (waitMs !== undefined) return waitMs;
    }
    if (unit.view.state !== 'present') {
      const place = await connection.entries.resolve(location.path, signal);
      const { mount, known } = place;
      // The claims from here may be part of a cycle by the new name: first of all they are made anew.
      if (this.#options.locations.learn(location, place)) return RENAMED_MS;
      const noKv = known && mount.kind === 'other';
      if (!isOwn(unit) && (noKv || (!known && this.#hadLease(unit)))) {
        this.#split(unit);
        return undefined;
      }
      if (noKv && location.encoding === 'base64') {
        const message = `the vault path ${location.path} is in no KV store, so that its values are no base64: leave out encoding`;
        unit.view = { state: 'failed', reason: 'InvalidValues', message };
        return undefined;
      }
    }
    const entry = await this.#readIfMoved(unit, connection, location.path, signal);
    unit.hungry = false;
    if (entry === undefined) return undefined;
    if (entry.state !== 'found') {
      this.#drop(unit);
      unit.view = missing(entry, location, connection.session.addr);
      return undefined;
    }
    return await this.#found(unit, connection, entry, signal);
  }

  /** Does what is due for the lease. @returns undefined where new credentials are needed */
  async #keep(unit: OwnUnit, connection: VaultConnection, signal: AbortSignal): Promise<number | undefined> {
    const { leases } = this.#options;
    if (!unit.recalled) {
      const lease = await leases.recall(unit, connection, unit.location.secretType ?? '', signal);
      unit.recalled = true;
      if (lease !== undefined) this.#hold(unit, lease);
    }
    if (unit.lease === undefined) return undefined;
    const waitMs = await leases.tend(unit.lease, this.#pollMs(unit), signal);
    if (waitMs !== 'replace') this.#show(unit, unit.lease);
    return waitMs === 'replace' ? undefined : waitMs;
  }

  /** Whether a rule that shares the unit had dynamic credentials of this origin. */
  #hadLease({ members }: Unit): boolean {
    return [...members].some((member) => this.#options.leases.hasTrace(member));
  }

  /** What seemed to be one for many is dynamic credentials: each rule gets its own. */
  #split(unit: Unit): readonly OwnUnit[] {
    const { locations } = this.#options;
    const members = [...unit.members];
    this.#close(unit);
    return members.flatMap((key) => {
      const [rule] = locations.users(key);
      const location = locations.get(key);
      if (rule === undefined || location === undefined) return [];
      const own = this.#open({ key, location, rule, members: new Set<ResourceKey>() });
      this.#join(own, key);
      this.#refresh(own);
      return [own];
    });
  }

  /** `undefined`: it is as it was. */
  async #readIfMoved(
    unit: Unit,
    { entries }: VaultConnection,
    path: string,
    signal: AbortSignal,
  ): Promise<KvEntry | undefined> {
    if (unit.view.state !== 'present' || unit.hungry || unit.lease !== undefined) {
      return await entries.read(path, signal);
    }
    const { head, entry } = await entries.readVersion(path, signal);
    if (entry !== undefined || head.state !== 'found') return entry ?? (head as AbsentEntry);
    return versionOf(head) === unit.view.version ? undefined : await entries.read(path, signal);
  }

  async #found(
    unit: Unit,
    connection: VaultConnection,
    entry: FoundEntry,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const version = entry.lease === undefined ? versionOf(entry) : leaseVersion(entry.lease.leaseId);
    const made = contentOf(entry, unit.location, version ?? '');
    if (entry.lease !== undefined) return await this.#granted(unit, connection, entry.lease, made, signal);
    if (!(made instanceof Content)) {
      unit.view = made;
      return undefined;
    }
    this.#drop(unit);
    const content = version === undefined ? this.#numbered(unit, made) : made;
    unit.fingerprint = { version: content.version, fingerprint: fingerprintOf(content) };
    unit.view = present(content.version);
    this.#contents.set(`${unit.key}@${content.version}`, content, content.weight);
    return undefined;
  }

  async #granted(
    unit: Unit,
    connection: VaultConnection,
    grant: LeaseGrant,
    made: Content | SourceView,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { leases } = this.#options;
    if (!(made instanceof Content)) {
      unit.view = made;
      await leases.discard(unit, connection, grant.leaseId, signal);
      const waitMs = Math.min(WASTE_WAIT.first * 2 ** unit.wasted++, WASTE_WAIT.longest);
      return Math.max(this.#pollMs(unit), waitMs);
    }
    const lessee = isOwn(unit) ? unit : this.#split(unit)[0];
    if (lessee === undefined || !this.#isCurrent(lessee)) {
      // Its rule went, or went elsewhere, while they were made.
      await leases.discard(unit, connection, grant.leaseId, signal);
      return undefined;
    }
    const old = lessee.lease;
    lessee.recalled = true;
    lessee.wasted = 0;
    this.#hold(lessee, leases.granted(lessee, connection, grant, made));
    if (old !== undefined) leases.replaced(old);
    if (lessee !== unit) this.#tell(lessee);
    return Math.min(this.#pollMs(lessee), grant.durationSeconds * 500);
  }

  /** Without a version from Vault the content itself says whether it is another. */
  #numbered({ fingerprint }: Unit, content: Content): Content {
    const same = fingerprint?.fingerprint.digest === content.digest;
    return content.withVersion(same ? fingerprint.version : `${this.#process}-${++this.#count}`);
  }

  #hold(unit: Unit, lease: Lease): void {
    unit.lease = lease;
    unit.fingerprint = { version: leaseVersion(lease.leaseId), fingerprint: fingerprintOf(lease.content) };
    this.#show(unit, lease);
  }

  #show(unit: Unit, { leaseId, durationSeconds, tokenExpiresAt }: Lease): void {
    const origin = vaultLeaseOrigin(unit.location);
    const lease = { id: leaseId, seconds: durationSeconds, origin, tokenExpiresAt };
    unit.view = { ...present(leaseVersion(leaseId)), lease };
  }

  #drop(unit: Unit): void {
    if (unit.lease !== undefined) this.#options.leases.replaced(unit.lease);
    unit.lease = undefined;
  }
}

function isOwn(unit: Unit): unit is OwnUnit {
  return unit.rule !== undefined;
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
    const content = Content.ofFields(SECRET, { data: Object.fromEntries(data) }, secretType ?? '', version);
    const problem = entry.lease && leaseProblem(entry.lease, content);
    if (problem === undefined) return content;
    return { state: 'failed', reason: 'InvalidValues', message: `the vault path ${path}: ${problem}` };
  } catch (error) {
    if (!(error instanceof ValueConversionError)) throw error;
    return { state: 'failed', reason: 'InvalidValues', message: `the vault entry ${path}: ${error.message}` };
  }
}

/** The credentials of a lease are held as long as it lives, and its id stands in the status and on copies. */
function leaseProblem({ leaseId }: LeaseGrant, { weight }: Content): string | undefined {
  if (leaseId.length > MAX_LEASE_ID)
    return `the id of its lease has ${leaseId.length} characters; it may have ${MAX_LEASE_ID}`;
  if (weight > MAX_LEASED) return `its credentials take ${weight} bytes; they may take ${MAX_LEASED}`;
  return undefined;
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
function stateOf({ view, trouble }: Unit): string {
  return JSON.stringify([view, trouble]);
}
