/** Stores the rules of one controller in one cluster. They come from the watch and from responses to writes. */
import { namespaceOf, ruleKey, type RuleKey, ruleName } from '../../model/keys.ts';
import { type KubeObject, isOlder } from '../../../kube/api.ts';
import type { WatchSink } from '../../../kube/watch/watcher.ts';

/** The object of a rule, as it is kept. */
export interface RuleObject extends KubeObject {
  /** The object is gone from the server, but the work for its deletion is not done. @see RuleStoreOptions.outlives */
  readonly isGone?: true;
}

/** The rule version of a custom resource. Spec, finalizers and deletion change it; status and labels do not. */
export function ruleVersion({ metadata, isGone }: RuleObject): string {
  const state = isGone === true ? ' gone' : metadata.deletionTimestamp === undefined ? '' : ' deleting';
  return `${metadata.uid} ${metadata.generation ?? 0} ${(metadata.finalizers ?? []).join(',')}${state}`;
}

/** Maximum length of a kept list of finalizers, characters. A user's list may have a megabyte. */
const MAX_FINALIZERS = 4096;
/** Stands for finalizers that were dropped from a list. The API server accepts no finalizer of this name. */
export const MORE_FINALIZERS = '…';

/** If the list is too long, drops all finalizers except those of Keyferry. */
export function keptFinalizers(finalizers: readonly string[] = [], own: ReadonlySet<string>): readonly string[] {
  if (finalizers.reduce((length, one) => length + one.length, 0) <= MAX_FINALIZERS) return finalizers;
  return [...finalizers.filter((one) => own.has(one)), MORE_FINALIZERS];
}

export interface RuleStoreOptions<Rule extends RuleObject> {
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
   */
  readonly onChange?: ((key: RuleKey, after: Rule | undefined) => void) | undefined;
  /**
   * Whether a rule stays in the store as `isGone` if its object is gone before its deletion was dealt with (`end`):
   * without its finalizer, or because a user removed it. Only the rule says what has to be done.
   */
  readonly outlives?: (rule: Rule) => boolean;
}

/** Called when the watch reports a rule whose version is already stored. The status may differ. */
export type OnSameVersion<Rule> = (key: RuleKey, before: Rule, after: Rule) => void;

/** The rules of one controller, as the engine sees them. */
export type KeptRules<Rule extends RuleObject = RuleObject> = Pick<
  RuleStore<Rule>,
  'get' | 'version' | 'versionOf' | 'storeResponse' | 'end' | 'onSameVersion'
>;

export class RuleStore<Rule extends RuleObject> {
  readonly #options: RuleStoreOptions<Rule>;
  readonly #rules = new Map<RuleKey, Rule>();
  /** By rule: the uid of a deleted object with which nothing more has to be done. */
  readonly #ended = new Map<RuleKey, string>();
  #onSameVersion: OnSameVersion<Rule> | undefined;

  constructor(options: RuleStoreOptions<Rule>) {
    this.#options = options;
  }

