/** Reads logs with one JSON object on each line, such as the audit logs of API servers and of Vault. */
import type { Json } from './api.ts';
import { GrownLines } from './grown-lines.ts';

/** The lines of each file that were read so far: a test that waits reads its log many times. */
const logs = new Map<string, { readonly lines: GrownLines; readonly objects: Json[] }>();

/** The objects of all complete lines. The last line may not be complete yet. */
export function readJsonLines(file: string): readonly Json[] {
  const log = logs.get(file) ?? { lines: new GrownLines(file), objects: [] };
  logs.set(file, log);
  for (const line of log.lines.read()) log.objects.push(JSON.parse(line));
  return log.objects;
}
