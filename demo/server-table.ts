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
  /** How long a line may be. From a longer table, columns after the name are left out. Default: any length. */
  readonly width?: number;
}

/**
 * The lines that `kubectl get` would print for a collection; no lines if the collection is empty.
 * @throws the errors of `api.request`
 */
export async function serverTable(api: KubeApi, options: ServerTableOptions): Promise<string[]> {
  const { path, query = {}, withNamespace, signal, width = Infinity } = options;
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
  const cellsOf = rows.map(({ cells, object }) => {
    const line = shown.map(([index]) => text(cells[index]));
    if (withNamespace) line.unshift(object?.metadata?.namespace ?? '');
    return line;
  });
  return fitting([header, ...cellsOf], withNamespace ? 2 : 1, width);
}

/** A table that is not wider than `width`. In place of the columns that it leaves out, it has the column `…`. */
export function fitting(cells: readonly (readonly string[])[], first: number, width: number): string[] {
  const [header = [], ...rows] = cells;
  const all = textTable(header, rows);
  if (all.every((line) => line.length <= width)) return all;
  // Each further try leaves out one column more. The last columns say how it is, so the first ones go.
  for (let skipped = 2; first + skipped < header.length; skipped += 1) {
    const [title = [], ...lines] = cells.map((row) => [...row.slice(0, first), '…', ...row.slice(first + skipped)]);
    const table = textTable(title, lines);
    if (table.every((line) => line.length <= width)) return table;
  }
  return all;
}

function text(cell: unknown): string {
  if (cell === null || cell === undefined) return '';
  return typeof cell === 'string' ? cell : JSON.stringify(cell);
}
