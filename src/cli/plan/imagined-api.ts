/**
 * The cluster as it would be with some manifests applied, to whoever reads it: what the manifests say, over what is there, as
 * `kubectl apply` would put it. Nothing can be written through it.
 */
import { CONFIG_MAP, type Kind, SECRET } from '../../copy/kind.ts';
import type { KubeApi, KubeObject, KubeRequest, KubeResponse, KubeStream, ObjectMeta } from '../../kube/api.ts';
import { isNotFound } from '../../kube/errors.ts';
import { parseJson } from '../../kube/json.ts';
import { rfc3339 } from '../../runtime/rfc3339.ts';
import { encoded, isMap, type Manifest, stringsOf } from './manifests.ts';

type Item = KubeObject & Readonly<Record<string, unknown>>;

interface Imagined {
  readonly item: Item;
  readonly isNew: boolean;
}

interface Given {
  readonly manifest: Manifest;
  readonly kind: Kind;
  readonly namespace: string;
}

const NAMESPACES = '/api/v1/namespaces';
const KINDS: readonly Kind[] = [SECRET, CONFIG_MAP];

export class ImaginedApi implements KubeApi {
  readonly cluster: string;
  readonly #api: KubeApi;
  readonly #now: number;
  /** By path of the object. */
  readonly #given = new Map<string, Given>();
  readonly #namespaces: readonly string[];
  readonly #imagined = new Map<string, Promise<Imagined>>();

  /** @param home namespace of objects that name none */
  constructor(api: KubeApi, manifests: readonly Manifest[], home: string, now: number) {
    this.cluster = api.cluster;
    this.#api = api;
    this.#now = now;
    const namespaces: string[] = [];
    for (const manifest of manifests) {
      const { name, namespace = home } = manifest.object.metadata;
      if (manifest.kind === 'v1 Namespace') namespaces.push(name);
      const kind = KINDS.find((one) => manifest.kind === `${one.apiVersion} ${one.kind}`);
      if (kind !== undefined) this.#given.set(pathOf(kind, namespace, name), { manifest, kind, namespace });
    }
    this.#namespaces = namespaces;
  }

