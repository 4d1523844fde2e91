/** Values of a kubeconfig that are in it or in a file that it names. */
import { dirname, isAbsolute, join } from 'node:path';
import type { Clock } from '../../runtime/clock.ts';
import { FileValue } from './file-value.ts';
import type { Fields } from './kubeconfig-fields.ts';

/** `name-data` (base64, wins) or `name` (a path, relative to the kubeconfig). */
export function bytesOrFile(fields: Fields, name: string, clock: Clock): Buffer | FileValue | undefined {
  const data = fields.base64(`${name}-data`);
  if (data !== undefined) return data;
  const path = fields.string(name);
  return path === undefined ? undefined : fileValue(fields, name, path, clock);
}

export function fileValue(fields: Fields, name: string, path: string, clock: Clock): FileValue {
  return new FileValue(relativeTo(fields.file, path), `${fields.file}: ${fields.at(name)}`, clock);
}

/** A path in a kubeconfig. */
export function relativeTo(file: string, path: string): string {
  return isAbsolute(path) ? path : join(dirname(file), path);
}
