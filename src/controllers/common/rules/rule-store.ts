/** Stores the rule objects of one controller in one cluster, from the watch and from the answers to own writes. */
import { namespaceOf, ruleKey, type RuleKey, ruleName } from '../../../copy/model/keys.ts';
import { type KubeObject, isOlder } from '../../../kube/api.ts';
import type { WatchSink } from '../../../kube/watch/watcher.ts';

/** The version of a custom resource as a rule: spec, finalizers and deletion change it, a status or label does not. */
export function ruleVersion({ metadata }: KubeObject): string {
  const deleting = metadata.deletionTimestamp === undefined ? '' : ' deleting';
  return `${metadata.uid} ${metadata.generation ?? 0} ${(metadata.finalizers ?? []).join(',')}${deleting}`;
}

export interface RuleStoreOptions<Rule extends KubeObject> {
  /** First part of the rule keys. */
  readonly controller: string;
  /**
   * The part of an object that is stored, without long fields that nobody reads. `undefined`: the object is no rule.
   * Called for each event of the watch, so it must be fast.
   */
  readonly toRule: (object: KubeObject) => Rule | undefined;
  /** The version changes when the claims of the rule may change, and does not change with its status. */
  readonly versionOf: (rule: Rule) => string;
  /**
   * A rule was added, deleted or changed to another version. An object that is no rule any more counts as deleted.
   * @param initial the object is part of a list
   */
  readonly onChange?:
    | ((key: RuleKey, initial: boolean, before: Rule | undefined, after: Rule | undefined) => void)
    | undefined;
  /** Makes a rule in the stored version from the stored one and the reported one: parts that follow from the version can stay the same objects. */
  readonly merge?: (stored: Rule, reported: Rule) => Rule;
}

type OnSameVersion<Rule> = (key: RuleKey, before: Rule, after: Rule) => void;

export class RuleStore<Rule extends KubeObject> {
  readonly #options: RuleStoreOptions<Rule>;
  readonly #rules = new Map<RuleKey, Rule>();
  #onSameVersion: OnSameVersion<Rule> | undefined;

  constructor(options: RuleStoreOptions<Rule>) {
    this.#options = options;
  }

  /** The key of an object as a rule: `<controller>:<namespace>/<name>`. */
  key(namespace: string, name: string): RuleKey {
    return ruleKey(this.#options.controller, namespace, name);
  }

  /** Called when the watch reports a rule in the stored version. Its status may differ all the same: see `storeResponse`. */
  onSameVersion(listener: OnSameVersion<Rule>): void {
    this.#onSameVersion = listener;
  }

  get(key: RuleKey): Rule | undefined {
    return this.#rules.get(key);
  }

  all(): Iterable<[RuleKey, Rule]> {
    return this.#rules;
  }

  /** The version of an object as a rule; `undefined`: the object is no rule. */
  versionOf(object: KubeObject): string | undefined {
    const { toRule, versionOf } = this.#options;
    const rule = toRule(object);
    return rule === undefined ? undefined : versionOf(rule);
  }

  /**
   * Stores the answer to an own write, if the store still has the object (the same uid). If the watch was faster, its
   * object stays: it has the status as the server stored it, and an answer may have the status as it was sent.
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

  /** Stores an object, if the stored one is not newer. @returns whether the store has a rule of this name now */
  put(object: KubeObject, initial = false): boolean {
    return this.#put(object, initial, this.#onSameVersion);
  }

  #put(object: KubeObject, initial = false, onSameVersion?: OnSameVersion<Rule>): boolean {
    const { toRule, versionOf, onChange, merge } = this.#options;
    const key = this.#keyOf(object);
    const before = this.#rules.get(key);
    if (before !== undefined && isOlder(object.metadata.resourceVersion, before.metadata.resourceVersion)) return true;
    const after = toRule(object);
    if (after === undefined) {
      this.#drop(key, initial);
      return false;
    }
    if (before === undefined || versionOf(before) !== versionOf(after)) {
      this.#rules.set(key, after);
      onChange?.(key, initial, before, after);
    } else {
      const merged = merge?.(before, after) ?? after;
      this.#rules.set(key, merged);
      onSameVersion?.(key, before, merged);
    }
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
