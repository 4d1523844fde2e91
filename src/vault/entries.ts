/**
 * Reading and writing entries by the path a user wrote, whatever is mounted there.
 *
 * Invariants:
 *
 * - An entry that is missing, deleted or destroyed is a state, never a `found` one with no values.
 * - A write names the version it replaces, so that of two writers one hears of the other. KV 1 has no such thing: there
 *   only "must not exist" is checked, by reading first.
 * - `update` writes only what differs, so that a version is made by a change and by nothing else.
 * - Nothing but KV is written.
 */
import type { Clock } from '../runtime/clock.ts';
import { isVersionedPathWarning } from './answer.ts';
import { isVaultError, VaultError } from './errors.ts';
import { numberMember } from './json.ts';
import { entryHead, type KvEntry, type KvHead, MISSING, plainEntry, versionedEntry } from './kv-answers.ts';
import { asVersioned, type EntryPath, Mounts } from './mounts.ts';
import type { VaultCaller } from './session.ts';
import type { VaultValues } from './values.ts';

export interface VaultEntriesOptions {
  readonly clock: Clock;
  /**
   * Largest body of a write, bytes. Default 1,032,192: Vault's own limit for an entry in integrated storage is 1 MiB,
   * 16 KiB of which are left to what Vault adds. 512 KiB where Vault stores in Consul.
   */
  readonly maxEntryBytes?: number | undefined;
}

export interface WriteOptions {
  /** The version to be replaced; 0: there must be none. A deleted or destroyed version counts. */
  readonly ifVersion: number;
  readonly signal?: AbortSignal | undefined;
}

export interface WriteResult {
  /** KV 2 only. */
  readonly version: number | undefined;
}

export interface UpdateResult extends WriteResult {
  readonly written: boolean;
}

/** What `readVersion` found; with the entry itself where only reading it could tell. */
export interface VersionResult {
  readonly head: KvHead;
  readonly entry?: KvEntry;
}

const DEFAULT_MAX_ENTRY_BYTES = 1024 * 1024 - 16 * 1024;
/** How often `update` starts again because somebody else wrote in between. */
const UPDATE_ATTEMPTS = 5;
/** How long metadata that a policy forbids is not asked for again. */
const FORBIDDEN_MS = 600_000;

export class VaultEntries {
  readonly #session: VaultCaller;
  readonly #clock: Clock;
  readonly #maxEntryBytes: number;
  readonly #mounts: Mounts;
  /** Metadata paths that a policy forbids → monotonic ms until which that is believed. */
  readonly #forbidden = new Map<string, number>();

  constructor(session: VaultCaller, options: VaultEntriesOptions) {
    this.#session = session;
    this.#clock = options.clock;
    this.#maxEntryBytes = options.maxEntryBytes ?? DEFAULT_MAX_ENTRY_BYTES;
    this.#mounts = new Mounts(session, options.clock);
  }

  /** What is at the path, without reading it. @throws VaultError, AbortedError */
  resolve(path: string, signal?: AbortSignal): Promise<EntryPath> {
    return this.#mounts.resolve(path, signal);
  }

  /**
   * The entry and its values. At a path of another mount than KV this may make credentials: see `lease`.
   * @throws VaultError (`invalidPath` where nothing is mounted, `permissionDenied`, …), AbortedError
   */
  read(path: string, signal?: AbortSignal): Promise<KvEntry> {
    return this.#at(path, signal, (entry) => this.#read(entry, signal));
  }

