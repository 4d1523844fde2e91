/** An index of rules by the namespaces they select, because hundreds of namespaces can be created at once. */
import type { NamespacePattern } from '../../common/namespaces/namespace-patterns.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import type { NamespaceSet } from '../../common/namespaces/namespace-set.ts';
import type { Steps } from '../../../runtime/queue/slices.ts';

/** Invariant: a rule is indexed by exactly the names and patterns of its last `set`. */
export class NamespaceIndex {
  readonly #byName = new Map<string, Set<RuleKey>>();
  readonly #byPattern = new Map<NamespacePattern, Set<RuleKey>>();
  readonly #of = new Map<RuleKey, readonly NamespaceSet[]>();

  /** @param sets the namespaces that the rule copies to; empty to remove the rule */
  set(rule: RuleKey, sets: readonly NamespaceSet[]): void {
    for (const { names, patterns } of this.#of.get(rule) ?? []) {
      for (const name of names) remove(this.#byName, name, rule);
      for (const pattern of patterns) remove(this.#byPattern, pattern, rule);
    }
    if (sets.length === 0) {
      this.#of.delete(rule);
      return;
    }
    this.#of.set(rule, sets);
    for (const { names, patterns } of sets) {
      for (const name of names) add(this.#byName, name, rule);
      for (const pattern of patterns) add(this.#byPattern, pattern, rule);
    }
  }

  /** The rules that select the namespace. One step for each pattern: there may be thousands. */
  *rulesFor(namespace: string): Steps<ReadonlySet<RuleKey>> {
    const rules = new Set(this.#byName.get(namespace));
    for (const [pattern, concerned] of this.#byPattern) {
      if (pattern.matches(namespace)) for (const rule of concerned) rules.add(rule);
      yield;
    }
    return rules;
  }
}

function add<K>(index: Map<K, Set<RuleKey>>, key: K, rule: RuleKey): void {
  const rules = index.get(key);
  if (rules === undefined) index.set(key, new Set([rule]));
  else rules.add(rule);
}

function remove<K>(index: Map<K, Set<RuleKey>>, key: K, rule: RuleKey): void {
  const rules = index.get(key);
  rules?.delete(rule);
  if (rules?.size === 0) index.delete(key);
}
