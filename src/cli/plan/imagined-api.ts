/**
 * A read-only API of the cluster as it would be after `kubectl apply` of some manifests.
 *
 * Lists and single objects agree: whether a manifest changes an object depends on its metadata alone.
 */
import { MIRRORS_GROUP, MIRRORS_VERSION, SECRET_MIRROR_KIND } from '../../controllers/mirrors/api.ts';
import type { Kind } from '../../copy/model/kind.ts';
import type { KubeApi, KubeRequest, KubeResponse, KubeStream, ObjectMeta } from '../../kube/api.ts';
import { isNotFound } from '../../kube/errors.ts';
import { parseJson } from '../../kube/json.ts';
import type { Listed } from '../../kube/list-each.ts';
import { rfc3339 } from '../../runtime/rfc3339.ts';
import type { Collection } from '../kube-list.ts';
import { KINDS, MIRRORS, NAMESPACES } from '../look/inventory.ts';
import { appliedContent, appliedSpec, lastApplied, mapIn, merged, hasContent } from './applied.ts';
import type { Manifest } from './manifests.ts';

interface List {
  readonly metadata: { readonly continue?: string };
  readonly items: readonly Listed[] | null;
}

/** A kind of which manifests are planned. */
interface Planned extends Collection {
  /** `v1 Secret`, in every version that is served. */
  readonly names: readonly string[];
  readonly namespaced: boolean;
  /** Always served. */
  readonly builtIn: boolean;
  readonly content: Kind | undefined;
}

const PLANNED: readonly Planned[] = [
  { names: ['v1 Namespace'], ...NAMESPACES, namespaced: false, builtIn: true, content: undefined },
  ...KINDS.map((kind) => {
    const { groupPath, plural } = kind;
    return { names: [`v1 ${kind.kind}`], groupPath, plural, namespaced: true, builtIn: true, content: kind };
  }),
  {
    // Both versions are one object, which is stored as it was sent.
    names: [MIRRORS_VERSION, 'v1alpha1'].map((version) => `${MIRRORS_GROUP}/${version} ${SECRET_MIRROR_KIND}`),
    ...MIRRORS,
    namespaced: true,
    builtIn: false,
    content: undefined,
  },
];

/** A manifest of a kind that is planned. */
export interface Given {
  readonly manifest: Manifest;
  readonly planned: Planned;
  /** '' for a Namespace. */
  readonly namespace: string;
  /** In the order in which they would be applied. */
  readonly index: number;
}

/** `undefined`: not a kind that Keyferry uses. @param home namespace of objects that name none */
export function givenOf(manifest: Manifest, home: string, index: number): Given | undefined {
  const planned = PLANNED.find(({ names }) => names.includes(manifest.kind));
  if (planned === undefined) return undefined;
  return { manifest, planned, namespace: planned.namespaced ? (manifest.metadata.namespace ?? home) : '', index };
}

export class ImaginedApi implements KubeApi {
  readonly cluster: string;
  readonly #api: KubeApi;
  readonly #now: number;
  /** By path of the object. The last of several manifests of one object counts. */
  readonly #given: ReadonlyMap<string, Given>;
  /** By list that is being read: paths of the given objects that it has returned. */
  readonly #seen = new Map<string, Set<string>>();
  #lacksApi = false;

  constructor(api: KubeApi, given: readonly Given[], now: number) {
    this.cluster = api.cluster;
    this.#api = api;
    this.#now = now;
    this.#given = new Map(given.map((one) => [pathOf(one, one.manifest.metadata.name), one]));
  }

  /** Whether a list found that the API of SecretMirrors is not installed. */
  get lacksApi(): boolean {
    return this.#lacksApi;
  }

