/** Which rules a namespace concerns: found without asking every rule, because namespaces come in hundreds. */
import type { NamespacePattern } from '../../copy/patterns.ts';
import type { RuleKey } from '../../copy/keys.ts';
import type { Targets } from './targets.ts';

/** Invariant: a rule stands in the indexes exactly for the namespaces and patterns of its last `set`. */
export class NamespaceInterest {
  readonly #byName = new Map<string, Set<RuleKey>>();
  readonly #byPattern = new Map<NamespacePattern, Set<RuleKey>>();
  readonly #of = new Map<RuleKey, Targets>();

  /** @param targets what the rule copies to; `undefined`: nothing */
  set(rule: RuleKey, targets: Targets | undefined): void {
    const before = this.#of.get(rule);
    if (before === targets) return;
    if (before !== undefined) this.#drop(rule, before);
    if (targets === undefined) return;
    this.#of.set(rule, targets);
    for (const { namespace } of targets.literals.values()) add(this.#byName, namespace, rule);
    for (const { pattern } of targets.patterns) add(this.#byPattern, pattern, rule);
  }

  rulesFor(namespace: string): Set<RuleKey> {
    const rules = new Set(this.#byName.get(namespace));
    for (const [pattern, concerned] of this.#byPattern) {
      if (pattern.matches(namespace)) for (const rule of concerned) rules.add(rule);
    }
    return rules;
  }

  /** A namespace is gone: nobody will ask for it soon. */
  forgetNamespace(namespace: string): void {
    for (const pattern of this.#byPattern.keys()) pattern.forget(namespace);
  }

  #drop(rule: RuleKey, targets: Targets): void {
    this.#of.delete(rule);
    for (const { namespace } of targets.literals.values()) remove(this.#byName, namespace, rule);
    for (const { pattern } of targets.patterns) remove(this.#byPattern, pattern, rule);
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
