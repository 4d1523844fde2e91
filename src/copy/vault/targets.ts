/**
 * Reconciles entries in Vault as targets: compares, and writes one version if the content differs.
 *
 * An entry in Vault has no mark, so it is never deleted, and any rule may write it. Of several claims one wins as in a cluster (`winnerOf`), where
 * the rule that last wrote or compared the entry holds it. After a restart nothing shows who held it.
 *
 * The digest and version of the last write or read (`lastWrite`) save reading: while both are unchanged, one read of the metadata every poll
 * period is enough. `lastWrite` may be lost at any time; then the entry is read and compared.
 */
import { getOrCreate } from '../../runtime/maps.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import { isVaultError, VaultError } from '../../vault/errors.ts';
import { toVaultValues, ValueConversionError, type ValueEncoding, type VaultValues } from '../../vault/kv/values.ts';
import { causeOf, operatorCause, userCause } from '../model/cause.ts';
import { type Claim, type Outcome, PENDING, type SourceView, SYNCED } from '../model/claim.ts';
import type { ClaimBook, Entry } from '../book/claim-book.ts';
import { winnerOf, outcomeOf, outcomesOf } from '../plan/contest.ts';
import type { Contest } from '../plan/facts.ts';
import type { Content } from '../model/content.ts';
import { type Cycles, type Flows, flowsOf } from '../book/cycles.ts';
import { type EntryKey, loginKey, type RuleKey } from '../model/keys.ts';
import { SECRET } from '../model/kind.ts';
import { planWithoutWrite } from '../plan/plan-write.ts';
import type { TargetWriter } from '../engine/backend.ts';
import type { SourceReader } from '../engine/sources.ts';
import { isSkippedCall, troubleOf, type VaultAccess, type VaultConnection } from './access/access.ts';
import { VaultAuthMissingError } from './access/auth-missing.ts';
import { distinctVersionOf, secretContent, versionOf } from './poll/entry-view.ts';
import { NotKnownYetError, type VaultCredentials } from './access/credentials.ts';
import type { VaultAuthRef, VaultLocations, VaultLocation } from './locations.ts';

export interface VaultTargetsOptions {
  readonly book: ClaimBook;
  readonly sources: SourceReader;
  readonly cycles: Pick<Cycles, 'viewsOn'>;
  readonly locations: VaultLocations;
  readonly access: VaultAccess;
  readonly credentials: VaultCredentials;
  /** 0 ≤ r < 1. */
  readonly random: () => number;
  /** Wall clock, ms. */
  readonly now: () => number;
  /** The outcome of a claim changed, or a write was done for it. */
  readonly onOutcome: (entry: Entry, wrote: boolean) => void;
  /** A version was written. `addr` is the server's. */
  readonly onWrite: (target: EntryKey, addr: string, entry: Entry) => void;
}

/** The content of a target when it was last written or read. */
export interface LastWrite {
  /** Of the source's content. */
  readonly digest: string;
  /** Of the source. */
  sourceVersion: string;
  /** Of the entry. @see versionOf */
  readonly entryVersion: string | undefined;
  /** The same, if it shows that the entry is unchanged. @see distinctVersionOf */
  readonly distinctVersion: string | undefined;
  /** Of the location: the same content in another encoding is another entry. */
  readonly encoding: string;
}

interface Memory {
  lastWrite?: LastWrite;
  /** The rule whose content the entry had when it was last written or read. */
  holder?: RuleKey;
  /** The followed credential. */
  auth?: VaultAuthRef;
  /** The credential changed during a run. */
  credentialChanged?: boolean;
}

/** The result of a run. `requeueAfterMs`: if it is not the poll period. */
interface Verdict {
  readonly outcome: Outcome;
  readonly wrote?: boolean;
  readonly requeueAfterMs?: number;
}

/** Wait for the content of the source, ms. */
const LATER_MS = 1000;

export class VaultTargets implements TargetWriter {
  readonly #options: VaultTargetsOptions;
  readonly #memory = new Map<EntryKey, Memory>();

  constructor(options: VaultTargetsOptions) {
    this.#options = options;
  }

