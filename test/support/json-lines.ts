/** A log with one JSON object on each line, such as the audit logs of API servers and of Vault. */
import { readFileSync } from 'node:fs';

import type { Json } from './api.ts';

/** The complete lines. The server may be writing the last one. */
export function readJsonLines(file: string): Json[] {
  const text = readFileSync(file, 'utf8');
  const lines = text.slice(0, text.lastIndexOf('\n') + 1).split('\n');
  return lines.filter((line) => line !== '').map((line): Json => JSON.parse(line));
}
