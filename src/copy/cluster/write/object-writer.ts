/**
 * Writes objects of one kind in one cluster. Each write is one request with its preconditions: a create cannot
 * overwrite; an update and a delete name the version that they were planned for.
 *
 * A mutating admission policy or webhook can change an object before the server stores it. The response shows this:
 * - changed labels and annotations always, because every response has the metadata;
 * - changed data only in a full response, because metadata and managedFields do not show them.
 *
 * A full response needs no extra request, but as many bytes as the write. So only the first write of a content asks for
 * it, and each write to a target whose data were overwritten. Such a target carries `OVERWRITTEN_MARK`. So its metadata
 * do not count as a proof of its data, even after a restart.
 */
import {
  type KubeObject,
  type KubeRequest,
  type KubeResponse,
  type ObjectMeta,
  METADATA_ONLY,
} from '../../../kube/api.ts';
import { ApiError, isAlreadyExists, isConflict, isNotFound, isObjectGone, isThrottled } from '../../../kube/errors.ts';
import { parseJson } from '../../../kube/json.ts';
import { SecretBytes } from '../../../runtime/secret-bytes.ts';
import { because } from '../../model/cause.ts';
import type { FieldPatch, DesiredObject, Outcome } from '../../model/claim.ts';
import type { Content, ContentPiece } from '../../model/content.ts';
import { parseResourceKey, type ObjectKey } from '../../model/keys.ts';
import { collectionPath, isForbiddenType, type Kind, objectPath } from '../../model/kind.ts';
import type { KubeStore, ReadObject } from '../objects/store.ts';
import { FIELD_MANAGER, LAST_APPLIED, type Observed, observe } from '../../model/observed.ts';
import { hasOwners, matches, OVERWRITTEN_MARK } from '../../plan/plan-write.ts';
import { withoutDetails, redactApiError } from '../objects/redact-api-error.ts';

const QUERY = { fieldManager: FIELD_MANAGER };

export interface CreateOptions {
  /** Whether the request is a dry run. */
  readonly dryRun?: boolean;
  /** Requests a full response: the stored object with its data. */
  readonly fullResponse?: boolean;
}

/** The response to a write. */
export interface Written {
  readonly meta: ObjectMeta;
  /** The stored content, from a full response. */
  readonly stored?: Content;
}

export class ObjectWriter {
  readonly #store: KubeStore;

  constructor(store: KubeStore) {
    this.#store = store;
  }

  /** Creates the target. @throws ApiError AlreadyExists */
  async create(
    key: ObjectKey,
    desired: DesiredObject,
    content: Content,
    signal: AbortSignal,
    { dryRun = false, fullResponse = false }: CreateOptions = {},
  ): Promise<Written> {
    const { kind } = this.#store;
    const { namespace, name } = parseResourceKey(key);
    const type = desired.type ?? content.type;
    if (kind.isCustom !== true && isForbiddenType(type))
      throw new TypeError(`refused to create a Secret of type ${type}`);
    const metadata = {
      name,
      namespace,
      labels: present({ ...desired.labels, ...desired.bookkeepingLabels }),
      annotations: present({ ...desired.annotations, ...desired.bookkeeping }),
      ...(desired.ownerReferences === undefined ? {} : { ownerReferences: desired.ownerReferences }),
    };
    const head = JSON.stringify({
      apiVersion: kind.apiVersion,
      kind: kind.kind,
      metadata,
      ...(type === '' ? {} : { type }),
      ...(desired.immutable === true ? { immutable: true } : {}),
    });
    const pieces: Buffer[] = [Buffer.from(head.slice(0, -1))];
    for (const { field, json } of piecesFor(kind, content)) pieces.push(Buffer.from(`,"${field}":`), json.bytes());
    pieces.push(Buffer.from('}'));
    const request = {
      method: 'POST',
      path: collectionPath(kind, key),
      contentType: 'application/json',
      query: dryRun ? { ...QUERY, dryRun: 'All' } : QUERY,
    } as const;
    return await this.#write(key, { ...request, body: pieces, signal }, content, dryRun, fullResponse);
  }