  /** One run of the target loop. @throws VaultError, to be called again */
  async reconcile(target: EntryKey, signal: AbortSignal): Promise<RunResult | undefined> {
    const { locations, random } = this.#options;
    const winner = winnerOf(this.#contestOn(target));
    const location = winner === undefined ? undefined : locations.get(target, winner.claim.owner.key);
    if (winner === undefined || location === undefined) {
      this.#release(target);
      return undefined;
    }
    const memory = this.#follow(target, location.auth);
    memory.credentialChanged = false;
    try {
      const verdict = await this.#write(target, winner, location, memory, signal);
      if (verdict === undefined) return { requeueAfterMs: LATER_MS };
      if (verdict.outcome.state === 'synced') memory.holder = winner.claim.owner.key;
      this.#settle(target, verdict.outcome, verdict.wrote ?? false);
      const pollMs = locations.pollMs(target);
      // Without users the engine requests another run.
      return Number.isFinite(pollMs) ? { requeueAfterMs: pollMs * (0.9 + 0.1 * random()) } : undefined;
    } catch (error) {
      // The watch of the credential starts the next run.
      if (error instanceof NotKnownYetError) return undefined;
      if (signal.aborted || !(isVaultError(error) || error instanceof VaultAuthMissingError)) throw error;
      delete memory.lastWrite;
      const trouble = troubleOf(error, location, 'syncing to');
      if (winner.outcome.state !== 'error' || !isSkippedCall(error)) {
        const why = causeOf(trouble);
        this.#settle(
          target,
          trouble.pending ? { state: 'waiting', for: 'target', ...why } : { state: 'error', ...why },
          false,
        );
      }
      if (memory.credentialChanged) return { requeueAfterMs: 0 };
      if (error instanceof VaultAuthMissingError) return undefined;
      throw error;
    }
  }

  /** @see TargetWriter.flowsInto */
  flowsInto(target: EntryKey): Flows {
    const viewOf = (claim: Claim): SourceView => this.#options.sources.view(claim.source);
    // Without cycles, because these are derived from flows.
    return flowsOf({ ...this.#contestOn(target), viewOf, observed: undefined });
  }

  /** Only for errors of the source: `reconcile` has reported those of Vault. */
  failed(target: EntryKey, error: unknown): void {
    if (isVaultError(error)) return;
    const message = error instanceof Error ? error.message : String(error);
    this.#settle(target, { state: 'error', ...operatorCause('SyncError', message) }, false);
  }

  /** The credential of a target may have changed: a run that failed before may succeed now. */
  retry(target: EntryKey): void {
    const memory = this.#memory.get(target);
    if (memory !== undefined) memory.credentialChanged = true;
  }

  /** The content of a target when it was last written or read. */
  written(target: EntryKey): Readonly<LastWrite> | undefined {
    return this.#memory.get(target)?.lastWrite;
  }

  /**
   * The content of an entry that `rule` writes, if the entry still has the version `entryVersion`. The content itself has no version.
   * @throws VaultError, VaultAuthMissingError
   */
  async readBack(
    target: EntryKey,
    rule: RuleKey,
    entryVersion: string | undefined,
    signal: AbortSignal,
  ): Promise<Content | undefined> {
    const { access, locations } = this.#options;
    const location = locations.get(target, rule);
    if (location === undefined || entryVersion === undefined) return undefined;
    const user = loginKey(rule, `read back ${target}`);
    try {
      const { entries } = await access.open(user, location, signal);
      const entry = await entries.read(location.path, signal);
      if (entry.state !== 'found' || versionOf(entry) !== entryVersion) return undefined;
      return contentFrom(entry.values, location.encoding);
    } catch (error) {
      if (error instanceof NotKnownYetError) {
        const { addr } = location.server;
        throw new VaultError(error.message, { kind: 'unavailable', addr, cause: error });
      }
      if (!isVaultError(error) || error.transient) throw error;
      return undefined;
    } finally {
      access.close(user);
    }
  }

  /** Writes the entry if it differs. @returns `undefined` while the content of the source is not loaded */
  async #write(
    target: EntryKey,
    winner: Entry,
    location: VaultLocation,
    memory: Memory,
    signal: AbortSignal,
  ): Promise<Verdict | undefined> {
    const { access, cycles, locations, now, onWrite, sources } = this.#options;
    const { claim } = winner;
    const { source } = claim;
    const view = cycles.viewsOn(target)(claim) ?? sources.view(source);
    const desired = claim.shape.desiredState(view, undefined, now());
    if (desired.kind !== 'be') return { outcome: outcomeOf(planWithoutWrite(desired)) ?? PENDING };
    if (source === undefined) return { outcome: PENDING };
    const { entries } = await access.open(target, location, signal);
    // Another rule may write the same entry by another path, or make a cycle with it. The claims show it after a new evaluation.
    if (locations.learn(location, await entries.resolve(location.path, signal))) return undefined;
    const { lastWrite } = memory;
    const isSynced = async (digest: string | undefined, version: string): Promise<boolean> => {
      if (lastWrite === undefined || digest !== lastWrite.digest) return false;
      if (!(await isUntouched(await access.open(target, location, signal), location, lastWrite, signal))) return false;
      lastWrite.sourceVersion = version;
      return true;
    };
    const known = sources.fingerprint(source)?.digest;
    if (view.state === 'present' && (await isSynced(known, view.version))) return { outcome: SYNCED };
    const content = await sources.load(source, signal);
    if (content === undefined) return undefined;
    // Another version of the source may have the same content.
    if (content.digest !== known && (await isSynced(content.digest, content.version))) return { outcome: SYNCED };
    if (content.keyCount === 0) {
      const message = 'no data in source secret; nothing is written';
      return { outcome: { state: 'waiting', for: 'content', ...userCause('NoData', message) } };
    }
    let values: VaultValues;
    try {
      values = toVaultValues(content.values(SECRET), location.encoding);
    } catch (error) {
      if (!(error instanceof ValueConversionError)) throw error;
      const message = `Error syncing to vault: ${error.message}`;
      return { outcome: { state: 'error', ...userCause('VaultError', message) } };
    }
    const connection = await access.open(target, location, signal);
    const { encoding } = location;
    const nestedInKv1 = encoding === 'base64';
    const askedAt = now();
    const update = await connection.entries.update(location.path, () => values, signal, { nestedInKv1 });
    const { digest, version: sourceVersion } = content;
    const versions = { entryVersion: versionOf(update), distinctVersion: distinctVersionOf(update, askedAt) };
    memory.lastWrite = { digest, sourceVersion, ...versions, encoding };
    const { written } = update;
    if (written) onWrite(target, connection.session.addr, winner);
    return { outcome: SYNCED, wrote: written };
  }

  #follow(target: EntryKey, auth: VaultAuthRef): Memory {
    const memory = getOrCreate(this.#memory, target, (): Memory => ({}));
    if (JSON.stringify(memory.auth) === JSON.stringify(auth)) return memory;
    this.#options.credentials.follow(target, auth);
    if (memory.auth !== undefined) this.#options.credentials.unfollow(target, memory.auth);
    memory.auth = auth;
    return memory;
  }

  /** No rule claims the entry. It stays unchanged. */
  #release(target: EntryKey): void {
    const memory = this.#memory.get(target);
    this.#memory.delete(target);
    if (memory?.auth !== undefined) this.#options.credentials.unfollow(target, memory.auth);
    this.#options.access.close(target);
  }

