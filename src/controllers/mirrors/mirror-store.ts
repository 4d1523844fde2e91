/** The SecretMirrors of the cluster, from the watch and from the responses to our own writes. */
import type { KubeObject } from '../../kube/api.ts';
import { isOlder } from '../../kube/resource-version.ts';
import type { WatchSink } from '../../kube/watch/watcher.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import { MIRRORS_CONTROLLER, type SecretMirror } from './api.ts';
import { withoutOurSpec } from './spec-owner.ts';

export function mirrorRule(namespace: string, name: string): RuleKey {
  return `${MIRRORS_CONTROLLER}:${namespace}/${name}`;
}

/** `<namespace>/<name>`, as in the owner's mark on copies. */
export function mirrorName(rule: RuleKey): string {
  return rule.slice(MIRRORS_CONTROLLER.length + 1);
}

/** Maximum length of a stored list of patterns, characters: it can be as long as an object in etcd, and there may be thousands of mirrors. */
export const MAX_LIST = 64 * 1024;

export class MirrorStore {
  /** Lengths of lists that are too long to store. */
  readonly #tooLong = new Map<RuleKey, number>();
  readonly #mirrors = new Map<RuleKey, SecretMirror>();
  readonly #onChange: (rule: RuleKey, initial: boolean) => void;

  /** @param onChange a mirror was added, deleted or changed, except its status */
  constructor(onChange: (rule: RuleKey, initial: boolean) => void) {
    this.#onChange = onChange;
  }

  get(rule: RuleKey): SecretMirror | undefined {
    return this.#mirrors.get(rule);
  }

  /** Length of the list of namespaces in characters, if it is too long. The stored list is then empty. */
  tooLongPatterns(rule: RuleKey): number | undefined {
    return this.#tooLong.get(rule);
  }

  all(): Iterable<[RuleKey, SecretMirror]> {
    return this.#mirrors;
  }

  /** Stores the response to our own write, unless the mirror was deleted or replaced meanwhile. */
  storeResponse(object: KubeObject): void {
    const { namespace = '', name, uid } = object.metadata;
    if (this.#mirrors.get(mirrorRule(namespace, name))?.metadata.uid === uid) this.put(object);
  }

  readonly sink: WatchSink = {
    upsert: (object, initial) => {
      this.put(object, initial);
      return true;
    },
    remove: ({ metadata }) => {
      this.#drop(mirrorRule(metadata.namespace ?? '', metadata.name));
    },
    prune: (keys) => {
      for (const rule of this.#mirrors.keys()) if (!keys.has(mirrorName(rule))) this.#drop(rule);
    },
  };

  /** Stores a mirror unless the stored one is newer. */
  put(object: KubeObject, initial = false): void {
    const rule = mirrorRule(object.metadata.namespace ?? '', object.metadata.name);
    const before = this.#mirrors.get(rule);
    if (before !== undefined && isOlder(object.metadata.resourceVersion, before.metadata.resourceVersion)) return;
    const length = lengthOf((object as SecretMirror).spec?.destination?.namespaces);
    if (length > MAX_LIST) this.#tooLong.set(rule, length);
    else this.#tooLong.delete(rule);
    const after = withoutUnusedFields(object, length <= MAX_LIST);
    this.#mirrors.set(rule, after);
    if (before === undefined || ruleVersion(before) !== ruleVersion(after)) this.#onChange(rule, initial);
  }

  #drop(rule: RuleKey): void {
    this.#tooLong.delete(rule);
    if (this.#mirrors.delete(rule)) this.#onChange(rule, false);
  }
}

/** Changes whenever the claims of a mirror may change, and not with its status. */
export function ruleVersion({ metadata }: SecretMirror): string {
  const deleting = metadata.deletionTimestamp === undefined ? '' : ' deleting';
  return `${metadata.uid} ${metadata.generation ?? 0} ${(metadata.finalizers ?? []).join(',')}${deleting}`;
}

function lengthOf(list: readonly string[] | undefined): number {
  return list?.reduce((sum, text) => sum + text.length, 0) ?? 0;
}

/**
 * Removes fields that are not used: annotations may contain a whole earlier version of the object. Managed fields are stored only while
 * Keyferry owns parts of the spec.
 */
function withoutUnusedFields(mirror: SecretMirror, withList: boolean): SecretMirror {
  const { managedFields, annotations: _, labels: __, ...metadata } = mirror.metadata;
  const kept = managedFields !== undefined && withoutOurSpec(managedFields) !== undefined ? { managedFields } : {};
  const withoutUnusedFields = { ...mirror, metadata: { ...metadata, ...kept } };
  if (withList) return withoutUnusedFields;
  const { spec } = mirror;
  return { ...withoutUnusedFields, spec: { ...spec, destination: { ...spec?.destination, namespaces: [] } } };
}
