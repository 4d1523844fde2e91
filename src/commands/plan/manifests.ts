/**
 * Reads manifests from files and folders as `kubectl apply -f` does: YAML or JSON, several documents in a file, lists.
 * The API server checks their fields. Errors name file, document and field, and never quote a value.
 */
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { type ErrorCode, parseAllDocuments, type Tags } from 'yaml';
import { quoted } from '../../config/usage-error.ts';
import type { ObjectMeta } from '../../kube/api.ts';
import { notString } from '../../kube/json.ts';
import { isDnsLabel } from '../../runtime/text/dns-names.ts';

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
  /** Where the manifest is, for errors: `mirror.yaml, document 2`. */
  readonly where: string;
  readonly apiVersion: string;
  /** apiVersion and kind: `v1 Secret` */
  readonly kind: string;
  /** Without empty fields, and without fields that only the server sets. */
  readonly metadata: Pick<ObjectMeta, 'name' | 'namespace' | 'labels' | 'annotations'>;
  readonly object: Readonly<Record<string, unknown>>;
}

/** A manifest cannot be read. */
export class ManifestError extends Error {
  override readonly name = 'ManifestError';
}

/** How often a document may use aliases. Without the limit, a few lines can expand to gigabytes. */
const MAX_ALIASES = 1000;

/** For an error code of the YAML library: the mistake that usually causes it. */
const MISTAKES: Readonly<Partial<Record<ErrorCode, string>>> = {
  BAD_DQ_ESCAPE: 'a text in double quotes has an unknown escape after \\',
  BAD_INDENT: 'the indentation is wrong',
  BAD_SCALAR_START: 'a text begins with a character that needs quotes',
  BLOCK_AS_IMPLICIT_KEY: 'a text with a colon needs quotes, or the indentation is wrong',
  DUPLICATE_KEY: 'an object has a key twice',
  MISSING_CHAR: 'a quote, a bracket, a comma or a colon is missing',
  MULTILINE_IMPLICIT_KEY: 'a colon after a key is missing, or the indentation is wrong',
  TAB_AS_INDENT: 'lines are indented by a tab instead of spaces',
  UNEXPECTED_TOKEN: 'a character is in a place where YAML does not allow it',
};

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
      const why = MISTAKES[error.code];
      // The library's message is not shown: it quotes the line, which may contain a value of a Secret.
      throw new ManifestError(
        `${where}${line === undefined ? '' : `, line ${line}`}: invalid YAML${why === undefined ? '' : `: ${why}`} (${error.code})`,
      );
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
      where,
      apiVersion,
      kind: `${apiVersion} ${kind}`,
      metadata: metaOf(value['metadata'], kind, where),
      object: { ...value, apiVersion, kind },
    },
  ];
}

function metaOf(metadata: unknown, kind: string, where: string): Manifest['metadata'] {
  const { name, namespace, generateName, labels, annotations } = isMap(metadata) ? metadata : {};
  if (typeof name !== 'string' || name === '') {
    const generated = typeof generateName === 'string' ? '; generateName is not supported, as in kubectl apply' : '';
    const problem = name === undefined || name === null || name === '' ? 'is missing' : notString(name);
    throw new ManifestError(`${where}: metadata.name ${problem}${generated}`);
  }
  const home = namespace === null || namespace === '' ? undefined : namespace;
  const problem =
    (kind === 'Namespace' ? namespaceProblem('metadata.name', name) : nameProblem(name)) ??
    (home === undefined ? undefined : namespaceProblem('metadata.namespace', home));
  if (problem !== undefined) throw new ManifestError(`${where}: ${problem}`);
  return {
    name,
    ...(home === undefined ? {} : { namespace: home as string }),
    ...(labels === undefined ? {} : { labels: stringsOf(labels, where, 'metadata.labels') }),
    ...(annotations === undefined ? {} : { annotations: stringsOf(annotations, where, 'metadata.annotations') }),
  };
}

/** A name must be usable in a path. The API server checks the rest. */
function nameProblem(name: string): string | undefined {
  const usable = name !== '.' && name !== '..' && !/[%/?#\s]/.test(name);
  return usable ? undefined : `metadata.name: ${quoted(name)} is not a valid object name`;
}

function namespaceProblem(field: string, name: unknown): string | undefined {
  if (typeof name !== 'string') return `${field} ${notString(name)}`;
  if (isDnsLabel(name)) return undefined;
  return `${field}: ${quoted(name)} is not a valid namespace name: use lower case letters, digits and -`;
}

export function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * The strings in a field of a manifest. As in the API server, a value `null` is '', and a field `null` has no strings.
 * @throws ManifestError, which names the field
 */
export function stringsOf(value: unknown, where: string, field: string): Record<string, string> {
  if (value === null || value === undefined) return {};
  if (!isMap(value)) throw new ManifestError(`${where}: ${field} is not an object`);
  return Object.fromEntries(
    Object.entries(value).map(([key, text]) => {
      if (text === null) return [key, ''];
      if (typeof text !== 'string') throw new ManifestError(`${where}: ${field}.${key} ${notString(text)}`);
      return [key, text];
    }),
  );
}
