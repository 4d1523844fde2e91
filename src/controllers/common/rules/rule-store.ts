/** The rule objects of one controller in one cluster, from the watch and from the responses to our own writes. */
import { namespaceOf, ruleKey, type RuleKey, ruleName } from '../../../copy/model/keys.ts';
import { type KubeObject, isOlder } from '../../../kube/api.ts';
import type { WatchSink } from '../../../kube/watch/watcher.ts';

/** For a custom resource: changes with its spec, its finalizers and its deletion, and not with its status, labels or annotations. */
export function ruleVersion({ metadata }: KubeObject): string {
  const deleting = metadata.deletionTimestamp === undefined ? '' : ' deleting';
  return `${metadata.uid} ${metadata.generation ?? 0} ${(metadata.finalizers ?? []).join(',')}${deleting}`;
}

export interface RuleStoreOptions<Rule extends KubeObject> {
  /** First part of the rule keys. */
  readonly controller: string;
  /**
   * The part of an object that is stored, without fields that are long and not used. `undefined`: the object is not a rule. Called for
   * each event of the watch, so it must be cheap.
   */
  readonly toRule: (object: KubeObject) => Rule | undefined;
  /** Changes whenever the claims of a rule may change, and not with its status. */
  readonly versionOf: (rule: Rule) => string;
  /**
   * A rule was added, deleted or changed to another version; an object that is no rule any more counts as deleted.
   * @param initial it is part of a list, not a change
   */
  readonly onChange?:
    | ((key: RuleKey, initial: boolean, before: Rule | undefined, after: Rule | undefined) => void)
    | undefined;
  /** The watch reports a rule in the stored version. Its status may be another one, also in the same resourceVersion: see `storeResponse`. */
  readonly onSameVersion?: ((key: RuleKey, before: Rule, after: Rule) => void) | undefined;
}

export class RuleStore<Rule extends KubeObject> {
  readonly #options: RuleStoreOptions<Rule>;
  readonly #rules = new Map<RuleKey, Rule>();

  constructor(options: RuleStoreOptions<Rule>) {
    this.#options = options;
  }

  get size(): number {
    return this.#rules.size;
  }

  /** The key of an object as a rule: `<controller>:<namespace>/<name>`. */
  key(namespace: string, name: string): RuleKey {
    return ruleKey(this.#options.controller, namespace, name);
  }

  get(key: RuleKey): Rule | undefined {
    return this.#rules.get(key);
  }

  all(): Iterable<[RuleKey, Rule]> {
    return this.#rules;
  }

  /** The version that an object from the server has as a rule. `undefined`: the object is not a rule. */
  versionOf(object: KubeObject): string | undefined {
    const { toRule, versionOf } = this.#options;
    const rule = toRule(object);
    return rule === undefined ? undefined : versionOf(rule);
  }

  /**
   * Stores the response to our own write, unless the object was deleted or replaced meanwhile. If the watch has brought the same version
   * already, that one stays: its status is the one that the server stored, and a response may have the status as it was sent.
   */
  storeResponse(object: KubeObject): void {
    const { uid, resourceVersion } = this.#rules.get(this.#keyOf(object))?.metadata ?? {};
    if (uid === object.metadata.uid && resourceVersion !== object.metadata.resourceVersion) this.#put(object);
  }

  readonly sink: WatchSink = {
    upsert: (object, initial) => this.put(object, initial),
    remove: (object) => {
      this.#drop(this.#keyOf(object), false);
    },
    prune: (keys, _version, only) => {
      for (const key of this.#rules.keys()) {
        const isListed = only === undefined || namespaceOf(key) === only;
        if (isListed && !keys.has(ruleName(key))) this.#drop(key, false);
      }
    },
  };

  /** Stores an object unless the stored one is newer. @returns whether the store has a rule of this name now */
  put(object: KubeObject, initial = false): boolean {
    return this.#put(object, initial, this.#options.onSameVersion);
  }

  #put(object: KubeObject, initial = false, onSameVersion?: RuleStoreOptions<Rule>['onSameVersion']): boolean {
    const { toRule, versionOf, onChange } = this.#options;
    const key = this.#keyOf(object);
    const before = this.#rules.get(key);
    if (before !== undefined && isOlder(object.metadata.resourceVersion, before.metadata.resourceVersion)) return true;
    const after = toRule(object);
    if (after === undefined) {
      this.#drop(key, initial);
      return false;
    }
    this.#rules.set(key, after);
    if (before === undefined || versionOf(before) !== versionOf(after)) onChange?.(key, initial, before, after);
    else onSameVersion?.(key, before, after);
    return true;
  }

  #keyOf({ metadata }: KubeObject): RuleKey {
    return this.key(metadata.namespace ?? '', metadata.name);
  }

  #drop(key: RuleKey, initial: boolean): void {
    const before = this.#rules.get(key);
    if (!this.#rules.delete(key)) return;
    this.#options.onChange?.(key, initial, before, undefined);
  }
}
