/** Reads logs with one JSON object in each line, such as the audit logs of API servers and of Vault. */
import type { Json } from './api.ts';
import { GrownLines } from './grown-lines.ts';

/** The objects that were already read from each file. A test that waits reads its log many times. */
const logs = new Map<string, { readonly lines: GrownLines; readonly objects: Json[] }>();

/** The objects of all complete lines. A last line that the server is still writing is left out. */
export function readJsonLines(file: string): readonly Json[] {
  const log = logs.get(file) ?? { lines: new GrownLines(file), objects: [] };
  logs.set(file, log);
  for (const line of log.lines.read()) log.objects.push(JSON.parse(line));
  return log.objects;
}
