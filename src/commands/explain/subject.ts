/**
 * The object that `keyferry explain` is about: which object the arguments name, when it was created, and who wrote it
 * last. Keyferry reads only its metadata, no content.
 */
import type { Explanation } from '../../../scripts/reports/schemas.ts';
import type { Collection } from '../../controllers/common/snapshot/inventory.ts';
import { quoted, UsageError } from '../../config/usage-error.ts';
import { FIELD_MANAGER } from '../../copy/model/observed.ts';
import {
  type KubeApi,
  type KubeObject,
  type ManagedFieldsEntry,
  METADATA_ONLY,
  type ObjectMeta,
} from '../../kube/api.ts';
import { isForbidden, isNotFound } from '../../kube/errors.ts';
import { parseJson } from '../../kube/json.ts';

export interface Subject {
  readonly collection: Collection;
  readonly namespace: string;
  readonly name: string;
}

/**
 * @param kind a kind or its plural, in upper or lower case, or `cm`: `Secret`, `secrets`
 * @param place `NAMESPACE/NAME`
 * @throws UsageError, which quotes the argument that is wrong
 */
export function subjectOf(kind: string, place: string, collections: readonly Collection[]): Subject {
  const wanted = kind.toLowerCase().replace(/^cm$/, 'configmap');
  const collection = collections.find((one) => [one.kind.toLowerCase(), one.plural].includes(wanted));
  if (collection === undefined) {
    const known = collections.map((one) => one.kind.toLowerCase()).join(', ');
    throw new UsageError(`unknown kind ${quoted(kind)}: must be one of ${known}`);
  }
  const [namespace = '', name = '', ...more] = place.split('/');
  if (namespace === '' || name === '' || more.length > 0) {
    throw new UsageError(`bad name ${quoted(place)}: must be NAMESPACE/NAME, or NAME with -n NAMESPACE`);
  }
  return { collection, namespace, name };
}

/** A client that wrote the object, with the time of its last write. */
type Writer = Explanation['writers'][number];

export type Stored =
  | { readonly state: 'there'; readonly metadata: ObjectMeta }
  | { readonly state: 'absent' }
  /** The caller has no permission to read the object. */
  | { readonly state: 'refused'; readonly message: string };

/** Reads the metadata of an object. @throws the errors of `api.request`, but not for 403 and 404 */
export async function readStored(
  api: KubeApi,
  { collection, namespace, name }: Subject,
  signal: AbortSignal | undefined,
): Promise<Stored> {
  const { groupPath, olderGroupPaths = [], plural } = collection;
  for (const group of [groupPath, ...olderGroupPaths]) {
    const path = `${group}/namespaces/${encodeURIComponent(namespace)}/${plural}/${encodeURIComponent(name)}`;
    try {
      const { body } = await api.request({ method: 'GET', path, accept: METADATA_ONLY, signal });
      return { state: 'there', metadata: (parseJson(body, `the answer to GET ${path}`) as KubeObject).metadata };
    } catch (error) {
      if (isForbidden(error)) return { state: 'refused', message: error.message };
      // Not found: the object does not exist, or the server does not serve this version of the API.
      if (!isNotFound(error)) throw error;
    }
  }
  return { state: 'absent' };
}

/** The last write of each client, newest first. */
export function writersOf({ managedFields = [] }: Pick<ObjectMeta, 'managedFields'>): Writer[] {
  return managedFields
    .map((entry) => ({ manager: entry.manager ?? 'unknown', time: entry.time ?? null, wrote: wroteBy(entry) }))
    .toSorted((a, b) => ((a.time ?? '') < (b.time ?? '') ? 1 : -1));
}

/** When Keyferry last wrote a copy's content or metadata. `null`: never, so another program wrote the object. */
export function lastWriteOf(writers: readonly Writer[]): string | null {
  return writers.find(({ manager, wrote }) => manager === FIELD_MANAGER && wrote !== 'status')?.time ?? null;
}

function wroteBy({ subresource, fieldsV1 = {} }: ManagedFieldsEntry): Writer['wrote'] {
  if (subresource === 'status') return 'status';
  return Object.keys(fieldsV1).some((field) => field !== 'f:metadata') ? 'content' : 'metadata';
}
