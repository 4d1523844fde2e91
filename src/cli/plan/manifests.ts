/** Reads what `keyferry plan` is given: YAML or JSON, several documents a file, lists. Errors name file and document, never a value. */
import { readFile } from 'node:fs/promises';
import { parseAllDocuments } from 'yaml';
import type { KubeObject } from '../../kube/api.ts';

/** An object of a manifest; its metadata has a name, but nothing that only a server gives. */
export interface Manifest {
  /** For errors: `mirror.yaml, document 2`. */
  readonly where: string;
  readonly kind: string;
  readonly object: Readonly<Record<string, unknown>> & Pick<KubeObject, 'metadata'>;
}

/** A manifest that cannot be read. */
export class ManifestError extends Error {
  override readonly name = 'ManifestError';
}

/** @param files paths; `-` is standard input, which `stdin` reads */
export async function readManifests(files: readonly string[], stdin: () => Promise<string>): Promise<Manifest[]> {
  const manifests: Manifest[] = [];
  for (const file of files) {
    const [text, label] = file === '-' ? [await stdin(), 'standard input'] : [await readText(file), file];
    manifests.push(...parseManifests(text, label));
  }
  return manifests;
}

/** @throws ManifestError */
export function parseManifests(text: string, label: string): Manifest[] {
  return [...parseAllDocuments(text, { logLevel: 'silent' })].flatMap((document, index) => {
    const where = `${label}, document ${index + 1}`;
    const [error] = document.errors;
    if (error !== undefined) {
      const line = error.linePos?.[0].line;
      // The library's words quote the line, which may be one of a Secret.
      throw new ManifestError(`${where}${line === undefined ? '' : `, line ${line}`}: not YAML (${error.code})`);
    }
    return objectsOf(document.toJS({ maxAliasCount: 100 }), where);
  });
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error';
    throw new ManifestError(`${file}: cannot be read: ${code}`, { cause: error });
  }
}

function objectsOf(value: unknown, where: string): Manifest[] {
  if (value === null || value === undefined) return [];
  if (!isMap(value))
    throw new ManifestError(`${where}: not an object but ${Array.isArray(value) ? 'a list' : typeof value}`);
  const { apiVersion, kind, items } = value;
  if (typeof apiVersion !== 'string') throw new ManifestError(`${where}: apiVersion is missing`);
  if (typeof kind !== 'string') throw new ManifestError(`${where}: kind is missing`);
  if (kind.endsWith('List') && Array.isArray(items)) {
    return items.flatMap((item, index) => objectsOf(item, `${where}, items[${index}]`));
  }
  const { metadata } = value;
  if (!isMap(metadata) || typeof metadata['name'] !== 'string' || metadata['name'] === '') {
    throw new ManifestError(`${where}: metadata.name is missing`);
  }
  return [{ where, kind: `${apiVersion} ${kind}`, object: value as Manifest['object'] }];
}

export function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The texts in a field of a manifest. @throws ManifestError naming the field */
export function stringsOf(value: unknown, where: string, field: string): Record<string, string> {
  if (!isMap(value)) throw new ManifestError(`${where}: ${field} is not an object`);
  for (const [key, text] of Object.entries(value)) {
    if (typeof text !== 'string') throw new ManifestError(`${where}: ${field}.${key} is not a string`);
  }
  return value as Record<string, string>;
}

/** `stringData` as `data` has it. */
export function encoded(texts: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString('base64')]));
}
