/**
 * Reads kubeconfig files, and merges several of them by kubectl's rules. If several files have a cluster, user or
 * context of the same name, the first file's whole entry counts. The first `current-context` that is not empty counts.
 * Paths are relative to the file that contains them. Errors name file and field, but never quote a secret.
 */
import { readFile } from 'node:fs/promises';
import { dirname, isAbsolute, join } from 'node:path';
import type { Clock } from '../../runtime/clock.ts';
import { FileValue } from './credentials.ts';

import { getOrCreate } from '../../runtime/maps.ts';
import { codeOf } from '../errors.ts';

/** Something in a kubeconfig is wrong or missing. */
export class KubeconfigError extends Error {
  override readonly name = 'KubeconfigError';

  /** @param where file and field, for example `/home/x/.kube/config: users[name=x].user.token` */
  constructor(where: string, why: string, options?: ErrorOptions) {
    super(`${where}: ${why}`, options);
  }
}

/** A mapping (YAML object) in a kubeconfig, and where it stands. As in kubectl, `null` and `''` count as not set. */
export class Mapping {
  readonly file: string;
  /** Path of the mapping in the file: `users[name=x].user`; empty for the top of the file. */
  readonly path: string;
  readonly #values: Readonly<Record<string, unknown>>;

  /** @throws KubeconfigError if the value is not a mapping; `null` and `undefined` count as an empty mapping */
  constructor(file: string, path: string, value: unknown) {
    this.file = file;
    this.path = path;
    if (value !== undefined && value !== null && (typeof value !== 'object' || Array.isArray(value))) {
      throw this.error('', `must be a mapping, is ${kindOf(value)}`);
    }
    this.#values = (value ?? {}) as Readonly<Record<string, unknown>>;
  }

  has(name: string): boolean {
    const value = this.#values[name];
    return value !== undefined && value !== null && value !== '';
  }

  string(name: string): string | undefined {
    if (!this.has(name)) return undefined;
    const value = this.#values[name];
    if (typeof value !== 'string') throw this.error(name, `must be a string, is ${kindOf(value)}`);
    return value;
  }

  required(name: string): string {
    const value = this.string(name);
    if (value === undefined) throw this.error(name, 'is missing');
    return value;
  }

  boolean(name: string): boolean {
    if (!this.has(name)) return false;
    const value = this.#values[name];
    if (typeof value !== 'boolean') throw this.error(name, `must be true or false, is ${kindOf(value)}`);
    return value;
  }

  /** The bytes in a base64 field, for example `client-key-data`; `undefined`: not set. */
  base64(name: string): Buffer | undefined {
    const text = this.string(name)?.replace(/\s+/gu, '');
    if (text === undefined) return undefined;
    if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]+={0,2}$/u.test(text)) throw this.error(name, 'is not base64');
    return Buffer.from(text, 'base64');
  }

  /** Resolves a path that stands in the kubeconfig and is relative to the kubeconfig's folder. */
  resolve(path: string): string {
    return isAbsolute(path) ? path : join(dirname(this.file), path);
  }

  /** The content of the file whose path is in the field; `undefined`: the field is not set. */
  fileValue(name: string, clock: Clock): FileValue | undefined {
    const path = this.string(name);
    return path === undefined ? undefined : new FileValue(this.resolve(path), `${this.file}: ${this.at(name)}`, clock);
  }

  /** The bytes in the field `name-data` (base64), or else the content of the file whose path is in the field `name`. */
  bytesOrFile(name: string, clock: Clock): Buffer | FileValue | undefined {
    return this.base64(`${name}-data`) ?? this.fileValue(name, clock);
  }

  strings(name: string): string[] {
    return this.list(name).map((value, index) => {
      if (typeof value !== 'string') throw this.error(`${name}[${index}]`, `must be a string, is ${kindOf(value)}`);
      return value;
    });
  }

  list(name: string): readonly unknown[] {
    const value = this.#values[name];
    if (value === undefined || value === null) return [];
    if (!Array.isArray(value)) throw this.error(name, `must be a list, is ${kindOf(value)}`);
    return value;
  }

  fields(name: string): Mapping {
    return new Mapping(this.file, this.at(name), this.#values[name]);
  }

  raw(name: string): unknown {
    return this.#values[name];
  }

  at(name: string): string {
    if (name === '') return this.path;
    return this.path === '' ? name : `${this.path}.${name}`;
  }

  error(name: string, why: string): KubeconfigError {
    const at = this.at(name);
    return new KubeconfigError(at === '' ? this.file : `${this.file}: ${at}`, why);
  }
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a mapping';
  return `a ${typeof value}`;
}

