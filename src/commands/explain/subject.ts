/**
 * The object that `keyferry explain` is about: which object the arguments name, when it was created, and who wrote it
 * last. Keyferry reads only its metadata, no content.
 */
import type { Explanation } from '../../../scripts/reports/schemas.ts';
import { type Collection, listerOf } from '../snapshot/inventory.ts';
import { quoted, UsageError } from '../../config/usage-error.ts';
import { isOwnManager } from '../../copy/model/observed.ts';
import type { KubeApi, ManagedFieldsEntry, ObjectMeta } from '../../kube/api.ts';

export interface Subject {
  readonly collection: Collection;
  readonly namespace: string;
  readonly name: string;
}

/**
 * @param kind a kind or its plural, in upper or lower case, perhaps with its group, or a short name: `Secret`, `secrets`,
 *   `secretmirror.mirrors.kts.studio`, `sm`
 * @param place `NAMESPACE/NAME`
 * @throws UsageError, which quotes the argument that is wrong
 */
export function subjectOf(kind: string, place: string, collections: readonly Collection[]): Subject {
  const [wanted = '', ...group] = kind.toLowerCase().split('.');
  const isWanted = (one: Collection): boolean =>
    [one.kind.toLowerCase(), one.plural, one.shortName].includes(wanted) &&
    (group.length === 0 || one.groupPath.split('/')[2] === group.join('.'));
  const collection = collections.find(isWanted);
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

/** @returns the metadata of an object; `undefined`: there is none @throws MissingRight, and the errors of `api.request` */
export async function readStored(
  api: KubeApi,
  { collection, namespace, name }: Subject,
  signal: AbortSignal | undefined,
): Promise<ObjectMeta | undefined> {
  let found: ObjectMeta | undefined;
  // A list, so that the right to list is enough for the whole command.
  const options = { metadataOnly: true, fieldSelector: `metadata.name=${name}`, signal };
  await listerOf(api)(collection, [namespace], ({ metadata }) => void (found = metadata), options);
  return found;
}

/** The last write of each client, newest first. */
export function writersOf({ managedFields = [] }: Pick<ObjectMeta, 'managedFields'>): Writer[] {
  return managedFields
    .map((entry) => ({ manager: entry.manager ?? 'unknown', time: entry.time ?? null, wrote: wroteBy(entry) }))
    .toSorted((a, b) => ((a.time ?? '') < (b.time ?? '') ? 1 : -1));
}

/** When Keyferry last wrote the content or metadata of an object. `null`: never, so another program wrote the object. */
export function lastWriteOf(writers: readonly Writer[]): string | null {
  return writers.find(({ manager, wrote }) => isOwnManager(manager) && wrote !== 'status')?.time ?? null;
}

function wroteBy({ subresource, fieldsV1 = {} }: ManagedFieldsEntry): Writer['wrote'] {
  if (subresource === 'status') return 'status';
  return Object.keys(fieldsV1).some((field) => field !== 'f:metadata') ? 'content' : 'metadata';
}
