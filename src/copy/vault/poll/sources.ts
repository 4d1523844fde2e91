/**
 * Entries in Vault as sources: the entry of a rule is read once in each period, however many copies it has.
 *
 * `source-reader.ts` reads them, and has their states. Only polls call Vault. There is one queue for each server,
 * whose workers the namespaces of the credentials share, so that a namespace does not block another, however many of
 * its mounts hang. If a mount hangs, the client refuses most of its calls (`vault/client/lanes.ts`). A slow Vault does
 * not delay writes of copies: `load` returns the cached content at once, or requests a poll and returns `undefined`.
 */
import { ByteCache } from '../../../runtime/maps.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { KeyedQueue, RunResult } from '../../../runtime/queue/keyed-queue.ts';
import { QueueLanes } from '../../../runtime/queue/queue-lanes.ts';
import type { SourceProvider } from '../../engine/backend.ts';
import type { NamedQueue } from '../../engine/controller.ts';
import { causeOf } from '../../model/cause.ts';
import type { SourceLease, SourceView } from '../../model/claim.ts';
import type { Content, Fingerprint } from '../../model/content.ts';
import { type EntryKey, type RuleKey, serverOf } from '../../model/keys.ts';
import { isSkippedCall, troubleOf, type VaultAccess, vaultLongestWaitMs, type VaultTrouble } from '../access/access.ts';
import { VaultAuthMissingError } from '../access/login-tokens.ts';
import { NotKnownYetError } from '../access/credentials.ts';
import type { VaultLeases } from '../leases/leases.ts';
import { credentialNamespaceOf, type VaultLocations } from '../locations.ts';
import { leaseFacts, SourceReader, UNKNOWN, VaultSource } from './source-reader.ts';

/** A failed poll. `retryInMs`: when it is tried again, ms; `undefined`: not by itself. */
interface FailedPoll {
  readonly source: EntryKey;
  readonly rule: RuleKey | undefined;
  readonly error: unknown;
  readonly retryInMs: number | undefined;
}

export interface VaultSourcesOptions {
  readonly locations: VaultLocations;
  readonly access: VaultAccess;
  readonly leases: VaultLeases;
  readonly clock: Clock;
  /** Called when the view or trouble of a source has changed, or its content is now in the cache. */
  readonly onChange: (key: EntryKey) => void;
  readonly onError: (failed: FailedPoll) => void;
}

const CONTENT_CACHE_BYTES = 4 * 1024 * 1024;
/** How many polls run at the same time for one server. */
const POLLS_AT_ONCE = 24;

export class VaultSources implements SourceProvider {
  readonly #options: VaultSourcesOptions;
  readonly #sources = new Map<EntryKey, VaultSource>();
  readonly #contents = new ByteCache<Content>({ maxBytes: CONTENT_CACHE_BYTES });
  readonly #reader: SourceReader;
  readonly #polls: QueueLanes<EntryKey>;

