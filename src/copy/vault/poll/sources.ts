/**
 * Entries in Vault as sources: each entry is polled once in each period, and read if it has changed, however many rules
 * and copies it has.
 *
 * `unit-reader.ts` reads the units, and says what a unit is. Only polls call Vault. There is one queue for each server,
 * whose workers the namespaces of the credentials share, so that a namespace does not block another, however many of
 * its mounts hang. If a mount hangs, the client refuses most of its calls (`vault/client/lanes.ts`). A slow Vault does
 * not delay writes of copies: `load` returns the cached content at once, or requests a poll and returns `undefined`.
 */
import { ByteCache } from '../../../runtime/maps.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { RunResult } from '../../../runtime/queue/keyed-queue-options.ts';
import type { KeyedQueue } from '../../../runtime/queue/keyed-queue.ts';
import { QueueLanes } from '../../../runtime/queue/queue-lanes.ts';
import type { QueueFigures, SourceProvider } from '../../engine/backend.ts';
import { causeOf } from '../../model/cause.ts';
import type { SourceLease, SourceView } from '../../model/claim.ts';
import type { Content, Fingerprint } from '../../model/content.ts';
import { type EntryKey, type RuleKey, serverOf } from '../../model/keys.ts';
import {
  isSkippedCall,
  troubleOf,
  type VaultAccess,
  vaultLongestWaitMs,
  vaultRetryAfterMs,
  type VaultTrouble,
} from '../access/access.ts';
import { VaultAuthMissingError } from '../access/login-tokens.ts';
import { NotKnownYetError } from '../access/credentials.ts';
import type { VaultLeases } from '../leases/leases.ts';
import { credentialNamespaceOf, vaultPollKey, type VaultLocations } from '../locations.ts';
import { type DynamicUnit, Unit, UNKNOWN, contentKey, leaseFacts, UnitReader } from './unit-reader.ts';

/** A failed poll. `retryInMs`: when it is tried again, ms; `undefined`: not by itself. */
interface FailedPoll {
  readonly source: EntryKey;
  /** The rules that use the source. */
  readonly rules: readonly RuleKey[];
  readonly error: unknown;
  readonly retryInMs: number | undefined;
}

export interface VaultSourcesOptions {
  readonly locations: VaultLocations;
  readonly access: VaultAccess;
  readonly leases: VaultLeases;
  readonly clock: Clock;
  /** Returns a number r, 0 ≤ r < 1. */
  readonly random: () => number;
  /** Called when the view or trouble of a source has changed, or its content is now in the cache. */
  readonly onChange: (key: EntryKey) => void;
  readonly onError: (failed: FailedPoll) => void;
}

const CONTENT_CACHE_BYTES = 4 * 1024 * 1024;
/** How many polls run at the same time for one server. */
const POLLS_AT_ONCE = 24;
/** Poll period of a source without a rule, ms: the rule was evaluated, but its new claims are not in the book yet. */
const UNUSED_POLL_MS = 60_000;

export class VaultSources implements SourceProvider {
  readonly #options: VaultSourcesOptions;
  readonly #units = new Map<EntryKey, Unit>();
  readonly #byMember = new Map<EntryKey, Unit>();
  readonly #contents = new ByteCache<Content>({ maxBytes: CONTENT_CACHE_BYTES });
  readonly #reader: UnitReader;
  readonly #polls: QueueLanes<EntryKey>;

