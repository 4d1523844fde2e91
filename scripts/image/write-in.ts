import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** Writes the file `name` in the folder `tree`. Creates missing folders. */
export function writeIn(tree: string, name: string, content: string): void {
  const file = path.join(tree, name);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, content);
}