  /** @throws what the real one throws, ManifestError naming the field, TypeError for anything but a GET */
  async request(request: KubeRequest): Promise<KubeResponse> {
    if (request.method !== 'GET') throw new TypeError(`a plan does not ${request.method}`);
    const { path, query } = request;
    const given = this.#given.get(path);
    if (given !== undefined) return answer(this.#applied(given, await this.#find(request)));
    const planned = PLANNED.find((one) => namespaceOf(one, path) !== undefined);
    if (planned === undefined) return await this.#api.request(request);
    return answer(await this.#list(planned, request, query?.['continue'] === undefined));
  }

  stream(): Promise<KubeStream> {
    return Promise.reject(new TypeError('a plan does not watch'));
  }

  async #list(planned: Planned, request: KubeRequest, isFirst: boolean): Promise<List> {
    const { path } = request;
    const list = await this.#read(planned, request);
    // Lists of one path with other selectors may run at once.
    const id = `${path} ${String(request.query?.['fieldSelector'])} ${request.accept ?? ''}`;
    const seen = (isFirst ? undefined : this.#seen.get(id)) ?? new Set<string>();
    this.#seen.set(id, seen);
    const items = (list.items ?? []).map((item) => {
      const place = pathOf({ planned, namespace: item.metadata.namespace ?? '' }, item.metadata.name);
      const given = this.#given.get(place);
      if (given === undefined) return item;
      seen.add(place);
      return this.#applied(given, item);
    });
    if ((list.metadata.continue ?? '') !== '') return { ...list, items };
    const home = namespaceOf(planned, path);
    for (const [place, given] of this.#given) {
      const isListed = given.planned === planned && (home === '' || given.namespace === home);
      if (isListed && !seen.has(place) && isSelected(request, given)) items.push(this.#applied(given, undefined));
    }
    this.#seen.delete(id);
    return { ...list, items };
  }

  async #read({ builtIn }: Planned, request: KubeRequest): Promise<List> {
    try {
      const { body } = await this.#api.request(request);
      return parseJson(body, `the list of ${request.path}`) as List;
    } catch (error) {
      // Manifests can be planned before the CRD is installed.
      if (!builtIn && isNotFound(error)) {
        this.#lacksApi = true;
        return { metadata: {}, items: [] };
      }
      throw error;
    }
  }

  async #find(request: KubeRequest): Promise<Listed | undefined> {
    try {
      const { body } = await this.#api.request(request);
      return parseJson(body, `the answer to GET ${request.path}`) as Listed;
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  /** @param there with or without its content */
  #applied(given: Given, there: Listed | undefined): Listed {
    const { manifest, planned, namespace, index } = given;
    const { name, labels = {}, annotations = {} } = manifest.metadata;
    const last = lastApplied(there?.metadata.annotations);
    const lastMeta = mapIn(last, 'metadata');
    const before: ObjectMeta = there?.metadata ?? {
      name,
      ...(namespace === '' ? {} : { namespace }),
      // The uid orders rules that are created in the same second.
      uid: `new ${String(index).padStart(9, '0')}`,
      resourceVersion: '1',
      generation: 1,
      creationTimestamp: rfc3339(this.#now),
    };
    const meta = {
      ...before,
      labels: merged(before.labels ?? {}, mapIn(lastMeta, 'labels'), labels) as Record<string, string>,
      annotations: merged(before.annotations ?? {}, mapIn(lastMeta, 'annotations'), annotations) as Record<
        string,
        string
      >,
    };
    if (planned.content === undefined) {
      return planned.builtIn ? { metadata: meta } : { metadata: meta, spec: appliedSpec(there ?? {}, last, manifest) };
    }
    const type = there === undefined && planned.content.typed ? { type: 'Opaque' } : {};
    const content = { ...type, ...appliedContent(planned.content, there ?? type, last, manifest) };
    if (there === undefined) return { ...content, metadata: meta };
    const setsContent = hasContent(planned.content, manifest);
    // A version that no copy holds, so that the content is read and compared.
    const isOther = setsContent || !same(before.labels, meta.labels) || !same(before.annotations, meta.annotations);
    const resourceVersion = isOther ? next(before.resourceVersion) : before.resourceVersion;
    const { managedFields, ...rest } = meta;
    // Applying the manifest makes its user the last one to write the data.
    const keep = setsContent || managedFields === undefined ? {} : { managedFields };
    return { ...there, ...content, metadata: { ...rest, ...keep, resourceVersion } };
  }
}

/** The namespace of a collection's path, '' for all of them; `undefined`: it is another path. */
function namespaceOf({ groupPath, plural, namespaced }: Planned, path: string): string | undefined {
  if (path === `${groupPath}/${plural}`) return '';
  const [start, end] = [`${groupPath}/namespaces/`, `/${plural}`];
  if (!namespaced || !path.startsWith(start) || !path.endsWith(end)) return undefined;
  const name = path.slice(start.length, -end.length);
  return name === '' || name.includes('/') ? undefined : decodeURIComponent(name);
}

function isSelected({ query }: KubeRequest, { manifest }: Given): boolean {
  const selector = query?.['fieldSelector'];
  return selector === undefined || selector === `metadata.name=${manifest.metadata.name}`;
}

function pathOf({ planned, namespace }: Pick<Given, 'planned' | 'namespace'>, name: string): string {
  const { groupPath, plural, namespaced } = planned;
  const place = namespaced ? `/namespaces/${encodeURIComponent(namespace)}` : '';
  return `${groupPath}${place}/${plural}/${encodeURIComponent(name)}`;
}

function same(before: Readonly<Record<string, string>> = {}, after: Readonly<Record<string, string>>): boolean {
  const keys = Object.keys(after);
  return keys.length === Object.keys(before).length && keys.every((key) => before[key] === after[key]);
}

function next(version: string): string {
  return /^\d+$/.test(version) ? String(BigInt(version) + 1n) : `${version}+`;
}

function answer(value: unknown): KubeResponse {
  return { status: 200, body: Buffer.from(JSON.stringify(value)) };
}
