/**
 * Reads and writes entries by the path that a user wrote, in any secrets engine.
 *
 * Invariants:
 * - A missing, deleted or destroyed entry has a state of its own. It is never a `found` entry without values.
 * - A write goes to the mount that was read, or nowhere: another mount under its name could take it for something else.
 *   It counts only if the answer shows that this kind of store has it.
 * - A write names the version that it replaces, so that one of two concurrent writers fails. KV 1 has no versions:
 *   there only "must not exist" is checked, by a read before the write.
 * - `update` writes only if the values differ, so that no version is created without a change.
 * - Only KV is written. `update` reads a path before it writes, and a read outside KV may create credentials. So if the
 *   mount is known not to be KV, `update` and `readKv` do not read. If Vault does not name the mount and the read creates
 *   credentials, they are revoked at once, and the path is not read to write it for ten minutes.
 */
import type { Clock } from '../../runtime/clock.ts';
import { isVersionedPathWarning } from '../client/answer.ts';
import { isVaultError, VaultError } from '../errors.ts';
import { numberMember, stringMember } from '../json.ts';
import { type FoundEntry, type KvEntry, MISSING, plainEntry, versionedEntry } from './answers.ts';
import { revokeLease } from '../lease-calls.ts';
import { asPlain, asVersioned, type EntryPath, Mounts } from './mounts.ts';
import { Cooldowns } from '../../runtime/queue/backoff.ts';
import type { VaultCaller } from '../session/session.ts';
import type { VaultValues } from './values.ts';

interface VaultEntriesOptions {
  readonly clock: Clock;
  /** Time limit of a read that may create credentials, ms: databases create users slowly. Default: as other calls. */
  readonly credentialsTimeoutMs?: number | undefined;
}

interface UpdateOptions {
  /** `true`: in KV 1 the pairs are written below one key `data`, as in the original. Both forms count as equal. */
  readonly nestedInKv1?: boolean | undefined;
}

export interface WriteResult {
  /** Number of the entry's version; `undefined` in KV 1. */
  readonly version: number | undefined;
  /** When Vault created this version, RFC 3339; `undefined` in KV 1. */
  readonly createdTime: string | undefined;
}

interface UpdateResult extends WriteResult {
  readonly written: boolean;
}

/**
 * Largest body of a write. Vault's own limit for an entry in integrated storage is 1 MiB, of which 16 KiB are left for
 * fields that Vault adds. Where Vault stores in Consul, its limit is 512 KiB.
 */
const MAX_ENTRY_BYTES = 1024 * 1024 - 16 * 1024;
/** How often `update` tries to write if other clients write the entry at the same time. */
const UPDATE_ATTEMPTS = 5;
/** If `readKv` or `update` created credentials, they do not read the path again for this time, ms. */
const NOT_KV_MS = 600_000;

export class VaultEntries {
  readonly #session: VaultCaller;
  readonly #options: VaultEntriesOptions;
  readonly #mounts: Mounts;
  /** Paths whose read created credentials. */
  readonly #notKv = new Cooldowns(NOT_KV_MS);

  constructor(session: VaultCaller, options: VaultEntriesOptions) {
    this.#session = session;
    this.#options = options;
    this.#mounts = new Mounts(session, options.clock);
  }

  /** Finds the mount and the full paths of an entry. @throws VaultError, AbortedError */
  resolve(path: string, signal?: AbortSignal): Promise<EntryPath> {
    return this.#mounts.resolve(path, signal);
  }

  /**
   * Reads the entry and its values. Outside KV the read may create credentials; then the entry has a `lease`.
   * @throws VaultError (`invalidPath` if nothing is mounted there, `permissionDenied`, …), AbortedError
   */
  read(path: string, signal?: AbortSignal): Promise<KvEntry> {
    return this.#at(path, signal, (entry) => this.#read(entry, signal));
  }

  /** As `read`, for an entry that Keyferry writes: outside KV nothing is read. @throws also `invalidPath` outside KV */
  readKv(path: string, signal?: AbortSignal): Promise<KvEntry> {
    return this.#at(path, signal, (entry) => this.#readToWrite(entry, signal));
  }

  /**
   * Writes the values that `decide` returns, if they differ from the current values. If another client writes the entry
   * between the read and the write, reads and decides again.
   * @param decide gets the current entry; `undefined`: no write
   * @throws VaultError: an error of the read or write; `invalidPath` if no KV store is mounted there, or another one than
   *   before; `tooLarge` before the write is sent; `casMismatch` after five attempts. AbortedError.
   */
  async update(
    path: string,
    decide: (current: KvEntry) => VaultValues | undefined,
    signal?: AbortSignal,
    { nestedInKv1 = false }: UpdateOptions = {},
  ): Promise<UpdateResult> {
    const once = async (entry: EntryPath): Promise<UpdateResult> => {
      const current = await this.#readToWrite(entry, signal);
      const wanted = decide(current);
      const same = current.state === 'found' && wanted !== undefined && hasValues(current, wanted, nestedInKv1);
      if (wanted === undefined || same) return { written: false, ...versionOf(current) };
      // If Vault did not name the mount, an entry without a version shows that it is not KV 2.
      const place = entry.known || current.version !== undefined ? entry : asPlain(entry);
      return { written: true, ...(await this.#write(place, versionToReplace(current), wanted, nestedInKv1, signal)) };
    };
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#at(path, signal, once);
      } catch (error) {
        if (!isVaultError(error, 'casMismatch') || attempt >= UPDATE_ATTEMPTS) throw error;
      }
    }
  }