  /** The rule key of an object: `<controller>:<namespace>/<name>`. */
  key(namespace: string, name: string): RuleKey {
    return ruleKey(this.#options.controller, namespace, name);
  }

  onSameVersion(listener: OnSameVersion<Rule>): void {
    this.#onSameVersion = listener;
  }

  get(key: RuleKey): Rule | undefined {
    return this.#rules.get(key);
  }

  all(): Iterable<[RuleKey, Rule]> {
    return this.#rules;
  }

  /** The version of a stored rule; `undefined`: there is no such rule. */
  version(key: RuleKey): string | undefined {
    const rule = this.#rules.get(key);
    return rule && this.#options.versionOf(rule);
  }

  /** The rule version of an object of which the server may have given only the metadata; `undefined`: it is no rule. */
  versionOf(object: KubeObject): string | undefined {
    const rule = this.#options.toRule(this.#whole(object));
    return rule && this.#options.versionOf(rule);
  }

  /**
   * Stores the response to a write or a read, which may have only the metadata, if the store still has the object (the
   * same uid) in the same generation: then its other fields are the same. If the watch has already brought this
   * resourceVersion, its object stays, because a response may have the status as sent, not as stored.
   */
  storeResponse(object: KubeObject): void {
    const { uid, resourceVersion, generation } = this.#rules.get(this.#keyOf(object))?.metadata ?? {};
    const isSame = uid === object.metadata.uid && generation === object.metadata.generation;
    if (isSame && resourceVersion !== object.metadata.resourceVersion) this.#put(this.#whole(object));
  }

  /** Called when the work for the end of a rule is done: its object may be gone from now on. @param isGone it is gone */
  end(key: RuleKey, rule: Rule, isGone: boolean): void {
    const { uid } = rule.metadata;
    if (this.#rules.get(key)?.metadata.uid !== uid) return;
    if (isGone) this.#drop(key);
    else this.#ended.set(key, uid);
  }

  readonly sink: WatchSink = {
    upsert: (object) => this.put(object),
    remove: (object) => {
      this.#removed(this.#keyOf(object), object.metadata.resourceVersion);
    },
    prune: (keys, version, only) => {
      const isMissing = (key: RuleKey): boolean =>
        (only === undefined || namespaceOf(key) === only) && !keys.has(ruleName(key));
      for (const key of [...this.#rules.keys()].filter(isMissing)) this.#removed(key, version);
    },
  };

  /** Stores an object, except if the stored one is newer. @returns whether the store now has a rule with this name */
  put(object: KubeObject): boolean {
    return this.#put(object, this.#onSameVersion);
  }

  #put(object: KubeObject, onSameVersion?: OnSameVersion<Rule>): boolean {
    const { toRule, versionOf } = this.#options;
    const key = this.#keyOf(object);
    const before = this.#rules.get(key);
    if (before !== undefined && isOlder(object.metadata.resourceVersion, before.metadata.resourceVersion)) return true;
    const after = toRule(object);
    if (after === undefined) {
      this.#drop(key);
      return false;
    }
    if (before === undefined || versionOf(before) !== versionOf(after)) {
      this.#set(key, after);
    } else {
      // The spec of a version is one object, because what is made of it is kept by that object.
      const merged = 'spec' in before ? { ...after, spec: before.spec } : after;
      this.#rules.set(key, merged);
      onSameVersion?.(key, before, merged);
    }
    return true;
  }

  /** The object with the fields of the stored rule that it lacks, if both are one object in one generation. */
  #whole(object: KubeObject): KubeObject {
    const stored = this.#rules.get(this.#keyOf(object));
    const { uid, generation } = stored?.metadata ?? {};
    const isSame = uid === object.metadata.uid && generation === object.metadata.generation;
    return isSame ? { ...stored, ...object } : object;
  }

  /** The object is gone. @param version with it, no late response to a write can bring the object back */
  #removed(key: RuleKey, version: string): void {
    const rule = this.#rules.get(key);
    if (rule === undefined || rule.isGone === true) return;
    const isEnded = this.#ended.get(key) === rule.metadata.uid;
    if (isEnded || this.#options.outlives?.(rule) !== true) {
      this.#drop(key);
      return;
    }
    const { deletionTimestamp = new Date().toISOString() } = rule.metadata;
    const metadata = { ...rule.metadata, resourceVersion: version, deletionTimestamp };
    this.#set(key, { ...rule, isGone: true, metadata });
  }

  #keyOf({ metadata }: KubeObject): RuleKey {
    return this.key(metadata.namespace ?? '', metadata.name);
  }

  #set(key: RuleKey, rule: Rule): void {
    this.#rules.set(key, rule);
    this.#options.onChange?.(key, rule);
  }

  #drop(key: RuleKey): void {
    this.#ended.delete(key);
    if (this.#rules.delete(key)) this.#options.onChange?.(key, undefined);
  }
}
