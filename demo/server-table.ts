/**
 * Prints objects as tables, as `kubectl get` does. The API server makes the cells (`Table` of meta.k8s.io/v1).
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
  /** API path of the collection, for example `/api/v1/secrets`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Whether the first column is NAMESPACE, as in `kubectl get -A`. */
  readonly withNamespace: boolean;
  readonly signal?: AbortSignal;
}

/**
 * The lines that `kubectl get` would print for a collection; no lines if the collection is empty.
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
  // `kubectl get` shows the columns with priority 0. The others appear only with `-o wide`.
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
