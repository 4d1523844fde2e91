/**
 * Finds the mount of a path: a KV store of version 1 or 2, or another engine (database, pki, …).
 * Vault answers `sys/internal/ui/mounts/<path>` to every token whose policies name the mount (the vault CLI calls it
 * for `vault kv`). Without an answer the path itself decides: a segment `data` after the first segment means version 2.
 * A mount is remembered for ten minutes, or until a call shows that it may have changed. Another one may be made under its
 * name at any time, so a write looks it up again (`isUnchanged`).
 */
import type { Clock } from '../../runtime/clock.ts';
import { SingleFlight } from '../../runtime/queue/single-flight.ts';
import { isVaultError, VaultError } from '../errors.ts';
import { objectMember, stringMember } from '../json.ts';
import { callPath } from '../path.ts';
import type { VaultCaller } from '../session/session.ts';

type MountKind = 'kv1' | 'kv2' | 'other';

interface Mount {
  /** With a slash at the end: `secret/`. */
  readonly path: string;
  readonly kind: MountKind;
  /** Another mount under the same path has another one. `undefined`: Vault did not name the mount. */
  readonly uuid?: string | undefined;
}

/** A path that a user wrote, with its mount and its paths in Vault's API. */
export interface EntryPath {
  readonly mount: Mount;
  /** `true`: Vault named the mount. `false`: the mount was guessed from the path. */
  readonly known: boolean;
  /** Where the values are read and written. */
  readonly dataPath: string;
}

interface Remembered {
  readonly mount: Mount;
  readonly until: number;
}

const REMEMBER_MS = 600_000;

export class Mounts {
  readonly #session: VaultCaller;
  readonly #clock: Clock;
  readonly #mounts = new Map<string, Remembered>();
  readonly #lookups = new SingleFlight<Mount | undefined>();

  constructor(session: VaultCaller, clock: Clock) {
    this.#session = session;
    this.#clock = clock;
  }

  /**
   * @param path as a user writes it: with or without a leading slash, for KV 2 with or without `data/` after the mount
   * @throws VaultError: `invalidPath` for a malformed path, else the error of the lookup
   */
  async resolve(path: string, signal?: AbortSignal): Promise<EntryPath> {
    const entry = await this.#resolve(callPath(path, this.#session.addr), signal);
    if (entry.dataPath.endsWith('/') || entry.dataPath.length < entry.mount.path.length) {
      const reason = `the path ${JSON.stringify(path)} names a mount, not an entry in it`;
      throw new VaultError(reason, { kind: 'invalidPath', addr: this.#session.addr });
    }
    return entry;
  }

  /** Whether Vault still has the mount of a path. Asks Vault. @throws as `resolve` */
  async isUnchanged({ mount, dataPath }: EntryPath, signal?: AbortSignal): Promise<boolean> {
    const now = await this.#lookUp(dataPath, signal);
    return now?.path === mount.path && now.kind === mount.kind && now.uuid === mount.uuid;
  }

  /** Forgets the mount of the path, after a call showed that it may have changed or may be gone. */
  forget(path: EntryPath): void {
    this.#mounts.delete(path.mount.path);
  }

  async #resolve(normal: string, signal: AbortSignal | undefined): Promise<EntryPath> {
    const known = this.#remembered(normal);
    if (known !== undefined) return entryPath(known, normal, true);
    // Paths with the same first segment share a lookup. If it finds another mount, this path gets its own lookup.
    for (const flight of [normal.split('/', 1)[0] ?? normal, normal]) {
      const answer = await this.#lookups.run(flight, (shared) => this.#lookUp(normal, shared), signal);
      const mount = answer ?? this.#remembered(normal);
      if (mount !== undefined && within(mount, normal)) return entryPath(mount, normal, true);
    }
    return entryPath(mountByShape(normal), normal, false);
  }

  #remembered(path: string): Mount | undefined {
    const now = this.#clock.monotonic();
    for (const [key, { mount, until }] of this.#mounts) {
      if (until <= now) this.#mounts.delete(key);
      else if (within(mount, path)) return mount;
    }
    return undefined;
  }

  /** Asks Vault for the mount. `undefined`: Vault does not tell this token. */
  async #lookUp(path: string, signal: AbortSignal | undefined): Promise<Mount | undefined> {
    const request = { method: 'GET', path: `sys/internal/ui/mounts/${path}`, signal } as const;
    try {
      const { data } = await this.#session.request(request);
      const mounted = stringMember(data, 'path');
      if (mounted === undefined) throw this.#noMount(request.path);
      const kind = kindOf(stringMember(data, 'type'), stringMember(objectMember(data, 'options'), 'version'));
      const slash = mounted.endsWith('/') ? '' : '/';
      const mount: Mount = { path: mounted + slash, kind, uuid: stringMember(data, 'uuid') };
      // If the path begins with an Enterprise namespace, Vault names the mount without that namespace: not usable here.
      if (!within(mount, path)) return undefined;
      this.#mounts.set(mount.path, { mount, until: this.#clock.monotonic() + REMEMBER_MS });
      return mount;
    } catch (error) {
      if (isVaultError(error, 'permissionDenied', 'notFound', 'invalidPath', 'badRequest')) return undefined;
      throw error;
    }
  }

  /** A guess could take any JSON of a server that is not Vault for an entry. */
  #noMount(path: string): VaultError {
    const reason = 'the response names no mount; check that addr is the address of Vault';
    return new VaultError(reason, { kind: 'badResponse', addr: this.#session.addr, method: 'GET', path });
  }
}

function within(mount: Mount, path: string): boolean {
  return `${path}/`.startsWith(mount.path);
}

function kindOf(type: string | undefined, version: string | undefined): MountKind {
  if (type === 'kv') return version === '2' ? 'kv2' : 'kv1';
  // `generic` is the old name of KV 1, and `cubbyhole` is the store of a single token.
  return type === 'generic' || type === 'cubbyhole' ? 'kv1' : 'other';
}

function mountByShape(path: string): Mount {
  const segments = path.split('/');
  const data = segments.indexOf('data', 1);
  if (data < 0 || data === segments.length - 1) return { path: `${segments[0] ?? ''}/`, kind: 'kv1' };
  return { path: `${segments.slice(0, data).join('/')}/`, kind: 'kv2' };
}

/** The same path, on the assumption that its mount is KV 2. */
export function asVersioned(path: EntryPath): EntryPath {
  return entryPath({ path: path.mount.path, kind: 'kv2' }, path.dataPath, false);
}

/** The same path, on the assumption that its mount is KV 1. */
export function asPlain(path: EntryPath): EntryPath {
  return entryPath({ path: path.mount.path, kind: 'kv1' }, path.dataPath, false);
}

function entryPath(mount: Mount, path: string, known: boolean): EntryPath {
  if (mount.kind !== 'kv2') return { mount, known, dataPath: path };
  const entry = path.slice(mount.path.length);
  // The API writes the entry `app` as `data/app`. So users write an entry named `data` as `data` or `data/data`.
  const name = entry.startsWith('data/') ? entry.slice('data/'.length) : entry;
  return { mount, known, dataPath: `${mount.path}data/${name}` };
}