  /**
   * The version alone where that is possible: KV 2 with a policy that allows to read the metadata. Else the entry.
   * @throws VaultError, AbortedError
   */
  readVersion(path: string, signal?: AbortSignal): Promise<VersionResult> {
    return this.#at(path, signal, async (entry) => {
      const head = await this.#head(entry, signal);
      if (head !== undefined) return { head };
      const read = await this.#read(entry, signal);
      return { head: withoutValues(read), entry: read };
    });
  }

  /**
   * Writes the whole entry.
   * @throws VaultError: `casMismatch` if the version is not `ifVersion`, `tooLarge` before anything is sent,
   *   `invalidPath` if no KV store is mounted there, …; AbortedError
   */
  write(path: string, values: VaultValues, options: WriteOptions): Promise<WriteResult> {
    return this.#at(path, options.signal, (entry) => this.#write(entry, values, options));
  }

  /**
   * Makes the entry what `decide` wants, with one new version if it differs and none if it does not. Reads and asks again
   * when somebody else wrote in between.
   * @param decide gets the present state; `undefined`: leave it
   * @throws VaultError: of reading and writing; `casMismatch` after five attempts. AbortedError.
   */
  async update(
    path: string,
    decide: (current: KvEntry) => VaultValues | undefined,
    signal?: AbortSignal,
  ): Promise<UpdateResult> {
    for (let attempt = 1; ; attempt++) {
      const current = await this.read(path, signal);
      const wanted = decide(current);
      const same = current.state === 'found' && wanted?.equals(current.values) === true;
      if (wanted === undefined || same) return { written: false, version: current.version };
      try {
        const { version } = await this.write(path, wanted, { ifVersion: versionToReplace(current), signal });
        return { written: true, version };
      } catch (error) {
        if (!isVaultError(error, 'casMismatch') || attempt >= UPDATE_ATTEMPTS) throw error;
      }
    }
  }

  /** With what is mounted there, and once more where the answer shows that it is something else. */
  async #at<T>(path: string, signal: AbortSignal | undefined, work: (entry: EntryPath) => Promise<T>): Promise<T> {
    const entry = await this.#mounts.resolve(path, signal);
    try {
      return await work(entry);
    } catch (error) {
      if (!isVaultError(error, 'invalidPath')) throw error;
      if (entry.known) this.#mounts.forget(entry);
      else if (entry.mount.kind === 'kv1' && isVersionedPathWarning(error.errors))
        return await work(asVersioned(entry));
      throw error;
    }
  }

  async #read(entry: EntryPath, signal: AbortSignal | undefined): Promise<KvEntry> {
    const askedAt = this.#clock.now();
    const repeatable = entry.known && entry.mount.kind !== 'other';
    try {
      const response = await this.#session.request({ method: 'GET', path: entry.dataPath, repeatable, signal });
      const versioned = entry.mount.kind === 'kv2' ? versionedEntry(response) : undefined;
      // By its shape a path of KV 1 may look like one of KV 2.
      const read = versioned ?? (entry.mount.kind === 'kv2' && entry.known ? undefined : plainEntry(response, askedAt));
      if (read !== undefined) return read;
    } catch (error) {
      if (isVaultError(error, 'notFound')) return MISSING;
      throw error;
    }
    throw this.#error(entry.dataPath, 'the answer is not that of the secrets engine', 'badResponse');
  }

  /** `undefined`: only reading the entry can tell. */
  async #head(entry: EntryPath, signal: AbortSignal | undefined): Promise<KvHead | undefined> {
    const path = entry.metadataPath;
    if (path === undefined || (this.#forbidden.get(path) ?? -Infinity) > this.#clock.monotonic()) return undefined;
    try {
      const { data } = await this.#session.request({ method: 'GET', path, signal });
      this.#forbidden.delete(path);
      return entryHead(data, this.#clock.now());
    } catch (error) {
      if (isVaultError(error, 'notFound')) return MISSING;
      if (!isVaultError(error, 'permissionDenied')) throw error;
      this.#forbid(path);
      return undefined;
    }
  }

  #forbid(path: string): void {
    const now = this.#clock.monotonic();
    for (const [known, until] of this.#forbidden) if (until <= now) this.#forbidden.delete(known);
    this.#forbidden.set(path, now + FORBIDDEN_MS);
  }

  async #write(entry: EntryPath, values: VaultValues, options: WriteOptions): Promise<WriteResult> {
    const path = entry.dataPath;
    const { kind } = entry.mount;
    if (kind === 'other') throw this.#error(path, `${entry.mount.path} is not a KV store`, 'invalidPath');
    const body = this.#body(entry, values, options.ifVersion);
    const { signal } = options;
    if (kind === 'kv1' && options.ifVersion === 0 && (await this.#read(entry, signal)).state === 'found') {
      throw this.#error(path, 'the entry exists already', 'casMismatch');
    }
    try {
      const redact = (): readonly string[] => values.texts();
      const { data } = await this.#session.request({ method: 'POST', path, body, redact, signal });
      return { version: kind === 'kv2' ? numberMember(data, 'version') : undefined };
    } finally {
      body.fill(0);
    }
  }

  #body(entry: EntryPath, values: VaultValues, ifVersion: number): Buffer {
    const json = values.toCanonicalJson();
    const text = entry.mount.kind === 'kv2' ? `{"options":{"cas":${ifVersion}},"data":${json}}` : json;
    const body = Buffer.from(text);
    const limit = this.#maxEntryBytes;
    if (body.byteLength <= limit) return body;
    const reason = `the entry has ${body.byteLength} bytes as JSON, and at most ${limit} are written`;
    throw this.#error(entry.dataPath, reason, 'tooLarge');
  }

  #error(path: string, reason: string, kind: 'badResponse' | 'invalidPath' | 'casMismatch' | 'tooLarge'): VaultError {
    const method = kind === 'badResponse' ? 'GET' : 'POST';
    return new VaultError(reason, { kind, addr: this.#session.addr, method, path });
  }
}

/** What `ifVersion` must be for the next write. For KV 1, which has no versions: anything but 0 if there is an entry. */
export function versionToReplace(current: KvEntry): number {
  return current.version ?? 1;
}

function withoutValues(entry: KvEntry): KvHead {
  if (entry.state !== 'found') return entry;
  const { state, version, createdTime } = entry;
  return { state, ...(version !== undefined && { version }), ...(createdTime && { createdTime }) };
}