  constructor(options: VaultSourcesOptions) {
    this.#options = options;
    const { clock, locations, leases } = options;
    this.#reader = new SourceReader({ locations, leases, contents: this.#contents });
    this.#polls = new QueueLanes<EntryKey>({
      name: 'polls',
      pauses: true,
      clock,
      concurrency: POLLS_AT_ONCE,
      groupOf: (key) => credentialNamespaceOf(this.#sources.get(key)?.location.auth),
      retryBaseMs: 500,
      retryMaxMsOf: vaultLongestWaitMs,
      onError: (source, error, retryInMs) =>
        options.onError({ source, rule: this.#sources.get(source)?.rule, error, retryInMs }),
    });
    this.#polls.start((key, signal) => this.#poll(key, signal));
  }

  get cachedBytes(): number {
    return this.#contents.bytes;
  }

  /** The polls of each server. */
  get queues(): readonly NamedQueue[] {
    return this.#polls.all;
  }

  follow(key: EntryKey): void {
    const { access, locations } = this.#options;
    const location = locations.get(key);
    const [rule] = locations.users(key);
    if (location === undefined || rule === undefined || this.#sources.has(key)) return;
    access.follow(key, location);
    this.#sources.set(key, new VaultSource(key, location, rule));
    this.refresh(key);
  }

  unfollow(key: EntryKey): void {
    const source = this.#sources.get(key);
    if (source === undefined) return;
    source.isClosed = true;
    this.#sources.delete(key);
    this.#lane(key).forget(key);
    this.#release(source);
  }

  view(key: EntryKey): SourceView {
    return this.#sources.get(key)?.view ?? UNKNOWN;
  }

  /** Why a source cannot be polled now, although its content is known; `undefined`: it can be polled. */
  trouble(key: EntryKey): VaultTrouble | undefined {
    return this.#sources.get(key)?.trouble;
  }

  fingerprint(key: EntryKey): Fingerprint | undefined {
    const source = this.#sources.get(key);
    if (source?.view.state !== 'present' || source.fingerprint?.version !== source.view.version) return undefined;
    return source.fingerprint.fingerprint;
  }

  load(key: EntryKey): Promise<Content | undefined> {
    const source = this.#sources.get(key);
    if (source?.view.state !== 'present') return Promise.resolve(undefined);
    const { lease, view } = source;
    const content = [lease?.content, this.#contents.get(key)].find((one) => one?.version === view.version);
    // While the status does not name a new lease, a poll cannot bring content: `leaseRecorded` does.
    if (content === undefined && lease?.isRecorded !== false) {
      source.needsContent = true;
      this.refresh(key);
    }
    return Promise.resolve(content);
  }

  /** The lease of a source, which the status of its rule must name; `undefined`: no credentials were granted. */
  lease(key: EntryKey): SourceLease | undefined {
    const source = this.#sources.get(key);
    return source?.lease && leaseFacts(source.location, source.lease);
  }

  /** Called when the status of a source's rule names a lease. Then copies get the credentials of this lease. */
  leaseRecorded(key: EntryKey, leaseId: string): void {
    const source = this.#sources.get(key);
    if (source?.lease === undefined || source.lease.leaseId !== leaseId || source.lease.isRecorded) return;
    source.lease.isRecorded = true;
    this.#reader.updateView(source, source.lease);
    this.#options.onChange(key);
  }

  /** Polls a source now. */
  refresh(key: EntryKey): void {
    if (this.#sources.has(key)) this.#lane(key).add(key);
  }

  /** Called when the credential of a source may have changed: polls at once, because a failed poll may succeed now. */
  retry(key: EntryKey): void {
    if (!this.#sources.has(key)) return;
    this.#lane(key).forget(key);
    this.refresh(key);
  }

  /** Ends all polls. Running polls get `drainMs`, so that new credentials in their responses are not lost. */
  async stop(drainMs: number): Promise<void> {
    await this.#polls.stop({ drainMs, graceMs: 100 });
    this.#contents.clear();
  }

  /** Releases the session and lease of a source that is no longer in use. */
  #release(source: VaultSource): void {
    this.#options.access.close(source.key);
    if (source.lease !== undefined) this.#options.leases.dropped(source.lease);
  }

  #lane(key: EntryKey): KeyedQueue<EntryKey> {
    return this.#polls.of(serverOf(key));
  }

  async #poll(key: EntryKey, signal: AbortSignal): Promise<RunResult | undefined> {
    const source = this.#sources.get(key);
    if (source === undefined) return undefined;
    const { access } = this.#options;
    const before = stateOf(source);
    try {
      const connection = await access.open(key, source.location, signal);
      const waitMs = await this.#reader.read(source, connection, signal);
      source.trouble = undefined;
      if (!source.isClosed) return { requeueAfterMs: waitMs ?? this.#options.locations.nextPollMs(key) };
    } catch (error) {
      if (!source.isClosed) {
        if (!signal.aborted) return this.#failed(source, error);
        throw error;
      }
    } finally {
      const changed = source.needsContent || stateOf(source) !== before;
      source.needsContent = false;
      if (changed && !source.isClosed) this.#options.onChange(key);
    }
    // The source was closed during the poll. The poll may have opened a session or a lease, so both are released.
    this.#release(source);
    return undefined;
  }

  #failed(source: VaultSource, error: unknown): RunResult | undefined {
    // The next poll starts when the watch brings the Secret with the credential.
    if (error instanceof NotKnownYetError) return undefined;
    const reported = source.trouble !== undefined || source.view.state === 'failed';
    if (!reported || !isSkippedCall(error)) {
      const trouble = troubleOf(error, source.location, 'reading from');
      if (source.view.state === 'present') source.trouble = trouble;
      else source.view = { state: trouble.pending ? 'missing' : 'failed', ...causeOf(trouble) };
    }
    if (error instanceof VaultAuthMissingError)
      return { requeueAfterMs: this.#options.locations.nextPollMs(source.key) };
    throw error;
  }
}

/** The view and trouble of a source, as text to compare. */
function stateOf({ view, trouble }: VaultSource): string {
  return JSON.stringify([view, trouble]);
}
