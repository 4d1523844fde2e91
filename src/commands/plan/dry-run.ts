/**
 * Asks the API server how `kubectl apply` of the manifests would leave the objects in them. Dry runs store nothing, and
 * admission policies and webhooks take part in them.
 */
import { noNamespace } from '../../copy/model/reasons.ts';
import { isDeepStrictEqual } from 'node:util';
import type { Changes } from '../snapshot/inventory.ts';
import { placeOf, titleOf } from '../snapshot/places.ts';
import type { ResourceKey } from '../../copy/model/keys.ts';
import { SECRET } from '../../copy/model/kind.ts';
import { LAST_APPLIED } from '../../copy/model/observed.ts';
import { ApiError, isNamespaceMissing, isNotFound, isServerFailure, isUnauthorized } from '../../kube/errors.ts';
import { parseJson } from '../../kube/json.ts';
import type { Listed } from '../../kube/list-each.ts';
import { redact } from '../../runtime/text/redact.ts';
import { rfc3339 } from '../../runtime/text/texts.ts';
import type { CommandContext } from '../output/reading.ts';
import type { Given } from './given.ts';
import { isMap } from './manifests.ts';
import type { PlannedNote } from './rows.ts';

type Context = Pick<CommandContext, 'api' | 'now' | 'signal'>;
type Fields = Readonly<Record<string, unknown>>;

export interface DryRuns {
  readonly changes: Changes;
  /** What `kubectl apply` would say of the manifests that the server refuses. */
  readonly refusals: ReadonlyMap<ResourceKey, string>;
  readonly notes: readonly PlannedNote[];
}

/** Maximum number of dry runs at the same time. */
const PARALLEL = 8;
/** As kubectl, so that the server reports the same field manager. */
const QUERY = { dryRun: 'All', fieldValidation: 'Strict', fieldManager: 'kubectl-client-side-apply' };

/** If several manifests name an object, the last one counts. @throws ConnectionError, and 401 */
export async function dryRuns(context: Context, given: readonly Given[]): Promise<DryRuns> {
  const namespaces = new Set(
    given.flatMap(({ kind, manifest }) => (kind === 'Namespace' ? manifest.metadata.name : [])),
  );
  const last = new Map(given.map((one) => [one.key, one]));
  const objects = new Map<ResourceKey, Listed>();
  const refusals = new Map<ResourceKey, string>();
  const notes = new Map<ResourceKey, string>();
  const queue = last.values();
  const worker = async (): Promise<void> => {
    for (const one of queue) {
      const { after, refusal, note } = await dryRun(context, one, namespaces.has(one.namespace));
      if (after !== undefined) objects.set(one.key, after);
      if (refusal !== undefined) refusals.set(one.key, refusal);
      if (note !== undefined) notes.set(one.key, note);
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, worker));
  const noted = [...last.keys()].flatMap((key) => {
    const note = notes.get(key);
    return note === undefined ? [] : [{ rule: titleOf(placeOf(key)), note }];
  });
  // In the order of the manifests, whatever the order of the answers.
  const changed = [...last.keys()].filter((key) => objects.has(key));
  return { changes: new Map(changed.map((key) => [key, () => objects.get(key)])), refusals, notes: noted };
}

interface Answer {
  /** The object as the manifest leaves it; absent: it stays as it is. */
  readonly after?: Listed;
  readonly refusal?: string;
  readonly note?: string;
}

/** @param isNew whether the manifests have the object's namespace */
async function dryRun({ api, now, signal }: Context, given: Given, isNew: boolean): Promise<Answer> {
  const { manifest, namespace, problem } = given;
  if (problem !== undefined) return { refusal: problem };
  const collection = collectionPath(given);
  const path = `${collection}/${encodeURIComponent(manifest.metadata.name)}`;
  let there: Listed | undefined;
  try {
    there = await api.request({ method: 'GET', path, signal }).then(
      ({ body }) => parseJson(body, `the answer to GET ${path}`) as Listed,
      (error: unknown) => {
        if (isNotFound(error)) return undefined;
        throw error;
      },
    );
    const written = fieldsOf(given);
    const sent = there === undefined ? written : patchOf(lastApplied(there), written);
    // Of an object that is not there. So nothing must be merged.
    const asWritten = (note?: string): Answer => ({
      after: assumed(given, undefined, folded(given, written) as Listed, now()),
      ...(note !== undefined && { note }),
    });
    try {
      const { body } = await api.request({
        ...(there === undefined ? { method: 'POST', path: collection } : { method: 'PATCH', path }),
        query: QUERY,
        body: JSON.stringify(sent),
        contentType: there === undefined ? 'application/json' : 'application/merge-patch+json',
        signal,
      });
      return { after: assumed(given, there, parseJson(body, `the dry run of ${path}`) as Listed, now()) };
    } catch (error) {
      if (isNamespaceMissing(error)) {
        if (!isNew) return { refusal: noNamespace(namespace) };
        return asWritten(
          'the manifests create its namespace, so the API server cannot check it yet: it is taken as written',
        );
      }
      // The API is not installed, which a note says.
      if (isNotFound(error)) return asWritten();
      throw error;
    }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const message = told(error, given, there);
    if (isUnauthorized(error) || isServerFailure(error)) throw error.reworded({ message });
    return { refusal: message };
  }
}