export interface Kubeconfig {
  readonly files: readonly string[];
  readonly currentContext: string | undefined;
  readonly clusters: ReadonlyMap<string, Mapping>;
  readonly users: ReadonlyMap<string, Mapping>;
  readonly contexts: ReadonlyMap<string, Mapping>;
}

/**
 * @param optional `true`: files that do not exist are left out, as in `$KUBECONFIG`
 * @throws KubeconfigError that names the file, and the field if a field is wrong
 */
export async function readKubeconfigs(paths: readonly string[], optional: boolean): Promise<Kubeconfig> {
  const parsed: Kubeconfig[] = [];
  for (const path of paths) {
    try {
      parsed.push(await parseKubeconfig(await readKubeconfig(path, path), path));
    } catch (error) {
      if (!optional || !(error instanceof KubeconfigError) || codeOf(error.cause) !== 'ENOENT') throw error;
    }
  }
  return merged(parsed);
}

/** @throws KubeconfigError that begins with `where` */
export async function readKubeconfig(path: string, where: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (error) {
    const code = codeOf(error) ?? String(error);
    throw new KubeconfigError(where, code === 'ENOENT' ? 'does not exist' : `cannot be read: ${code}`, {
      cause: error,
    });
  }
}

/**
 * @param file where the content was read from, for messages and relative paths
 * @throws KubeconfigError
 */
export async function parseKubeconfig(content: Buffer, file: string): Promise<Kubeconfig> {
  // Loaded only here, because a Pod has no kubeconfig and needs no parser.
  const { LineCounter, parseDocument } = await import('yaml');
  const lineCounter = new LineCounter();
  // With `prettyErrors`, an error would quote the lines around a mistake, and with them perhaps a token.
  const document = parseDocument(content.toString('utf8'), { prettyErrors: false, lineCounter });
  const [mistake] = document.errors;
  if (mistake !== undefined) {
    const { line, col } = lineCounter.linePos(mistake.pos[0]);
    throw new KubeconfigError(file, `is not YAML: ${mistake.code} in line ${line}, column ${col}`);
  }
  let value: unknown;
  try {
    value = document.toJS();
  } catch {
    // The parser's error is dropped: it quotes the alias, and a token without quotes that begins with `*` is an alias.
    throw new KubeconfigError(file, 'is not YAML: it has an alias without an anchor, or too many aliases');
  }
  const top = new Mapping(file, '', value);
  const kind = top.string('kind');
  if (kind !== undefined && kind !== 'Config') throw top.error('kind', `must be "Config", is ${JSON.stringify(kind)}`);
  return {
    files: [file],
    currentContext: top.string('current-context'),
    clusters: entries(top, 'clusters', 'cluster'),
    users: entries(top, 'users', 'user'),
    contexts: entries(top, 'contexts', 'context'),
  };
}

function merged(configs: readonly Kubeconfig[]): Kubeconfig {
  const firstOf = (part: 'clusters' | 'users' | 'contexts'): ReadonlyMap<string, Mapping> => {
    const all = new Map<string, Mapping>();
    for (const config of configs) for (const [name, entry] of config[part]) getOrCreate(all, name, () => entry);
    return all;
  };
  return {
    files: configs.flatMap((config) => config.files),
    currentContext: configs.find((config) => config.currentContext !== undefined)?.currentContext,
    clusters: firstOf('clusters'),
    users: firstOf('users'),
    contexts: firstOf('contexts'),
  };
}

/** Turns the list `clusters: [{name, cluster: {…}}]` into a map by name. */
function entries(top: Mapping, list: string, inner: string): Map<string, Mapping> {
  const found = new Map<string, Mapping>();
  for (const [index, value] of top.list(list).entries()) {
    const name = new Mapping(top.file, `${list}[${index}]`, value).required('name');
    const entry = new Mapping(top.file, `${list}[name=${name}]`, value);
    if (found.has(name)) throw entry.error('', `the name ${JSON.stringify(name)} is used twice in ${list}`);
    found.set(name, entry.fields(inner));
  }
  return found;
}
