/**
 * The writes to one kind of object in one cluster. Each is one request, and each carries what it rests on: a create cannot
 * overwrite, an update and a delete name the version that they were planned for.
 */
import type { KubeObject, KubeRequest, KubeResponse, ObjectMeta } from '../kube/api.ts';
import { METADATA_ONLY } from '../kube/api.ts';
import { ApiError, isAlreadyExists, isConflict, isNotFound, isObjectGone, isThrottled } from '../kube/errors.ts';
import { parseJson } from '../kube/json.ts';
import type { Wanted } from './claim.ts';
import { Content } from './content.ts';
import { parseHolderKey, type HolderKey } from './keys.ts';
import { isForbiddenType } from './kind.ts';
import type { KubeStore } from './kube-store.ts';
import { FIELD_MANAGER, type Observed } from './observed.ts';
import type { Wish } from './plan.ts';
import { speechless, unquoted } from './unquoted.ts';

const QUERY = { fieldManager: FIELD_MANAGER };

export interface CreateOptions {
  /** The server says what it would say, and creates nothing. */
  readonly dryRun?: boolean;
  readonly immutable?: boolean;
  /** Asks for what was stored, data included. */
  readonly proof?: boolean;
}

/** What the server answered to a write. */
export interface Written {
  readonly meta: ObjectMeta;
  /** The content that it stored, if that was asked for. */
  readonly stored?: Content;
}

export class KubeWriter {
  readonly #store: KubeStore;

  constructor(store: KubeStore) {
    this.#store = store;
  }

  /** Creates the target. @throws ApiError AlreadyExists, whoever's it is */
  async create(
    key: HolderKey,
    wish: Wish,
    content: Content,
    signal: AbortSignal,
    { dryRun = false, immutable = false, proof = false }: CreateOptions = {},
  ): Promise<Written> {
    const { kind } = this.#store;
    const { namespace, name } = parseHolderKey(key);
    const type = wish.type ?? content.type;
    if (isForbiddenType(type)) throw new TypeError(`refused to create a Secret of type ${type}`);
    const metadata = {
      name,
      namespace,
      labels: present(wish.labels),
      annotations: present({ ...wish.annotations, ...wish.stamps }),
    };
    const head = JSON.stringify({
      apiVersion: kind.apiVersion,
      kind: kind.kind,
      metadata,
      ...(type === '' ? {} : { type }),
      ...(immutable ? { immutable } : {}),
    });
    const pieces: Buffer[] = [Buffer.from(head.slice(0, -1))];
    for (const { field, json } of content.pieces) pieces.push(Buffer.from(`,"${field}":`), json.bytes());
    pieces.push(Buffer.from('}'));
    const request = {
      method: 'POST',
      path: this.#store.path(key, 'collection'),
      contentType: 'application/json',
      query: dryRun ? { ...QUERY, dryRun: 'All' } : QUERY,
    } as const;
    return await this.#write(key, { ...request, body: pieces, signal }, content, dryRun, proof);
  }

  /**
   * Changes what differs, and the data as a whole where `content` is given. Labels and annotations that are not named in the
   * wish stay as they are.
   * @throws ApiError Conflict if the target is no longer as observed, Invalid if it cannot be changed so
   */
  async update(
    key: HolderKey,
    observed: Observed,
    wish: Wish,
    content: Content | undefined,
    signal: AbortSignal,
    { proof = false }: Pick<CreateOptions, 'proof'> = {},
  ): Promise<Written> {
    // A patch that sets the resourceVersion is refused unless it is the current one; versions are unique in a cluster, so it
    // guards the uid as well.
    const operations: unknown[] = [
      { op: 'replace', path: '/metadata/resourceVersion', value: observed.resourceVersion },
      ...changes('/metadata/labels', observed.labels, wish.labels),
      ...changes('/metadata/annotations', observed.annotations, { ...wish.annotations, ...wish.stamps }),
    ];
    if (content !== undefined && content.type !== '' && wish.type !== '') {
      // The type cannot be changed; naming it makes the server say so instead of leaving a copy of the wrong type.
      operations.push({ op: 'add', path: '/type', value: wish.type ?? content.type });
    }
    const text = JSON.stringify(operations);
    const pieces: Buffer[] = [Buffer.from(text.slice(0, -1))];
    if (content !== undefined) {
      for (const { name } of this.#store.kind.fields) {
        const json = content.pieces.find(({ field }) => field === name)?.json.bytes() ?? Buffer.from('{}');
        pieces.push(Buffer.from(`,{"op":"add","path":"/${name}","value":`), json, Buffer.from('}'));
      }
    }
    pieces.push(Buffer.from(']'));
    const request = {
      method: 'PATCH',
      path: this.#store.path(key),
      contentType: 'application/json-patch+json',
      query: QUERY,
    } as const;
    return await this.#write(key, { ...request, body: pieces, signal }, content, true, proof);
  }