  /** @throws what the real one throws, ManifestError naming the field, TypeError for anything but a GET */
  async request(request: KubeRequest): Promise<KubeResponse> {
    if (request.method !== 'GET') throw new TypeError(`a plan does not ${request.method}`);
    const { path, signal } = request;
    if (this.#given.has(path)) return answer((await this.#imagine(path, signal)).item);
    const response = await this.#api.request(request);
    const kind = KINDS.find(({ groupPath, plural }) => path === `${groupPath}/${plural}`);
    if (kind === undefined && path !== NAMESPACES) return response;
    const list = parseJson(response.body, `the list of ${path}`) as {
      readonly metadata: { readonly continue?: string };
      readonly items: readonly Item[] | null;
    };
    const isLast = (list.metadata.continue ?? '') === '';
    const items =
      kind === undefined
        ? this.#withNamespaces(list.items ?? [])
        : await this.#with(kind, list.items ?? [], isLast, signal);
    return answer({ ...list, items });
  }

  stream(): Promise<KubeStream> {
    return Promise.reject(new TypeError('a plan does not watch'));
  }

  /** One that is there already may come twice. */
  #withNamespaces(items: readonly Item[]): readonly Item[] {
    const there = new Set(items.map(({ metadata }) => metadata.name));
    const added = this.#namespaces.filter((name) => !there.has(name));
    return [...items, ...added.map((name): Item => ({ metadata: this.#metaOf(name, {}) }))];
  }

  async #with(kind: Kind, items: readonly Item[], isLast: boolean, signal: AbortSignal | undefined): Promise<Item[]> {
    const result: Item[] = [];
    for (const item of items) {
      const path = pathOf(kind, item.metadata.namespace ?? '', item.metadata.name);
      result.push(this.#given.has(path) ? (await this.#imagine(path, signal)).item : item);
    }
    if (!isLast) return result;
    for (const [path, given] of this.#given) {
      if (given.kind !== kind) continue;
      const { item, isNew } = await this.#imagine(path, signal);
      if (isNew) result.push(item);
    }
    return result;
  }

  async #imagine(path: string, signal: AbortSignal | undefined): Promise<Imagined> {
    let imagined = this.#imagined.get(path);
    if (imagined === undefined) this.#imagined.set(path, (imagined = this.#make(path, signal)));
    return await imagined;
  }

  async #make(path: string, signal: AbortSignal | undefined): Promise<Imagined> {
    const given = this.#given.get(path);
    if (given === undefined) throw new TypeError(`no manifest for ${path}`);
    const wanted = contentOf(given);
    const { metadata } = given.manifest.object;
    const there = await this.#there(path, signal);
    if (there === undefined) {
      const { labels = {}, annotations = {} } = metadata;
      const meta = { ...this.#metaOf(metadata.name, { labels, annotations }), namespace: given.namespace };
      const type = given.kind.typed ? { type: 'Opaque' } : {};
      return { item: { ...type, ...wanted, metadata: meta }, isNew: true };
    }
    const labels = { ...there.metadata.labels, ...metadata.labels };
    const annotations = { ...there.metadata.annotations, ...metadata.annotations };
    const item: Record<string, unknown> = { ...there };
    for (const [field, value] of Object.entries(wanted)) {
      const before = there[field];
      item[field] = isMap(value) ? { ...(isMap(before) ? before : {}), ...value } : value;
    }
    const same = (a: unknown, b: unknown): boolean => sorted(a) === sorted(b);
    const meta: ObjectMeta = { ...there.metadata, labels, annotations };
    if (same({ ...item, metadata: meta }, withMaps(there))) return { item: there, isNew: false };
    // Who wrote the data last is who applies this; its version comes after that which is there.
    const { managedFields, ...rest } = meta;
    const keep = Object.keys(wanted).length === 0 && managedFields !== undefined ? { managedFields } : {};
    const resourceVersion = next(rest.resourceVersion);
    return { item: { ...item, metadata: { ...rest, ...keep, resourceVersion } }, isNew: false };
  }

  async #there(path: string, signal: AbortSignal | undefined): Promise<Item | undefined> {
    try {
      const { body } = await this.#api.request({ method: 'GET', path, ...(signal === undefined ? {} : { signal }) });
      return parseJson(body, `the answer to GET ${path}`) as Item;
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  #metaOf(name: string, more: Pick<ObjectMeta, 'labels' | 'annotations'>): ObjectMeta {
    return { name, uid: `new ${name}`, resourceVersion: '1', creationTimestamp: rfc3339(this.#now), ...more };
  }
}

/** What a manifest says of content, type and immutability: as the server would store it. */
function contentOf({ manifest, kind }: Given): Readonly<Record<string, unknown>> {
  const { object, where } = manifest;
  const content: Record<string, unknown> = {};
  for (const { name } of kind.fields) {
    const values = object[name];
    if (values === undefined || values === null) continue;
    content[name] = stringsOf(values, where, name);
  }
  if (kind === SECRET && object['stringData'] !== undefined) {
    const texts = stringsOf(object['stringData'], where, 'stringData');
    content['data'] = { ...(content['data'] as Record<string, string> | undefined), ...encoded(texts) };
  }
  for (const field of ['type', 'immutable']) if (object[field] !== undefined) content[field] = object[field];
  return content;
}

/** Empty maps, which the server leaves out, as the manifests' side has them. */
function withMaps(item: Item): unknown {
  const { labels = {}, annotations = {} } = item.metadata;
  return { ...item, metadata: { ...item.metadata, labels, annotations } };
}

function sorted(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    isMap(inner) ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1))) : inner,
  );
}

function next(version: string): string {
  return /^\d+$/.test(version) ? String(BigInt(version) + 1n) : `${version}+`;
}

function pathOf({ groupPath, plural }: Kind, namespace: string, name: string): string {
  return `${groupPath}/namespaces/${encodeURIComponent(namespace)}/${plural}/${encodeURIComponent(name)}`;
}

function answer(value: unknown): KubeResponse {
  return { status: 200, body: Buffer.from(JSON.stringify(value)) };
}
