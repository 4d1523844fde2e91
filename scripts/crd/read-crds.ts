/** Reads the generated CustomResourceDefinitions in `deploy/crds/`, for the bundle and for tests. */
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';

const FOLDER = path.join(import.meta.dirname, '..', '..', 'deploy', 'crds');

/** All CRDs as one text of YAML documents, for `kubectl apply -f -`. */
export function readCrds(): string {
  const names = globSync('*.yaml', { cwd: FOLDER }).toSorted();
  return names.map(readDefinition).join('---\n');
}

/** The CRD of one kind as YAML. @param plural the plural of the kind, for example `secretmirrors` */
export function readCrd(plural: string): string {
  const [name] = globSync(`*_${plural}.yaml`, { cwd: FOLDER });
  if (name === undefined) throw new Error(`no CRD of "${plural}" in ${FOLDER}`);
  return readDefinition(name);
}

/** Reads a CRD, and drops the first line, which says that the file is generated. */
function readDefinition(name: string): string {
  return readFileSync(path.join(FOLDER, name), 'utf8').replace(/^# .*\n/, '');
}