  /**
   * Changes the metadata that differ, and with `content` all data. Labels and annotations that `desired` lacks stay.
   * @throws ApiError Conflict if the target has changed since `observed`, Invalid if the server forbids this change
   */
  async update(
    key: ObjectKey,
    observed: Observed,
    desired: DesiredObject,
    content: Content | undefined,
    signal: AbortSignal,
    { fullResponse = false }: Pick<CreateOptions, 'fullResponse'> = {},
  ): Promise<Written> {
    const { kind } = this.#store;
    // The server refuses a patch whose resourceVersion is not the current one. Versions are unique in a cluster, so the
    // server also refuses the patch if another object has the same name now.
    const operations: unknown[] = [
      { op: 'replace', path: '/metadata/resourceVersion', value: observed.resourceVersion },
      ...changes('/metadata/labels', observed.labels, { ...desired.labels, ...desired.bookkeepingLabels }),
      ...changes('/metadata/annotations', observed.annotations, { ...desired.annotations, ...desired.bookkeeping }),
    ];
    const { ownerReferences, immutable } = desired;
    if (ownerReferences !== undefined && !hasOwners(observed, ownerReferences)) {
      operations.push({ op: 'add', path: '/metadata/ownerReferences', value: ownerReferences });
    }
    if (immutable === true || (immutable === false && kind.isCustom === true)) {
      operations.push({ op: 'add', path: '/immutable', value: immutable });
      // The field is removed. The patch adds it first, because the server refuses to remove a field that is not there.
      if (!immutable) operations.push({ op: 'remove', path: '/immutable' });
    }
    if (content !== undefined && content.type !== '' && desired.type !== '') {
      // The type cannot be changed. It is in the patch so that the server refuses the write if the type differs.
      operations.push({ op: 'add', path: '/type', value: desired.type ?? content.type });
    }
    const text = JSON.stringify(operations);
    const pieces: Buffer[] = [Buffer.from(text.slice(0, -1))];
    if (content !== undefined) {
      const written = piecesFor(kind, content);
      for (const { name } of kind.fields) {
        const json = written.find(({ field }) => field === name)?.json.bytes() ?? Buffer.from('{}');
        pieces.push(Buffer.from(`,{"op":"add","path":"/${name}","value":`), json, Buffer.from('}'));
      }
      if (kind.overlay !== undefined) pieces.push(overlayPatch(kind.overlay, written));
    }
    pieces.push(Buffer.from(']'));
    const request = {
      method: 'PATCH',
      path: objectPath(kind, key),
      contentType: 'application/json-patch+json',
      query: QUERY,
    } as const;
    return await this.#write(key, { ...request, body: pieces, signal }, content, true, fullResponse);
  }

