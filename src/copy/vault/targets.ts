/**
 * Reconciles entries in Vault as targets: compares an entry with its source, and writes one version if they differ.
 *
 * `decide` plans an entry like any other target (`planUnmarked`). An entry has no mark. Instead, its *holder* is the
 * rule whose content it had when Keyferry last wrote or read the entry. After a restart the holder is not known.
 *
 * The memory has the fingerprint of the last write or read (`lastWrite`). Each poll reads the entry and compares it with
 * the fingerprint. So the content of the source is read only if one of the two has changed, or without `lastWrite`.
 */
import { getOrCreate } from '../../runtime/maps.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue.ts';
import { isVaultError, VaultError } from '../../vault/errors.ts';
import { toVaultValues, ValueConversionError } from '../../vault/kv/values.ts';
import { because, causeOf, userCause } from '../model/cause.ts';
import type { Outcome } from '../model/claim.ts';
import type { Entry } from '../book/claim-book.ts';
import { winnerOf, outcomeOf, outcomesOf } from '../plan/contest.ts';
import { contestOf, decide, type FactSource, factsOf, plannedContent, type TargetReader } from '../plan/decide.ts';
import type { Contest, Facts } from '../plan/facts.ts';
import { Content, type Fingerprint } from '../model/content.ts';
import type { EntryKey, RuleKey } from '../model/keys.ts';
import { SECRET } from '../model/kind.ts';
import type { TargetWriter } from '../engine/backend.ts';
import type { Sources } from '../engine/backends.ts';
import { isSkippedCall, troubleOf, type VaultAccess } from './access/access.ts';
import { VaultAuthMissingError } from './access/login-tokens.ts';
import { contentOf, valuesOf, versionOf } from './poll/entry-view.ts';
import { NotKnownYetError } from './access/credentials.ts';
import type { VaultLocations, VaultLocation } from './locations.ts';

export interface VaultTargetsOptions extends Pick<FactSource, 'claims' | 'cycles' | 'now'> {
  readonly sources: Sources;
  readonly locations: VaultLocations;
  readonly access: VaultAccess;
  /** Called when the outcome of a claim has changed, or its target was written. */
  readonly onOutcome: (entry: Entry, wrote: boolean) => void;
  /** Called when a version of an entry was written. `addr`: the address of the Vault server. */
  readonly onWrite: (target: EntryKey, addr: string, entry: Entry) => void;
}

/** The content of a target when it was last written or read. */
interface LastWrite {
  readonly fingerprint: Fingerprint;
  /** The version of the source that had this content. */
  sourceVersion: string;
  /** The version of the entry. @see versionOf */
  entryVersion: string | undefined;
}

interface EntryMemory {
  lastWrite?: LastWrite;
  /** The rule whose content the entry had when it was last written or read. */
  holder?: RuleKey;
}

/** One run of the target loop for an entry. */
interface EntryRun {
  readonly target: EntryKey;
  readonly location: VaultLocation;
  readonly memory: EntryMemory;
  readonly signal: AbortSignal;
}

/** Wait before the next run if the content of the source is not loaded, ms. */
const LATER_MS = 1000;

export class VaultTargets implements TargetWriter {
  readonly #options: VaultTargetsOptions;
  readonly #facts: FactSource;
  readonly #memory = new Map<EntryKey, EntryMemory>();

  constructor(options: VaultTargetsOptions) {
    this.#options = options;
    // The plan needs `hasNamespace` and `orphanActionOf` only for objects of a cluster, which carry marks.
    this.#facts = { ...options, hasNamespace: () => true, orphanActionOf: () => Promise.resolve('keep') };
  }

