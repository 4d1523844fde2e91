/** The generated CustomResourceDefinitions of `deploy/crds/`, for the bundle and for tests. */
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';

const FOLDER = path.join(import.meta.dirname, '..', '..', 'deploy', 'crds');

/** All of them as YAML documents, ready for `kubectl apply -f -`. */
export function readCrds(): string {
  const names = globSync('*.yaml', { cwd: FOLDER }).toSorted();
  // Without the first line, which names the source for editors of the file.
  return names.map((name) => readFileSync(path.join(FOLDER, name), 'utf8').replace(/^# .*\n/, '')).join('---\n');
}