  /**
   * Deletes the target in the version `observed`. A target that is gone already is no error.
   * @returns whether the target is gone; `false`: a finalizer keeps it
   * @throws ApiError Conflict if the target has changed since `observed`
   */
  async delete(key: ObjectKey, observed: Observed, signal: AbortSignal): Promise<boolean> {
    const preconditions = { uid: observed.uid, resourceVersion: observed.resourceVersion };
    const body = JSON.stringify({ apiVersion: 'v1', kind: 'DeleteOptions', preconditions });
    const request = {
      method: 'DELETE',
      path: objectPath(this.#store.kind, key),
      body,
      accept: METADATA_ONLY,
      signal,
    } as const;
    try {
      const answer = await this.#send(key, request, undefined, true);
      // The server answers with the object if this still exists, otherwise with a Status.
      return (parseJson(answer.body, `the answer to DELETE ${request.path}`) as KubeObject).kind === 'Status';
    } catch (error) {
      if (isObjectGone(error, parseResourceKey(key).name)) return true;
      throw error;
    }
  }

  async #write(
    key: ObjectKey,
    request: KubeRequest,
    content: Content | undefined,
    there: boolean,
    fullResponse: boolean,
  ): Promise<Written> {
    const whole = fullResponse ? request : { ...request, accept: METADATA_ONLY };
    const { body } = await this.#send(key, whole, content, there);
    const object = parseJson(body, `the answer to ${request.method} ${request.path}`) as KubeObject &
      Readonly<Record<string, unknown>>;
    const { metadata: meta } = object;
    return fullResponse ? { meta, stored: this.#store.contentOf(object) } : { meta };
  }

  /**
   * @param content the content in the request
   * @param there whether the object exists already
   * @throws ApiError whose text quotes no value of the object, neither an old nor a new one
   */
  async #send(
    key: ObjectKey,
    request: KubeRequest,
    content: Content | undefined,
    there: boolean,
  ): Promise<KubeResponse> {
    try {
      return await this.#store.api.request(request);
    } catch (error) {
      if (!(error instanceof ApiError) || isRoutine(error)) throw error;
      let old: ReadObject | undefined;
      try {
        if (there) old = await this.#store.read(key, request.signal);
      } catch {
        // The old values are not known, so they cannot be removed from the message.
        throw withoutDetails(error);
      }
      const contents = [content, old?.content].filter((one) => one !== undefined);
      throw redactApiError(error, this.#store.kind, contents);
    }
  }
}

/** An empty value, as it stands in JSON behind its key. */
const EMPTY_VALUE = Buffer.from(':""');

/**
 * The fields of an object with this content, as JSON. In a custom resource the API server refuses an empty text in a
 * field of base64 values. So empty values are written to the field of plain texts (`Kind.overlay`).
 */
function piecesFor({ overlay }: Kind, { pieces }: Content): readonly ContentPiece[] {
  const [first, ...rest] = pieces;
  if (overlay === undefined || first === undefined || !first.json.bytes().includes(EMPTY_VALUE)) return pieces;
  const values = Object.entries(JSON.parse(first.json.utf8()) as Record<string, string>);
  const pieceOf = (field: string, entries: [string, string][]): ContentPiece => {
    // `Object.fromEntries` treats `__proto__` like any other key; an assignment would not.
    return { field, json: SecretBytes.fromUtf8(JSON.stringify(Object.fromEntries(entries))) };
  };
  const filled = values.filter(([, value]) => value !== '');
  const empty = values.filter(([, value]) => value === '');
  return [pieceOf(first.field, filled), ...rest, pieceOf(overlay, empty)];
}

/** The part of a JSON patch that sets or removes the field of plain texts. It adds the field before a removal. */
function overlayPatch(overlay: string, pieces: readonly ContentPiece[]): Buffer {
  const path = `/${overlay}`;
  const json = pieces.find(({ field }) => field === overlay)?.json.bytes();
  if (json === undefined)
    return Buffer.from(`,{"op":"add","path":"${path}","value":{}},{"op":"remove","path":"${path}"}`);
  return Buffer.concat([Buffer.from(`,{"op":"add","path":"${path}","value":`), json, Buffer.from('}')]);
}

/** Whether the message certainly comes from the server itself, not from a webhook or policy. */
function isRoutine(error: ApiError): boolean {
  return !error.isStatus || isConflict(error) || isAlreadyExists(error) || isNotFound(error) || isThrottled(error);
}

function present(desired: FieldPatch): Record<string, string> {
  return Object.fromEntries(Object.entries(desired).filter((entry): entry is [string, string] => entry[1] !== null));
}

/** JSON patch operations (RFC 6902) that turn `actual` into the desired state. */
function changes(path: string, actual: Readonly<Record<string, string>>, desired: FieldPatch): unknown[] {
  const differing = Object.entries(desired).filter(([key, value]) =>
    value === null ? Object.hasOwn(actual, key) || key === LAST_APPLIED : actual[key] !== value,
  );
  if (differing.length === 0) return [];
  // A patch cannot add a label to a map that does not exist. So the whole map is added.
  if (Object.keys(actual).length === 0) return [{ op: 'add', path, value: present(desired) }];
  return differing.flatMap(([key, value]) => {
    const member = `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    if (value !== null) return [{ op: 'add', path: member, value }];
    const remove = { op: 'remove', path: member };
    // The index does not keep this annotation, so it is not known whether it exists. The patch adds it before the
    // removal, because the server refuses to remove what does not exist.
    return key === LAST_APPLIED ? [{ op: 'add', path: member, value: '' }, remove] : [remove];
  });
}

export const OVERWRITTEN: Outcome = {
  state: 'error',
  ...because('Overwritten'),
};

/** Whether a target carries the mark that the server stored other data than Keyferry wrote. */
export function isMarkedOverwritten(observed: Observed | undefined): boolean {
  return observed?.annotations[OVERWRITTEN_MARK] !== undefined;
}

/** The desired object with the mark of `isMarkedOverwritten`. */
export function withOverwrittenMark(desired: DesiredObject): DesiredObject {
  return { ...desired, annotations: { ...desired.annotations, [OVERWRITTEN_MARK]: 'true' } };
}

/**
 * Whether the server stored another object than the desired one.
 * @param content the data that were written; `undefined`: none
 * @param kept the metadata that the index keeps of the response; `undefined`: computed here
 */
export function isOverwritten(
  { meta, stored }: Written,
  desired: DesiredObject,
  content: Content | undefined,
  kept?: Observed,
): boolean {
  const observed = kept === undefined || kept.trimmed === true ? observe(meta) : kept;
  if (!matches(desired, observed)) return true;
  if (stored === undefined || content === undefined) return false;
  const type = desired.type ?? content.type;
  return stored.fingerprint.digest !== content.fingerprint.digest || (type !== '' && stored.type !== type);
}
