/** Decides which values an entry in Vault lacks, and writes all of them as one new version of the entry. */
import type { KeyedLock } from '../../../runtime/queue/keyed-lock.ts';
import { isJsonObject, type JsonValue } from '../../../vault/json.ts';
import type { KvEntry } from '../../../vault/kv/answers.ts';
import type { VaultEntries } from '../../../vault/kv/entries.ts';
import type { EntryPath } from '../../../vault/kv/mounts.ts';
import { VaultValues } from '../../../vault/kv/values.ts';
import { type Problem, type ProblemReason, userProblem, type WantedValue } from '../request/requests.ts';
import { encodedFor, generateValue, type Settings } from '../request/settings.ts';

/** All values that one ExternalSecret reads from one entry. */
export interface WantedEntry {
  /** Path in Vault's API. @see entryPathOf */
  readonly path: string;
  /** The KV version in the store; `undefined`: no store, so Vault tells the version, as for `vault kv put`. */
  readonly version: 'v1' | 'v2' | undefined;
  readonly values: readonly WantedValue[];
}

export interface EntryDecision {
  /** The values to make. Each property occurs once. */
  readonly make: readonly WantedValue[];
  /** Values that ESO finds inside another property. The generator does not make them. */
  readonly nested: readonly WantedValue[];
  readonly problems: readonly Problem[];
}

export interface EntryOutcome extends EntryDecision {
  /** Path in Vault's API. */
  readonly path: string;
  /** Present version of the entry; `undefined`: KV 1, which has no versions. */
  readonly version: number | undefined;
  /** Creation time of `version`, RFC 3339. */
  readonly createdTime: string | undefined;
  /** Whether the entry existed before the run. */
  readonly existed: boolean;
  /** Whether this run wrote values. */
  readonly made: boolean;
}

export interface MakeOptions {
  readonly settings: Settings;
  /** Finds a rule that also writes the entry; `undefined`: none. @param paths all spellings of the entry's path */
  readonly writerOf: (paths: readonly string[]) => string | undefined;
  /** Locks an entry by `key` (server and entry). Without the lock, two runs could overwrite each other in KV 1. */
  readonly writers: KeyedLock;
  readonly key: string;
  readonly signal: AbortSignal;
}

/**
 * Reads the entry, and writes the values that the entry lacks. The write names the version that was read. So if several
 * clients write at the same time, one succeeds and the others read again.
 * @throws VaultError: nothing was written, or the response to the write was lost
 */
export async function makeValues(
  entries: VaultEntries,
  entry: WantedEntry,
  options: MakeOptions,
): Promise<EntryOutcome> {
  const { writerOf, writers, key, signal } = options;
  const { path, values } = entry;
  const refuse = (reason: ProblemReason, message: string): EntryOutcome => {
    const unread = { path, version: undefined, createdTime: undefined, existed: false, made: false };
    return { ...refused(values, reason, message), ...unread };
  };
  const resolved = await entries.resolve(path, signal);
  const problem = placeProblem(resolved, entry);
  if (problem !== undefined) return refuse('ErrorCreating', problem);
  const writer = writerOf(spellingsOf(resolved, path));
  if (writer !== undefined) return refuse('Conflict', `${writer} writes this entry`);
  return await writers.run(key, async () => await update(entries, entry, options), signal);
}

/** A decision that refuses all values for the same reason. */
function refused(values: readonly WantedValue[], reason: ProblemReason, message: string): EntryDecision {
  return { make: [], nested: [], problems: values.map(({ field }) => userProblem(reason, field, message)) };
}

/** All paths that a rule may use for an entry. In KV 2, rules may leave out `data/` after the mount. */
function spellingsOf({ mount, dataPath }: EntryPath, path: string): readonly string[] {
  const inData = `${mount.path}data/`;
  const short = mount.kind === 'kv2' && dataPath.startsWith(inData) ? mount.path + dataPath.slice(inData.length) : path;
  return [...new Set([path, dataPath, short])];
}

