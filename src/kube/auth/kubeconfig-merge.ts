/**
 * Kubeconfig files read and merged by kubectl's rules: the first file that names a cluster, user or context wins with its whole
 * entry; the first `current-context` that is not empty counts; relative paths are relative to the file that contains them.
 */
import { readFile } from 'node:fs/promises';
import { Fields, KubeconfigError } from './kubeconfig-fields.ts';

export interface Kubeconfig {
  readonly files: readonly string[];
  readonly currentContext: string | undefined;
  readonly clusters: ReadonlyMap<string, Fields>;
  readonly users: ReadonlyMap<string, Fields>;
  readonly contexts: ReadonlyMap<string, Fields>;
}

/**
 * @param optional files that do not exist are left out, as in `$KUBECONFIG`
 * @throws KubeconfigError naming the file, and the field where it is one
 */
export async function readKubeconfigs(paths: readonly string[], optional: boolean): Promise<Kubeconfig> {
  const parsed: Kubeconfig[] = [];
  for (const path of paths) {
    let text: string;
    try {
      text = await readFile(path, 'utf8');
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
      if (optional && code === 'ENOENT') continue;
      const problem = code === 'ENOENT' ? 'does not exist' : `cannot be read: ${code}`;
      throw new KubeconfigError(path, problem, { cause: error });
    }
    parsed.push(await parseKubeconfig(text, path));
  }
  return mergeKubeconfigs(parsed);
}

/**
 * @param file path of the text, for messages and for relative paths
 * @throws KubeconfigError
 */
export async function parseKubeconfig(text: string, file: string): Promise<Kubeconfig> {
  // A Pod has no kubeconfig and need not load the parser.
  const { LineCounter, parseDocument } = await import('yaml');
  const lineCounter = new LineCounter();
  // Without `prettyErrors`: those quote the lines around a mistake, tokens included.
  const document = parseDocument(text, { prettyErrors: false, lineCounter });
  const [mistake] = document.errors;
  if (mistake !== undefined) {
    const { line, col } = lineCounter.linePos(mistake.pos[0]);
    throw new KubeconfigError(file, `is not YAML: ${mistake.code} in line ${line}, column ${col}`);
  }
  let value: unknown;
  try {
    value = document.toJS();
  } catch {
    // The parser's message names the alias, and an unquoted token that starts with `*` is one.
    throw new KubeconfigError(file, 'is not YAML: it has an alias without an anchor, or too many aliases');
  }
  const top = new Fields(file, '', value);
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

export function mergeKubeconfigs(configs: readonly Kubeconfig[]): Kubeconfig {
  const merge = (pick: (config: Kubeconfig) => ReadonlyMap<string, Fields>): Map<string, Fields> => {
    const merged = new Map<string, Fields>();
    for (const config of configs) {
      for (const [name, entry] of pick(config)) if (!merged.has(name)) merged.set(name, entry);
    }
    return merged;
  };
  return {
    files: configs.flatMap((config) => config.files),
    currentContext: configs.find((config) => config.currentContext !== undefined)?.currentContext,
    clusters: merge((config) => config.clusters),
    users: merge((config) => config.users),
    contexts: merge((config) => config.contexts),
  };
}

/** `clusters: [{name, cluster: {…}}]` as a map of names. */
function entries(top: Fields, list: string, inner: string): Map<string, Fields> {
  const found = new Map<string, Fields>();
  for (const [index, value] of top.list(list).entries()) {
    const name = new Fields(top.file, `${list}[${index}]`, value).required('name');
    const entry = new Fields(top.file, `${list}[name=${name}]`, value);
    if (found.has(name)) throw entry.error('', `the name ${JSON.stringify(name)} is used twice in ${list}`);
    found.set(name, entry.fields(inner));
  }
  return found;
}