  /**
   * Deletes the target as it was observed. Being gone already is as good.
   * @returns whether it is gone; if not, somebody's finalizer holds it
   * @throws ApiError Conflict if it changed since
   */
  async delete(key: HolderKey, observed: Observed, signal: AbortSignal): Promise<boolean> {
    const preconditions = { uid: observed.uid, resourceVersion: observed.resourceVersion };
    const body = JSON.stringify({ apiVersion: 'v1', kind: 'DeleteOptions', preconditions });
    const request = { method: 'DELETE', path: this.#store.path(key), body, accept: METADATA_ONLY, signal } as const;
    try {
      const answer = await this.#send(key, request, undefined, true);
      // The object itself where it is still there, else a Status.
      return (parseJson(answer.body, `the answer to DELETE ${request.path}`) as KubeObject).kind === 'Status';
    } catch (error) {
      if (isObjectGone(error, parseHolderKey(key).name)) return true;
      throw error;
    }
  }

  async #write(
    key: HolderKey,
    request: KubeRequest,
    content: Content | undefined,
    there: boolean,
    proof: boolean,
  ): Promise<Written> {
    const asked = proof ? request : { ...request, accept: METADATA_ONLY };
    const { body } = await this.#send(key, asked, content, there);
    const object = parseJson(body, `the answer to ${request.method} ${request.path}`) as KubeObject &
      Readonly<Record<string, unknown>>;
    const { metadata: meta } = object;
    return proof ? { meta, stored: Content.ofObject(this.#store.kind, object, meta.resourceVersion) } : { meta };
  }

  /**
   * @param content what the request carries
   * @param there whether there is an object already
   * @throws ApiError without a value of either
   */
  async #send(
    key: HolderKey,
    request: KubeRequest,
    content: Content | undefined,
    there: boolean,
  ): Promise<KubeResponse> {
    try {
      return await this.#store.api.request(request);
    } catch (error) {
      if (!(error instanceof ApiError) || isRoutine(error)) throw error;
      throw await this.#unquoted(error, key, content, there, request.signal);
    }
  }

  async #unquoted(
    error: ApiError,
    key: HolderKey,
    content: Content | undefined,
    there: boolean,
    signal: AbortSignal | undefined,
  ): Promise<ApiError> {
    const contents = content === undefined ? [] : [content];
    try {
      const read = there ? await this.#store.read(key, signal) : undefined;
      if (read !== undefined) contents.push(read.content);
    } catch {
      // It is the refused write that is told, and what cannot be read cannot be looked for in its words.
      return speechless(error);
    }
    return unquoted(error, this.#store.kind, contents);
  }
}

/** The server's own words, and not those of somebody who was shown the object. */
function isRoutine(error: ApiError): boolean {
  return !error.isStatus || isConflict(error) || isAlreadyExists(error) || isNotFound(error) || isThrottled(error);
}

function present(wanted: Wanted): Record<string, string> {
  return Object.fromEntries(Object.entries(wanted).filter((entry): entry is [string, string] => entry[1] !== null));
}

/** JSON patch operations (RFC 6902) that turn `actual` into what is wanted of it. */
function changes(path: string, actual: Readonly<Record<string, string>>, wanted: Wanted): unknown[] {
  const differing = Object.entries(wanted).filter(([key, value]) =>
    value === null ? Object.hasOwn(actual, key) : actual[key] !== value,
  );
  if (differing.length === 0) return [];
  // An operation on a member of a map that is not there fails, so an empty one is added as a whole.
  if (Object.keys(actual).length === 0) return [{ op: 'add', path, value: present(wanted) }];
  return differing.map(([key, value]) => {
    const member = `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    return value === null ? { op: 'remove', path: member } : { op: 'add', path: member, value };
  });
}