  #contestOn(target: EntryKey): Contest {
    const { book, cycles, sources, now } = this.#options;
    const inCycle = cycles.viewsOn(target);
    return {
      entries: book.on(target),
      markedBy: this.#memory.get(target)?.holder,
      viewOf: (claim) => inCycle(claim) ?? sources.view(claim.source),
      now: now(),
    };
  }

  #settle(target: EntryKey, outcome: Outcome, wrote: boolean): void {
    const contest = this.#contestOn(target);
    const winner = winnerOf(contest);
    for (const [entry, own] of outcomesOf({ ...contest, presence: 'present' }, outcome)) {
      const changed = this.#options.book.settle(entry, own);
      const wroteForIt = wrote && entry === winner;
      if (changed || wroteForIt) this.#options.onOutcome(entry, wroteForIt);
    }
  }
}

/** @returns `undefined` if Keyferry cannot have written these values */
function contentFrom(values: VaultValues, encoding: ValueEncoding): Content | undefined {
  try {
    return secretContent(values, encoding, '', '');
  } catch (error) {
    if (!(error instanceof ValueConversionError)) throw error;
    return undefined;
  }
}

/** Whether the entry still has the held version. Always false where that version may not be distinct. */
async function isUntouched(
  { entries }: VaultConnection,
  { path, encoding }: VaultLocation,
  lastWrite: LastWrite,
  signal: AbortSignal,
): Promise<boolean> {
  if (lastWrite.distinctVersion === undefined || lastWrite.encoding !== encoding) return false;
  const { head } = await entries.readVersion(path, signal);
  return head.state === 'found' && versionOf(head) === lastWrite.distinctVersion;
}