function collectionPath({ manifest, kind, content, collection, namespace }: Given): string {
  const { apiVersion } = manifest;
  const group = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  if (kind === 'Namespace') return `${group}/namespaces`;
  return `${group}/namespaces/${encodeURIComponent(namespace)}/${content?.plural ?? collection?.plural ?? ''}`;
}

/** The object in a manifest. */
function fieldsOf({ manifest: { object }, namespace }: Given): Fields {
  const { labels, annotations, ...metadata } = object['metadata'] as Fields;
  const given = {
    ...metadata,
    ...(labels !== undefined && { labels: textsOf(labels) }),
    // kubectl always sends annotations, if only `{}`: without them the patch would remove those that others have added.
    annotations: textsOf(annotations),
    ...(namespace !== '' && { namespace }),
  };
  return { ...object, metadata: given };
}

/** Labels or annotations in which, as in the API server, a value `null` is ''. What is no text, the server refuses. */
function textsOf(value: unknown): unknown {
  return isMap(value) ? mapped(value, (text) => text ?? '') : (value ?? {});
}

/**
 * The three-way merge of `kubectl apply`, as a JSON merge patch. It sets the fields of the manifest, and removes fields
 * that are only in the manifest that was applied before.
 */
function patchOf(last: Fields, given: Fields): Fields {
  const gone = Object.keys(last).filter((key) => !Object.hasOwn(given, key));
  const set = Object.entries(given).map(([key, value]) => {
    const former = last[key];
    return [key, isMap(value) ? patchOf(isMap(former) ? former : {}, value) : value];
  });
  return { ...Object.fromEntries(gone.map((key) => [key, null])), ...(Object.fromEntries(set) as Fields) };
}

/** The manifest that was applied before, from kubectl's annotation. */
function lastApplied({ metadata: { annotations = {} } }: Listed): Fields {
  try {
    const value: unknown = JSON.parse(annotations[LAST_APPLIED] ?? '');
    return isMap(value) ? value : {};
  } catch {
    // Any user can write the annotation. Like kubectl, `plan` ignores an invalid value.
    return {};
  }
}

/** An object that the server has not checked, as it would store it: the texts of a Secret are in its data. */
function folded({ content }: Given, { stringData, ...object }: Fields): Fields {
  const { labels, annotations, ...metadata } = object['metadata'] as Fields;
  const texts = { labels: mapped(labels, String), annotations: mapped(annotations, String) };
  const stored = { ...object, metadata: { ...metadata, ...texts } };
  if (content !== SECRET) return stored;
  const encoded = mapped(textsOf(stringData), (text) => Buffer.from(String(text)).toString('base64'));
  return { ...stored, data: { ...(isMap(object['data']) && object['data']), ...encoded } };
}

function mapped(value: unknown, to: (one: unknown) => unknown): Fields {
  return isMap(value) ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, to(one)])) : {};
}

/** An object as the server would store it: with a uid and versions that a dry run does not give. @param now ms */
function assumed({ index, content }: Given, there: Listed | undefined, after: Listed, now: number): Listed {
  const { metadata } = after;
  if (there === undefined) {
    // Of two rules of the same second, that with the smaller uid counts as older: so the first manifest is oldest.
    const uid = `new ${String(index).padStart(9, '0')}`;
    const stored = { uid, resourceVersion: '1', generation: 1, creationTimestamp: rfc3339(now) };
    return { ...after, metadata: { ...metadata, ...stored } };
  }
  const { resourceVersion } = there.metadata;
  const fields = [...(content?.fields.map(({ name }) => name) ?? []), 'type', 'immutable'];
  const copied = ({ metadata: { labels = {}, annotations = {} }, ...object }: Listed): unknown[] => [
    labels,
    annotations,
    ...fields.map((field) => (object as Fields)[field]),
  ];
  const isSame = isDeepStrictEqual(copied(after), copied(there));
  return {
    ...after,
    metadata: { ...metadata, resourceVersion: isSame ? resourceVersion : nextVersion(resourceVersion) },
  };
}

/** A higher resourceVersion. No copy was made from it, so Keyferry reads the content and compares it. */
export function nextVersion(version: string): string {
  return /^\d+$/.test(version) ? String(BigInt(version) + 1n) : `${version}+`;
}

/** What the server says, without the values of the object before and after: webhooks and policies may quote them. */
function told(error: ApiError, { content, manifest }: Given, there: Listed | undefined): string {
  const values = content === undefined ? [] : [...textsIn(manifest.object), ...textsIn(there ?? {})];
  return redact(error.statusMessage, values).replaceAll(/\s+/g, ' ');
}

function* textsIn(object: Fields): Iterable<string> {
  for (const field of ['data', 'stringData', 'binaryData']) {
    const values = object[field];
    for (const value of isMap(values) ? Object.values(values) : [values]) {
      if (typeof value !== 'string') continue;
      yield value;
      yield Buffer.from(value, 'base64').toString();
    }
  }
}
