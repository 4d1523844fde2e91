/**
 * The cluster as it would be with some manifests applied: what they say over what is there. Reads only, and of Secrets only those
 * that the plan asks for.
 */
import { MIRRORS_API_VERSION, SECRET_MIRROR_KIND, type SecretMirror } from '../../controllers/mirrors/api.ts';
import { Content } from '../../copy/content.ts';
import type { SourceView } from '../../copy/claim.ts';
import { parseHolderKey, type HolderKey } from '../../copy/keys.ts';
import { SECRET } from '../../copy/kind.ts';
import { gistOf, KubeStore } from '../../copy/kube-store.ts';
import { observe, type Observed } from '../../copy/observed.ts';
import type { Gist } from '../../copy/plan.ts';
import type { KubeApi, ObjectMeta } from '../../kube/api.ts';
import { rfc3339 } from '../../runtime/rfc3339.ts';
import { encoded, isMap, type Manifest, ManifestError, stringsOf } from './manifests.ts';

/** A Secret as it would be. */
export interface SecretState {
  readonly observed: Observed;
  readonly gist: Gist;
  readonly immutable: boolean;
  /** It is in the manifests: somebody's own. */
  readonly given: boolean;
}

/** Version of what is not in the cluster yet. */
const GIVEN_VERSION = '0';

export class Overlay {
  readonly namespaces: readonly string[];
  readonly secrets: ReadonlyMap<HolderKey, SecretState>;
  readonly mirrors: readonly (Manifest & { readonly namespace: string })[];
  /** Manifests of other kinds than those that are copied, or say what is. */
  readonly ignored: number;
  readonly store: KubeStore;
  readonly #read = new Map<HolderKey, Promise<SecretState | undefined>>();

  /** @param namespace of objects that name none, as with `kubectl apply`. @throws ManifestError */
  constructor(api: KubeApi, manifests: readonly Manifest[], namespace: string, now: number) {
    this.store = new KubeStore({ api, kind: SECRET, onChange: () => undefined, onKnown: () => undefined });
    const namespaces: string[] = [];
    const secrets = new Map<HolderKey, SecretState>();
    const mirrors: (Manifest & { namespace: string })[] = [];
    let ignored = 0;
    for (const manifest of manifests) {
      const { metadata } = manifest.object;
      const home = metadata.namespace ?? namespace;
      if (manifest.kind === 'v1 Namespace') namespaces.push(metadata.name);
      else if (manifest.kind === 'v1 Secret') secrets.set(this.store.key(home, metadata.name), given(manifest, now));
      else if (manifest.kind === `${MIRRORS_API_VERSION} ${SECRET_MIRROR_KIND}`)
        mirrors.push({ ...manifest, namespace: home });
      else if (manifest.kind !== 'v1 ConfigMap') ignored += 1;
    }
    this.namespaces = namespaces;
    this.secrets = secrets;
    this.mirrors = mirrors;
    this.ignored = ignored;
  }

  /** A Secret as it would be; read from the cluster once. */
  async secret(key: HolderKey, signal?: AbortSignal): Promise<SecretState | undefined> {
    const given = this.secrets.get(key);
    if (given !== undefined) return given;
    let read = this.#read.get(key);
    if (read === undefined) this.#read.set(key, (read = this.#fetch(key, signal)));
    return await read;
  }

  async #fetch(key: HolderKey, signal?: AbortSignal): Promise<SecretState | undefined> {
    const read = await this.store.read(key, signal);
    if (read === undefined) return undefined;
    const { object, content, immutable } = read;
    return { observed: observe(object.metadata), gist: gistOf(content), immutable, given: false };
  }
}

/** What the engine would know of a source. */
export function viewOf(key: HolderKey, state: SecretState | undefined): SourceView {
  if (state !== undefined) {
    const { resourceVersion, labels, annotations } = state.observed;
    return { state: 'present', version: resourceVersion, labels, annotations };
  }
  const { namespace, name } = parseHolderKey(key);
  return { state: 'missing', reason: 'NoSecret', message: `secret ${namespace}/${name} is not there` };
}

/**
 * A mirror as it would be: what the manifest says over what the server has.
 * @throws ManifestError naming the field
 */
export function appliedMirror(
  { where, object }: Manifest,
  namespace: string,
  there: SecretMirror | undefined,
  now: number,
): SecretMirror {
  const { spec } = object;
  if (spec !== undefined && !isMap(spec)) throw new ManifestError(`${where}: spec is not an object`);
  for (const field of ['source', 'destination']) {
    const value = spec?.[field];
    if (value !== undefined && !isMap(value)) throw new ManifestError(`${where}: spec.${field} is not an object`);
  }
  const patterns = (spec?.['destination'] as Record<string, unknown> | undefined)?.['namespaces'];
  if (patterns !== undefined && !(Array.isArray(patterns) && patterns.every((item) => typeof item === 'string'))) {
    throw new ManifestError(`${where}: spec.destination.namespaces is not a list of strings`);
  }
  const metadata: ObjectMeta = there?.metadata ?? created(object.metadata.name, namespace, now);
  return { metadata, spec: merged(there?.spec ?? {}, spec ?? {}) };
}

function given({ where, object }: Manifest, now: number): SecretState {
  const data = stringsOf(object['data'] ?? {}, where, 'data');
  const texts = stringsOf(object['stringData'] ?? {}, where, 'stringData');
  const { name, namespace = '', labels = {}, annotations = {} } = object.metadata;
  const type = typeof object['type'] === 'string' ? object['type'] : 'Opaque';
  const content = Content.ofFields(SECRET, { data: { ...data, ...encoded(texts) } }, type, GIVEN_VERSION);
  const observed = observe({ ...created(name, namespace, now), labels, annotations });
  return { observed, gist: gistOf(content), immutable: object['immutable'] === true, given: true };
}

function created(name: string, namespace: string, now: number): ObjectMeta {
  const creationTimestamp = rfc3339(now);
  return { name, namespace, uid: 'new', resourceVersion: GIVEN_VERSION, generation: 1, creationTimestamp };
}

function merged(below: object, above: object): Record<string, unknown> {
  const result: Record<string, unknown> = { ...below };
  for (const [key, value] of Object.entries(above)) {
    const other = result[key];
    result[key] = isMap(value) && isMap(other) ? merged(other, value) : value;
  }
  return result;
}