  /** One run of the target loop. @throws VaultError if a later run may succeed */
  async reconcile(target: EntryKey, signal: AbortSignal): Promise<RunResult | undefined> {
    const { access, locations } = this.#options;
    const winner = winnerOf(this.#known(target));
    const location = winner === undefined ? undefined : locations.get(target, winner.claim.owner.key);
    if (winner === undefined || location === undefined) {
      // No rule claims the entry, so it stays unchanged.
      this.#memory.delete(target);
      access.close(target);
      return undefined;
    }
    access.follow(target, location);
    const memory = getOrCreate(this.#memory, target, (): EntryMemory => ({}));
    const run: EntryRun = { target, location, memory, signal };
    try {
      const reader = readerOf(memory, () => this.#isUnchanged(run));
      const { facts, plan } = await decide(target, this.#facts, reader, signal);
      if (plan.do === 'later' || winnerOf(facts) !== winner) return { requeueAfterMs: LATER_MS };
      const wrote = plan.do === 'update' ? await this.#write(run, winner, facts) : false;
      if (wrote === undefined) return { requeueAfterMs: LATER_MS };
      const outcome = plan.do === 'update' ? undefined : outcomeOf(plan);
      if (outcome === undefined) memory.holder = winner.claim.owner.key;
      const view = facts.viewOf(winner.claim);
      // The source may have a new version with the same content. Then only its version is stored.
      if (plan.do === 'nothing' && memory.lastWrite !== undefined && view.state === 'present')
        memory.lastWrite.sourceVersion = view.version;
      this.#settle(target, outcome, wrote);
      return { requeueAfterMs: locations.nextPollMs(target) };
    } catch (error) {
      // The next run starts when the watch brings the Secret with the credential.
      if (error instanceof NotKnownYetError) return undefined;
      if (error instanceof ValueConversionError) {
        const message = `Error syncing to vault: ${error.message}`;
        this.#settle(target, { state: 'error', ...userCause('VaultError', message) });
        return { requeueAfterMs: locations.nextPollMs(target) };
      }
      if (signal.aborted || !(isVaultError(error) || error instanceof VaultAuthMissingError)) throw error;
      delete memory.lastWrite;
      const trouble = troubleOf(error, location, 'syncing to');
      if (winner.outcome.state !== 'error' || !isSkippedCall(error)) {
        const why = causeOf(trouble);
        this.#settle(
          target,
          trouble.pending ? { state: 'waiting', for: 'target', ...why } : { state: 'error', ...why },
        );
      }
      if (error instanceof VaultAuthMissingError) return undefined;
      throw error;
    }
  }

  /** @see TargetWriter.contestOf */
  contestOf(target: EntryKey): Contest {
    return contestOf(target, this.#facts, readerOf(this.#memory.get(target)));
  }

  /** Called when the runs of a target fail. Reports the error, except one of Vault, which `reconcile` has reported. */
  failed(target: EntryKey, error: unknown): void {
    if (isVaultError(error)) return;
    const message = error instanceof Error ? error.message : String(error);
    this.#settle(target, { state: 'error', ...because('SyncError', message) });
  }

  /** The content of a target when it was last written or read. */
  written(target: EntryKey): Readonly<LastWrite> | undefined {
    return this.#memory.get(target)?.lastWrite;
  }

  /**
   * Reads dynamic credentials back from the entry that `rule` writes, if the entry still has version `entryVersion`.
   * If a SecretMirror writes such credentials only to Vault, this entry is their only copy. Without this read, each
   * start of Keyferry would request new credentials, and revoke the credentials that applications still use.
   * @returns the content without a version; `undefined`: the credentials cannot be read back
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
    try {
      const entry = await access.once(location, signal, ({ entries }) => entries.readKv(location.path, signal));
      if (entry.state !== 'found' || versionOf(entry) !== entryVersion) return undefined;
      // Keyferry never writes values that it cannot convert back, so another client has written the entry.
      const content = contentOf(entry, location, '');
      return content instanceof Content ? content : undefined;
    } catch (error) {
      if (error instanceof NotKnownYetError) {
        const { addr } = location.server;
        throw new VaultError(error.message, { kind: 'unavailable', addr, cause: error });
      }
      if (!isVaultError(error) || error.transient) throw error;
      return undefined;
    }
  }

  /** Whether the entry has the content of the last write or read, as Keyferry writes it: all values are text. */
  async #isUnchanged({ target, location, memory, signal }: EntryRun): Promise<boolean> {
    const { entries } = await this.#options.access.open(target, location, signal);
    const { lastWrite } = memory;
    if (lastWrite === undefined) return false;
    const entry = await entries.readKv(location.path, signal);
    if (entry.state !== 'found') return false;
    for (const [, value] of valuesOf(entry, location.encoding).entries()) if (typeof value !== 'string') return false;
    const content = contentOf(entry, location, '');
    const isSame = content instanceof Content && content.fingerprint.digest === lastWrite.fingerprint.digest;
    if (isSame) lastWrite.entryVersion = versionOf(entry);
    return isSame;
  }

  /**
   * Writes the entry if its content differs from the source.
   * @returns whether a version was written; `undefined`: there is no content for the plan. @see plannedContent
   */
  async #write(
    { target, location, memory, signal }: EntryRun,
    winner: Entry,
    facts: Facts,
  ): Promise<boolean | undefined> {
    const { access, onWrite, sources } = this.#options;
    const content = await plannedContent(facts, winner.claim, sources, signal);
    if (content === 'gone' || content === 'changed') return undefined;
    const connection = await access.open(target, location, signal);
    const { encoding, path } = location;
    const values = toVaultValues(content.values(SECRET), encoding);
    const nestedInKv1 = encoding === 'base64';
    const update = await connection.entries.update(path, () => values, signal, { nestedInKv1 });
    const { fingerprint, version } = content;
    memory.lastWrite = { fingerprint, sourceVersion: version, entryVersion: versionOf(update) };
    if (update.written) onWrite(target, connection.session.addr, winner);
    return update.written;
  }

  /** The facts about a target that are known without a request. */
  #known(target: EntryKey): Facts {
    return factsOf(target, this.#facts, readerOf(this.#memory.get(target)));
  }

  #settle(target: EntryKey, outcome: Outcome | undefined, wrote = false): void {
    const facts = this.#known(target);
    const winner = winnerOf(facts);
    for (const [entry, own] of outcomesOf(facts, outcome)) {
      const changed = this.#options.claims.book.settle(entry, own);
      const wroteForIt = wrote && entry === winner;
      if (changed || wroteForIt) this.#options.onOutcome(entry, wroteForIt);
    }
  }
}

/**
 * Reads the state of an entry from the memory, and calls `look` if the plan needs the state in Vault.
 * @param look tells whether Vault still has the content of the last write or read
 */
function readerOf({ holder, lastWrite }: EntryMemory = {}, look?: () => Promise<boolean>): TargetReader {
  let isRead = false;
  let held = lastWrite && { version: lastWrite.entryVersion ?? '', fingerprint: lastWrite.fingerprint };
  return {
    state: () => ({
      presence: isRead ? 'present' : 'unknown',
      observed: undefined,
      unmarked: { holder },
      goingAway: false,
      held,
      cannotUpdate: false,
    }),
    read: async () => {
      if ((await look?.()) !== true) held = undefined;
      isRead = look !== undefined;
      return isRead;
    },
  };
}
