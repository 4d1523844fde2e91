/** The files that `keyferry plan` reads, as `kubectl apply -f` does. */
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { type Manifest, ManifestError, parseManifests } from './manifests.ts';

const EXTENSIONS: ReadonlySet<string> = new Set(['.json', '.yaml', '.yml']);

/**
 * @param paths files and folders; `-` is standard input, which `stdin` reads
 * @param recursive whether the folders in a folder are read too
 * @param kinds that Keyferry uses
 * @throws ManifestError
 */
export async function readManifests(
  paths: readonly string[],
  recursive: boolean,
  stdin: () => Promise<string>,
  kinds: ReadonlySet<string>,
): Promise<Manifest[]> {
  const manifests: Manifest[] = [];
  for (const name of paths) {
    if (name === '-') manifests.push(...parseStandardInput(await stdin(), kinds));
    else
      for (const file of await filesOf(name, recursive))
        manifests.push(...parseManifests(await read(file), file, kinds));
  }
  return manifests;
}

/** Empty input is an error: in `kustomize build | keyferry plan -` it usually means that the first command failed. */
function parseStandardInput(text: string, kinds: ReadonlySet<string>): Manifest[] {
  const manifests = parseManifests(text, 'standard input', kinds);
  if (manifests.length === 0) throw new ManifestError('standard input: contains no manifest');
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

async function read(file: string): Promise<string> {
  return await orManifestError(file, async () => await readFile(file, 'utf8'));
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
