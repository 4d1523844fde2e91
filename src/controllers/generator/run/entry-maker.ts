/** Makes the values that one entry of Vault lacks, in one version. */
import { KeyedLock } from '../../../runtime/queue/keyed-lock.ts';
import type { KvEntry } from '../../../vault/kv/answers.ts';
import type { VaultEntries } from '../../../vault/kv/entries.ts';
import type { EntryPath } from '../../../vault/kv/mounts.ts';
import { VaultValues } from '../../../vault/kv/values.ts';
import { decideEntry, type EntryDecision } from './decision.ts';
import { encodedFor, generateValue, type Settings } from '../request/format.ts';
import type { Problem, WantedValue } from '../request/requests.ts';

/** All values that one ExternalSecret reads from one entry. */
export interface WantedEntry {
  /** As in Vault's API. @see entryPathOf */
  readonly path: string;
  /** The KV version that the store names. `undefined`: there is no store, and Vault decides, as for `vault kv put`. */
  readonly version: 'v1' | 'v2' | undefined;
  readonly values: readonly WantedValue[];
}

export interface EntryOutcome {
  readonly decision: EntryDecision;
  /** Of the entry now; `undefined` where the engine has no versions. */
  readonly version: number | undefined;
  /** Of the version, RFC 3339. */
  readonly createdTime: string | undefined;
  /** There was an entry before. */
  readonly existed: boolean;
  /** Values were written. */
  readonly made: boolean;
}

export interface MakeOptions {
  readonly settings: Settings;
  /** Of the entry in its server, for the lock. */
  readonly key: string;
  /** Who else writes the entry. @param paths all spellings of its path */
  readonly writerOf: (paths: readonly string[]) => string | undefined;
  /** Only looks: `decision.make` has the values that are missing. */
  readonly dryRun: boolean;
  readonly signal: AbortSignal;
}

export class EntryMaker {
  /** KV 1 has no versions, so two writers of this process would not notice each other. */
  readonly #writers = new KeyedLock();

  /**
   * Reads the entry, and writes what it lacks. The write names the version that was read, so of several writers one succeeds, and the others
   * read again.
   * @throws VaultError: nothing is known, and nothing was written, unless the answer to the write was lost
   */
  async make(entries: VaultEntries, entry: WantedEntry, options: MakeOptions): Promise<EntryOutcome> {
    const { key, writerOf, signal } = options;
    const resolved = await entries.resolve(entry.path, signal);
    const problem = placeProblem(resolved, entry);
    if (problem !== undefined) return refused(entry, { reason: 'ErrorCreating', message: problem });
    const writer = writerOf(spellingsOf(resolved, entry.path));
    if (writer !== undefined) return refused(entry, { reason: 'Conflict', message: `${writer} writes this entry` });
    return await this.#writers.run(key, async () => await update(entries, entry, options), signal);
  }
}

function refused({ values }: WantedEntry, why: Pick<Problem, 'reason' | 'message'>): EntryOutcome {
  const problems = values.map(({ field }): Problem => ({ ...why, field, fault: 'user' }));
  const decision: EntryDecision = { make: [], nested: [], problems };
  return { decision, version: undefined, createdTime: undefined, existed: false, made: false };
}

/** The paths by which rules may name an entry: in KV 2 with `data/` after the mount, or without it. */
function spellingsOf({ mount, dataPath }: EntryPath, path: string): readonly string[] {
  const inData = `${mount.path}data/`;
  const short = mount.kind === 'kv2' && dataPath.startsWith(inData) ? mount.path + dataPath.slice(inData.length) : path;
  return [...new Set([path, dataPath, short])];
}

async function update(
  entries: VaultEntries,
  { path, values }: WantedEntry,
  { settings, dryRun, signal }: MakeOptions,
): Promise<EntryOutcome> {
  let decision: EntryDecision = { make: [], nested: [], problems: [] };
  let existed = false;
  const { version, createdTime, written } = await entries.update(
    path,
    (current) => {
      decision = decideEntry(current, values, settings);
      existed = current.state === 'found';
      if (decision.make.length === 0 || dryRun) return undefined;
      return withNewValues(current, decision.make, settings);
    },
    signal,
  );
  return { decision, version, createdTime, existed, made: written };
}

/** Values of other properties keep every digit. */
function withNewValues(current: KvEntry, make: readonly WantedValue[], settings: Settings): VaultValues {
  const present = current.state === 'found' ? current.values.entries() : [];
  const made = make.map(({ property, decoding }): [string, string] => [
    property,
    encodedFor(decoding, generateValue(settings)),
  ]);
  return new VaultValues([...present, ...made]);
}

/** Why nothing may be written here, although ESO reads here. */
function placeProblem({ known, mount, dataPath }: EntryPath, { path, version }: WantedEntry): string | undefined {
  if (!known) {
    return `Vault does not say what is mounted at ${JSON.stringify(path)}: no KV store is, or the policies of the login do not name the path`;
  }
  if (mount.kind === 'other') return `${mount.path} is not a KV store`;
  if (version === undefined) return undefined;
  const kind = version === 'v1' ? 'kv1' : 'kv2';
  if (mount.kind === kind && dataPath === path) return undefined;
  if (mount.kind === kind) {
    const below = JSON.stringify(kind === 'kv2' ? `${mount.path}data/` : mount.path);
    return `the store reads ${JSON.stringify(path)}, and the entries of this KV store are below ${below}`;
  }
  return `${mount.path} is a KV store of version ${mount.kind === 'kv1' ? 1 : 2}, and the store says version ${version}`;
}