  /** Runs `work` with the resolved path, and again as KV 2 if Vault's error shows that the mount is not KV 1. */
  async #at<T>(path: string, signal: AbortSignal | undefined, work: (entry: EntryPath) => Promise<T>): Promise<T> {
    const entry = await this.#mounts.resolve(path, signal);
    try {
      return await work(entry);
    } catch (error) {
      if (!isVaultError(error, 'invalidPath', 'badResponse')) throw error;
      if (entry.known) this.#mounts.forget(entry);
      else if (entry.mount.kind === 'kv1' && isVersionedPathWarning(error.errors))
        return await work(asVersioned(entry));
      throw error;
    }
  }

  async #read(entry: EntryPath, signal: AbortSignal | undefined): Promise<KvEntry> {
    const askedAt = this.#options.clock.now();
    const repeatable = entry.known && entry.mount.kind !== 'other';
    const limit = repeatable ? {} : { timeoutMs: this.#options.credentialsTimeoutMs };
    const { dataPath: path, mount } = entry;
    const request = { method: 'GET', path, mount: mount.path, repeatable, signal, ...limit } as const;
    try {
      const response = await this.#session.request(request);
      const versioned = entry.mount.kind === 'kv2' ? versionedEntry(response) : undefined;
      // If Vault did not name the mount, KV 2 is a guess from the path: the answer may be that of KV 1.
      const read = versioned ?? (entry.mount.kind === 'kv2' && entry.known ? undefined : plainEntry(response, askedAt));
      if (read !== undefined) return read;
    } catch (error) {
      if (isVaultError(error, 'notFound')) return this.#missing(entry);
      throw error;
    }
    throw this.#error(entry.dataPath, 'the response has not the format of an entry', 'badResponse');
  }

  /** Every mount answers 404 to a path that it does not have. So the next call looks the mount up again. */
  #missing(entry: EntryPath): KvEntry {
    if (entry.known) this.#mounts.forget(entry);
    return MISSING;
  }

  /** Reads an entry that is written. If the read creates credentials, revokes them and throws. */
  async #readToWrite(entry: EntryPath, signal: AbortSignal | undefined): Promise<KvEntry> {
    const now = this.#options.clock.monotonic();
    if (entry.mount.kind === 'other' || this.#notKv.until(entry.dataPath) > now) throw this.#notKvError(entry);
    const read = await this.#read(entry, signal);
    if (read.state !== 'found' || read.lease === undefined) return read;
    this.#notKv.sweep(now);
    this.#notKv.extend(entry.dataPath, now + NOT_KV_MS);
    const { leaseId } = read.lease;
    try {
      await revokeLease(this.#session, leaseId, signal);
    } catch (error) {
      if (!isVaultError(error)) throw error;
      throw this.#notKvError(
        entry,
        `; reading it created the lease ${leaseId}, which cannot be revoked: ${error.reason}`,
      );
    }
    throw this.#notKvError(entry);
  }

  #notKvError(entry: EntryPath, more = ''): VaultError {
    return this.#error(entry.dataPath, `${entry.mount.path} is not a KV store${more}`, 'invalidPath');
  }

  /** @param ifVersion the version that the write replaces, which may be deleted or destroyed; 0: there is none */
  async #write(
    entry: EntryPath,
    ifVersion: number,
    values: VaultValues,
    nestedInKv1: boolean,
    signal: AbortSignal | undefined,
  ): Promise<WriteResult> {
    const { dataPath: path, known } = entry;
    const { kind, path: mount } = entry.mount;
    const failed = (reason: string): VaultError => this.#error(path, reason, 'invalidPath');
    if (known && !(await this.#mounts.isUnchanged(entry, signal)))
      throw failed(`not sent: ${mount} was replaced, moved or upgraded after the entry was read`);
    if (kind === 'kv1' && ifVersion === 0 && (await this.#read(entry, signal)).state === 'found')
      throw this.#error(path, 'the entry exists already', 'casMismatch');
    const json = (kind === 'kv1' && nestedInKv1 ? values.nested() : values).toCanonicalJson();
    const body = Buffer.from(kind === 'kv2' ? `{"options":{"cas":${ifVersion}},"data":${json}}` : json);
    try {
      if (body.byteLength > MAX_ENTRY_BYTES) {
        const reason = `the entry has ${body.byteLength} bytes as JSON, and at most ${MAX_ENTRY_BYTES} are written`;
        throw this.#error(path, reason, 'tooLarge');
      }
      const redact = (): readonly string[] => values.texts();
      const { data } = await this.#session.request({ method: 'POST', path, mount, body, redact, signal });
      const version = numberMember(data, 'version');
      if ((version !== undefined) === (kind === 'kv2'))
        return { version, createdTime: stringMember(data, 'created_time') };
      const made =
        kind === 'kv2' ? 'the fields "options" and "data" at this path' : 'a version of an entry with the values';
      throw failed(`Vault accepted the write, but another kind of store is mounted at ${mount} now: it has ${made}`);
    } finally {
      body.fill(0);
    }
  }

  #error(path: string, reason: string, kind: 'badResponse' | 'invalidPath' | 'casMismatch' | 'tooLarge'): VaultError {
    const method = kind === 'badResponse' ? 'GET' : 'POST';
    return new VaultError(reason, { kind, addr: this.#session.addr, method, path });
  }
}

/** `ifVersion` for the next write. KV 1 has no versions: there 1 stands for an entry that exists. */
function versionToReplace(current: KvEntry): number {
  return current.version ?? 1;
}

function hasValues({ values, version }: FoundEntry, wanted: VaultValues, nestedInKv1: boolean): boolean {
  return wanted.equals(values) || (nestedInKv1 && version === undefined && wanted.equals(values.unnested()));
}

function versionOf(entry: KvEntry): WriteResult {
  return { version: entry.version, createdTime: entry.state === 'found' ? entry.createdTime : undefined };
}