async function update(
  entries: VaultEntries,
  { path, values }: WantedEntry,
  { settings, signal }: MakeOptions,
): Promise<EntryOutcome> {
  let decision: EntryDecision = { make: [], nested: [], problems: [] };
  let existed = false;
  const { version, createdTime, written } = await entries.update(
    path,
    (current) => {
      decision = decideEntry(current, values, settings);
      existed = current.state === 'found';
      if (decision.make.length === 0) return undefined;
      return withNewValues(current, decision.make, settings);
    },
    signal,
  );
  return { ...decision, path, version, createdTime, existed, made: written };
}

/** The entry together with new values. `VaultValues` keeps all digits of the numbers in other properties. */
function withNewValues(current: KvEntry, make: readonly WantedValue[], settings: Settings): VaultValues {
  const present = current.state === 'found' ? current.values.entries() : [];
  const made = make.map(({ property, decoding }): [string, string] => [
    property,
    encodedFor(decoding, generateValue(settings)),
  ]);
  return new VaultValues([...present, ...made]);
}

/** Why the generator must not write at a path, although ESO reads there; `undefined`: it may write. */
function placeProblem({ known, mount, dataPath }: EntryPath, { path, version }: WantedEntry): string | undefined {
  if (!known) {
    return `Vault does not say what is mounted at ${JSON.stringify(path)}: there is no KV store, or the policies of the login do not name the path`;
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

/** Decides which values of an entry to make. @param wanted all values that the ExternalSecret reads from the entry */
export function decideEntry(
  entry: KvEntry,
  wanted: readonly WantedValue[],
  { whenDeleted }: Pick<Settings, 'whenDeleted'>,
): EntryDecision {
  if ((entry.state === 'deleted' || entry.state === 'destroyed') && !whenDeleted) {
    const message =
      `the latest version in Vault is ${entry.state}; ` +
      'with the annotation keyferry.dev/generate-when-deleted: "true", new values are made';
    return refused(wanted, 'Deleted', message);
  }
  const values = entry.state === 'found' ? entry.values : undefined;
  const make = new Map<string, WantedValue>();
  const nested: WantedValue[] = [];
  const problems: Problem[] = [];
  for (const value of wanted) {
    const { field, property, decoding } = value;
    const same = make.get(property);
    switch (findProperty(values, property)) {
      case 'unknown': {
        const message = 'no value is made for a gjson expression, which reads inside other values';
        problems.push(userProblem('NotMade', `${field}.remoteRef.property`, message));
        break;
      }
      case 'nested':
        nested.push(value);
        break;
      case 'absent':
        if (same === undefined) make.set(property, value);
        else if (same.decoding !== decoding) {
          const message = `${same.field} reads the same property with another strategy`;
          problems.push(userProblem('NotMade', `${field}.remoteRef.decodingStrategy`, message));
        }
        break;
      case 'present':
    }
  }
  // If one value has a problem, none is written. Otherwise readers of the entry would see only some of its values.
  return { make: problems.length > 0 ? [] : [...make.values()], nested, problems };
}

/** `nested`: ESO finds the property inside another property. `unknown`: a gjson expression, not evaluated here. */
export type PropertyState = 'present' | 'absent' | 'nested' | 'unknown';

/** Characters of gjson's syntax: queries, modifiers, wildcards, multipaths, literals and escapes. */
const GJSON_SIGNS = /[*?|#@!{}[\]()\\"]/;

/**
 * Finds a property as ESO does: first by its exact key, then as a gjson path (github.com/tidwall/gjson) in the JSON of
 * the entry. Only plain paths such as `a.b.0` are evaluated.
 * @param values `undefined`: the entry does not exist
 */
export function findProperty(values: VaultValues | undefined, property: string): PropertyState {
  if (values?.get(property) !== undefined) return 'present';
  if (GJSON_SIGNS.test(property) || property.startsWith('.') || property.endsWith('.')) return 'unknown';
  if (values === undefined || !property.includes('.')) return 'absent';
  const [first = '', ...rest] = property.split('.');
  let found: JsonValue | undefined = values.get(first);
  for (const part of rest) found = memberOf(found, part);
  return found === undefined ? 'absent' : 'nested';
}

function memberOf(value: JsonValue | undefined, part: string): JsonValue | undefined {
  if (Array.isArray(value)) return /^\d{1,9}$/.test(part) ? (value as readonly JsonValue[])[Number(part)] : undefined;
  return isJsonObject(value) && Object.hasOwn(value, part) ? value[part] : undefined;
}
