/**
 * Reads manifests from files and folders as `kubectl apply -f` does: YAML or JSON, several documents in a file, lists.
 * The API server checks the rest. Errors name file, document and field, and never quote a value.
 */
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { parseAllDocuments, type Tags } from 'yaml';
import type { ObjectMeta } from '../../kube/api.ts';

const EXTENSIONS: ReadonlySet<string> = new Set(['.json', '.yaml', '.yml']);

/**
 * @param paths files and folders; `-` is standard input, which `stdin` reads
 * @param recursive whether to read subfolders
 * @throws ManifestError
 */
export async function readManifests(
  paths: readonly string[],
  recursive: boolean,
  stdin: () => Promise<string>,
): Promise<Manifest[]> {
  const manifests: Manifest[] = [];
  for (const name of paths) {
    if (name === '-') {
      const found = parseManifests(await stdin(), 'standard input');
      // In `kustomize build | keyferry plan -`, empty input usually means that the first command has failed.
      if (found.length === 0) throw new ManifestError('standard input: contains no manifest');
      manifests.push(...found);
      continue;
    }
    for (const file of await filesOf(name, recursive)) {
      const text = await orManifestError(file, async () => await readFile(file, 'utf8'));
      manifests.push(...parseManifests(text, file));
    }
  }
  return manifests;
}

async function filesOf(name: string, recursive: boolean): Promise<string[]> {
  const { isFolder } = await orManifestError(name, async () => ({ isFolder: (await stat(name)).isDirectory() }));
  if (!isFolder) return [name];
  const entries = await orManifestError(name, async () => await readdir(name, { recursive }));
  const files = entries.filter((entry) => EXTENSIONS.has(path.extname(entry))).map((entry) => path.join(name, entry));
  if (files.length > 0) return files.toSorted();
  const hint = recursive ? '' : '; --recursive reads its subfolders';
  throw new ManifestError(`${name}: contains no .json, .yaml or .yml file${hint}`);
}

async function orManifestError<T>(file: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error';
    const problem = code === 'ENOENT' ? 'does not exist' : `cannot be read: ${code}`;
    throw new ManifestError(`${file}: ${problem}`, { cause: error });
  }
}

export interface Manifest {
  readonly apiVersion: string;
  /** apiVersion and kind: `v1 Secret` */
  readonly kind: string;
  readonly metadata: Pick<ObjectMeta, 'name' | 'namespace'>;
  readonly object: Readonly<Record<string, unknown>>;
}

/** A manifest cannot be read. */
export class ManifestError extends Error {
  override readonly name = 'ManifestError';
}

/** How often a document may use aliases. Without the limit, a few lines can expand to gigabytes. */
const MAX_ALIASES = 1000;

/**
 * YAML 1.1, as kubectl reads it: merge keys work, and `yes` is true. Times, numbers to the base of 60 and numbers like
 * `e1` are texts.
 */
const YAML = {
  logLevel: 'silent',
  version: '1.1',
  customTags: (tags: Tags): Tags =>
    tags.filter((tag) => {
      if (typeof tag === 'string') return true;
      const format = 'format' in tag ? tag.format : undefined;
      return tag.tag !== 'tag:yaml.org,2002:timestamp' && format !== 'TIME' && format !== 'EXP';
    }),
} as const;

/** @throws ManifestError */
export function parseManifests(text: string, label: string): Manifest[] {
  return [...parseAllDocuments(text, YAML)].flatMap((document, index) => {
    const where = `${label}, document ${index + 1}`;
    const [error] = document.errors;
    if (error !== undefined) {
      const line = error.linePos?.[0].line;
      // The library's message is not shown: it quotes the line, which may contain a value of a Secret.
      throw new ManifestError(`${where}${line === undefined ? '' : `, line ${line}`}: invalid YAML (${error.code})`);
    }
    return objectsOf(
      valueOf(() => document.toJS({ maxAliasCount: MAX_ALIASES }), where),
      where,
    );
  });
}

function valueOf(resolve: () => unknown, where: string): unknown {
  try {
    return resolve();
  } catch {
    // The library's message is not shown: it names the alias, and an unquoted password like `*secret` is an alias.
    const why = 'an alias has no anchor, there are too many aliases, or a merge key has no object';
    throw new ManifestError(`${where}: its aliases or merge keys cannot be resolved: ${why}`);
  }
}

interface ListType {
  readonly apiVersion: string;
  readonly kind: string;
}

/** @param listed apiVersion and kind for items of a list that have none */
function objectsOf(value: unknown, where: string, listed?: ListType): Manifest[] {
  if (value === null || value === undefined) return [];
  if (!isMap(value))
    throw new ManifestError(
      `${where}: must be an object, not ${Array.isArray(value) ? 'a list' : `a ${typeof value}`}`,
    );
  const { apiVersion = listed?.apiVersion, kind = listed?.kind, items } = value;
  if (typeof apiVersion !== 'string') throw new ManifestError(`${where}: apiVersion is missing`);
  if (typeof kind !== 'string') throw new ManifestError(`${where}: kind is missing`);
  if (kind.endsWith('List') && (Array.isArray(items) || items === null)) {
    const item = kind === 'List' ? undefined : { apiVersion, kind: kind.slice(0, -'List'.length) };
    return (items ?? []).flatMap((one: unknown, index) => objectsOf(one, `${where}, items[${index}]`, item));
  }
  return [
    {
      apiVersion,
      kind: `${apiVersion} ${kind}`,
      metadata: metaOf(value['metadata'], where),
      object: { ...value, apiVersion, kind },
    },
  ];
}

/** The API server checks the rest. @throws ManifestError */
function metaOf(metadata: unknown, where: string): Manifest['metadata'] {
  const { name, namespace } = isMap(metadata) ? metadata : {};
  if (!isSegment(name)) throw new ManifestError(`${where}: metadata.name ${NO_SEGMENT}`);
  if (namespace === undefined || namespace === null || namespace === '') return { name };
  if (!isSegment(namespace)) throw new ManifestError(`${where}: metadata.namespace ${NO_SEGMENT}`);
  return { name, namespace };
}

const NO_SEGMENT = 'is missing, is no text, or cannot be a name';

/** Whether a value can be a part of a path. As in kubectl, no part has `/` or `%`: the server decodes `%2F` first. */
function isSegment(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && !/^\.{1,2}$|[/%]/.test(value);
}

export function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
