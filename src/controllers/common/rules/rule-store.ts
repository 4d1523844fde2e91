/** Stores the rules of one controller in one cluster. They come from the watch and from responses to writes. */
import { namespaceOf, ruleKey, type RuleKey, ruleName } from '../../../copy/model/keys.ts';
import { type KubeObject, isOlder } from '../../../kube/api.ts';
import type { WatchSink } from '../../../kube/watch/watcher.ts';

/** The rule version of a custom resource. Spec, finalizers and deletion change it; status and labels do not. */
export function ruleVersion({ metadata }: KubeObject): string {
  const deleting = metadata.deletionTimestamp === undefined ? '' : ' deleting';
  return `${metadata.uid} ${metadata.generation ?? 0} ${(metadata.finalizers ?? []).join(',')}${deleting}`;
}

export interface RuleStoreOptions<Rule extends KubeObject> {
  /** First part of the rule keys. */
  readonly controller: string;
  /**
   * Returns the part of an object to store, without long fields that are not needed; `undefined`: the object is no
   * rule. Called for each event of the watch, so it must be fast.
   */
  readonly toRule: (object: KubeObject) => Rule | undefined;
  /** The version must change if the claims of the rule may change. It must not change with the status. */
  readonly versionOf: (rule: Rule) => string;
  /**
   * Called when a rule is added, is deleted or gets another version. If an object ceases to be a rule, the rule counts
   * as deleted.
   * @param initial the object is part of a list
   */
  readonly onChange?:
    | ((key: RuleKey, initial: boolean, before: Rule | undefined, after: Rule | undefined) => void)
    | undefined;
  /** Makes the rule to store if the versions are equal. To save memory, it can take parts of the stored rule. */
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

  /** The rule key of an object: `<controller>:<namespace>/<name>`. */
  key(namespace: string, name: string): RuleKey {
    return ruleKey(this.#options.controller, namespace, name);
  }

  /** The listener is called when the watch reports a rule whose version is already stored. The status may differ. */
  onSameVersion(listener: OnSameVersion<Rule>): void {
    this.#onSameVersion = listener;
  }

  get(key: RuleKey): Rule | undefined {
    return this.#rules.get(key);
  }

  all(): Iterable<[RuleKey, Rule]> {
    return this.#rules;
  }

  /** The rule version of an object; `undefined`: the object is no rule. */
  versionOf(object: KubeObject): string | undefined {
    const { toRule, versionOf } = this.#options;
    const rule = toRule(object);
    return rule === undefined ? undefined : versionOf(rule);
  }

  /**
   * Stores the response to a write, if the store still has the object (the same uid). If the watch has already brought
   * this resourceVersion, its object stays, because a response may have the status as sent, not as stored.
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
      for (const { metadata } of this.missingIn(keys, only)) this.#drop(this.#keyOf({ metadata }), false);
    },
  };

  /** The rules that a list lacks. The parameters are those of `WatchSink.prune`. */
  missingIn(keys: ReadonlySet<string>, namespace: string | undefined): readonly Rule[] {
    const isMissing = (key: RuleKey): boolean =>
      (namespace === undefined || namespaceOf(key) === namespace) && !keys.has(ruleName(key));
    return [...this.#rules].flatMap(([key, rule]) => (isMissing(key) ? [rule] : []));
  }

  /** Stores an object, except if the stored one is newer. @returns whether the store now has a rule with this name */
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
