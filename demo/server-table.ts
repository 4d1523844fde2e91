/**
 * Tables of objects as kubectl prints them. The API server writes the texts of the cells (`Table` of meta.k8s.io/v1).
 */
import type { KubeApi, ObjectMeta } from '../src/kube/api.ts';
import { parseJson } from '../src/kube/json.ts';
import { textTable } from '../src/commands/output/text.ts';

const AS_TABLE = 'application/json;as=Table;g=meta.k8s.io;v=v1,application/json';

interface ServerTable {
  readonly columnDefinitions: readonly { readonly name: string; readonly priority: number }[];
  readonly rows?: readonly {
    readonly cells: readonly unknown[];
    readonly object?: { readonly metadata?: ObjectMeta };
  }[];
}

export interface ServerTableOptions {
  /** API path of the list, for example `/api/v1/secrets`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Adds a first column NAMESPACE, as `kubectl get -A` does. */
  readonly withNamespace: boolean;
  readonly signal?: AbortSignal;
}

/**
 * The lines that `kubectl get` prints for a list of objects; no lines if the list is empty.
 * @throws the errors of `api.request`
 */
export async function serverTable(api: KubeApi, options: ServerTableOptions): Promise<string[]> {
  const { path, query = {}, withNamespace, signal } = options;
  const { body } = await api.request({
    method: 'GET',
    path,
    query,
    accept: AS_TABLE,
    ...(signal === undefined ? {} : { signal }),
  });
  const { columnDefinitions, rows = [] } = parseJson(body, `the table of ${path}`) as ServerTable;
  if (rows.length === 0) return [];
  // Columns with another priority than 0 are only in the output of `kubectl get -o wide`.
  const shown = [...columnDefinitions.entries()].filter(([, { priority }]) => priority === 0);
  const header = shown.map(([, { name }]) => name.toUpperCase());
  if (withNamespace) header.unshift('NAMESPACE');
  const lines = rows.map(({ cells, object }) => {
    const line = shown.map(([index]) => text(cells[index]));
    if (withNamespace) line.unshift(object?.metadata?.namespace ?? '');
    return line;
  });
  return textTable(header, lines);
}

function text(cell: unknown): string {
  if (cell === null || cell === undefined) return '';
  return typeof cell === 'string' ? cell : JSON.stringify(cell);
}