  constructor(options: VaultSourcesOptions) {
    this.#options = options;
    this.#reader = new UnitReader({
      clock: options.clock,
      locations: options.locations,
      leases: options.leases,
      contents: this.#contents,
      split: (unit) => this.#split(unit),
      onChange: (unit) => this.#changed(unit),
    });
    this.#polls = new QueueLanes<EntryKey>({
      name: 'polls',
      clock: options.clock,
      random: options.random,
      concurrency: POLLS_AT_ONCE,
      groupOf: (key) => credentialNamespaceOf(this.#units.get(key)?.location.auth),
      retryBaseMs: 500,
      retryAfterMs: vaultRetryAfterMs,
      retryMaxMsOf: vaultLongestWaitMs,
      onError: (key, error, retryInMs) => this.#reportError(key, error, retryInMs),
    });
    this.#polls.start((key, signal) => this.#poll(key, signal));
  }

  get cachedBytes(): number {
    return this.#contents.bytes;
  }

  /** Figures of the queued polls of each server. */
  get queues(): readonly QueueFigures[] {
    return this.#polls.all.map(({ name, queue }) => ({ name, ...queue.metrics() }));
  }

  follow(key: EntryKey): void {
    const location = this.#options.locations.get(key);
    if (location === undefined || this.#byMember.has(key)) return;
    const shared = vaultPollKey(location);
    const unit = this.#units.get(shared) ?? this.#open(new Unit(shared, location, undefined));
    const sooner = this.#options.locations.pollMs(key) < unit.pollMs(this.#options.locations);
    this.#join(unit, key);
    if (sooner) this.#refresh(unit);
  }

  unfollow(key: EntryKey): void {
    const unit = this.#byMember.get(key);
    if (unit === undefined) return;
    this.#byMember.delete(key);
    unit.members.delete(key);
    if (unit.members.size === 0) this.#close(unit);
  }

  view(key: EntryKey): SourceView {
    return this.#byMember.get(key)?.view ?? UNKNOWN;
  }

  /** Why a source cannot be polled now, although its content is known; `undefined`: it can be polled. */
  trouble(key: EntryKey): VaultTrouble | undefined {
    return this.#byMember.get(key)?.trouble;
  }

  fingerprint(key: EntryKey): Fingerprint | undefined {
    const unit = this.#byMember.get(key);
    if (unit?.view.state !== 'present' || unit.fingerprint?.version !== unit.view.version) return undefined;
    return unit.fingerprint.fingerprint;
  }

  load(key: EntryKey): Promise<Content | undefined> {
    const unit = this.#byMember.get(key);
    if (unit?.view.state !== 'present') return Promise.resolve(undefined);
    const { lease, view } = unit;
    const content =
      lease?.content.version === view.version ? lease.content : this.#contents.get(contentKey(unit, view.version));
    // While the status does not name a new lease, a poll cannot bring content: `leaseRecorded` does.
    if (content === undefined && lease?.isRecorded !== false) {
      unit.needsContent = true;
      this.#refresh(unit);
    }
    return Promise.resolve(content);
  }

  /** The lease of a source, which the status of its rule must name; `undefined`: no credentials were granted. */
  lease(key: EntryKey): SourceLease | undefined {
    const unit = this.#byMember.get(key);
    return unit?.lease && leaseFacts(unit.location, unit.lease);
  }

  /** Called when the status of a source's rule names a lease. Then copies get the credentials of this lease. */
  leaseRecorded(key: EntryKey, leaseId: string): void {
    const unit = this.#byMember.get(key);
    if (unit?.lease === undefined || unit.lease.leaseId !== leaseId || unit.lease.isRecorded) return;
    unit.lease.isRecorded = true;
    this.#reader.updateView(unit, unit.lease);
    this.#changed(unit);
  }

  /** Polls a source now. */
  refresh(key: EntryKey): void {
    const unit = this.#byMember.get(key);
    if (unit !== undefined) this.#refresh(unit);
  }

  /** Called when the credential of a unit may have changed: polls at once, because a failed poll may succeed now. */
  retry(user: EntryKey): void {
    const unit = this.#units.get(user);
    if (unit === undefined) return;
    this.#lane(unit).forget(user);
    this.#refresh(unit);
  }

  /** Ends all polls. Running polls get `drainMs`, so that new credentials in their responses are not lost. */
  async stop(drainMs: number): Promise<void> {
    await this.#polls.stop({ drainMs, graceMs: 100 });
    this.#contents.clear();
  }

  #open<U extends Unit>(unit: U): U {
    this.#options.access.follow(unit.key, unit.location);
    this.#units.set(unit.key, unit);
    return unit;
  }

  #join(unit: Unit, member: EntryKey): void {
    unit.members.add(member);
    this.#byMember.set(member, unit);
  }

  #close(unit: Unit): void {
    unit.isClosed = true;
    this.#units.delete(unit.key);
    this.#lane(unit).forget(unit.key);
    this.#release(unit);
  }

  /** Releases the session and lease of a unit that is no longer in use. */
  #release(unit: Unit): void {
    this.#options.access.close(unit.key);
    if (unit.lease !== undefined) this.#options.leases.dropped(unit.lease);
  }

  /** Replaces a shared unit by one unit for each rule, because its credentials turned out to be dynamic. */
  #split(unit: Unit): readonly DynamicUnit[] {
    const { locations } = this.#options;
    const members = [...unit.members];
    this.#close(unit);
    return members.flatMap((key) => {
      const [rule] = locations.users(key);
      const location = locations.get(key);
      if (rule === undefined || location === undefined) return [];
      const own = this.#open(new Unit(key, location, rule));
      this.#join(own, key);
      this.#refresh(own);
      return [own];
    });
  }

  #refresh(unit: Unit): void {
    this.#lane(unit).add(unit.key);
  }

  #lane({ key }: Unit): KeyedQueue<EntryKey> {
    return this.#polls.of(serverOf(key));
  }

  #changed(unit: Unit): void {
    for (const member of unit.members) this.#options.onChange(member);
  }

  async #poll(key: EntryKey, signal: AbortSignal): Promise<RunResult | undefined> {
    const unit = this.#units.get(key);
    if (unit === undefined) return undefined;
    const { access, random } = this.#options;
    const before = stateOf(unit);
    const { needsContent } = unit;
    try {
      const connection = await access.open(key, unit.location, signal);
      const waitMs = await this.#reader.read(unit, connection, signal);
      unit.trouble = undefined;
      if (!unit.isClosed) return nextPoll(waitMs ?? unit.pollMs(this.#options.locations) * (0.9 + 0.1 * random()));
    } catch (error) {
      if (!unit.isClosed) {
        if (!signal.aborted) return this.#failed(unit, error);
        throw error;
      }
    } finally {
      const changed = needsContent || stateOf(unit) !== before;
      if (changed && !unit.isClosed) this.#changed(unit);
    }
    // The unit was closed during the poll. The poll may have opened a session or a lease, so both are released.
    this.#release(unit);
    return undefined;
  }

  #failed(unit: Unit, error: unknown): RunResult | undefined {
    // The next poll starts when the watch brings the Secret with the credential.
    if (error instanceof NotKnownYetError) return undefined;
    const reported = unit.trouble !== undefined || unit.view.state === 'failed';
    if (!reported || !isSkippedCall(error)) {
      const trouble = troubleOf(error, unit.location, 'reading from');
      if (unit.view.state === 'present') unit.trouble = trouble;
      else unit.view = { state: trouble.pending ? 'missing' : 'failed', ...causeOf(trouble) };
    }
    if (error instanceof VaultAuthMissingError) return nextPoll(unit.pollMs(this.#options.locations));
    throw error;
  }

  #reportError(source: EntryKey, error: unknown, retryInMs: number | undefined): void {
    const { locations, onError } = this.#options;
    const members = [...(this.#units.get(source)?.members ?? [])];
    onError({ source, rules: members.flatMap((member) => Array.from(locations.users(member))), error, retryInMs });
  }
}

function nextPoll(inMs: number): RunResult {
  return { requeueAfterMs: Number.isFinite(inMs) ? inMs : UNUSED_POLL_MS };
}

/** The view and trouble of a unit, as text to compare. */
function stateOf({ view, trouble }: Unit): string {
  return JSON.stringify([view, trouble]);
}
