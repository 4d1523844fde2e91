/**
 * Limits the number of targets of one rule, and the targets and patterns of all rules in one namespace. Reason: a user
 * with access to one namespace can create as many rules as fit in etcd. Every target costs Keyferry memory and watch
 * events, and every new namespace is compared with every pattern.
 *
 * Measured with the shipped V8 flags: a claim takes 0.5 KB and its copy 1.5 KB, so 10,000 targets take about 20 MB. One
 * rule may have 10,000 targets, twice the number of namespaces in a very large cluster. All rules in one namespace may
 * together have 10,000 targets, or 50 for each namespace of the cluster, whichever is more.
 *
 * A rule that finds no room waits. Each time a rule in its namespace shrinks or goes, it is evaluated again.
 */
import { because, type Cause } from '../../../copy/model/cause.ts';
import { namespaceOf, type RuleKey } from '../../../copy/model/keys.ts';
import { getOrCreate } from '../../../runtime/maps.ts';
import type { NamespaceSelection } from '../namespaces/selection.ts';

/** Maximum number of targets of one rule. */
export const MAX_TARGETS = 10_000;
/** Targets of all rules in one namespace, for each namespace of the cluster. `MAX_TARGETS` are always allowed. */
const TARGETS_PER_NAMESPACE = 50;
/** Largest size of the patterns of all rules in one namespace: that of 100 rules with as many patterns as one may have. */
const MAX_PATTERN_SIZE = 1_000_000;

/** What counts of a rule. */
export interface RuleSize {
  readonly targets: number;
  /** Number of instructions in its patterns. */
  readonly patterns: number;
}

const NOTHING: RuleSize = { targets: 0, patterns: 0 };

interface Account {
  /** The size of all rules that fit. */
  sum: RuleSize;
  /** Rules that found no room. */
  readonly waiting: Set<RuleKey>;
}

export function patternSize({ patterns, excluded = [], and }: NamespaceSelection): number {
  return [...patterns, ...excluded, ...(and?.patterns ?? [])].reduce((sum, { size }) => sum + size, 0);
}

export class RuleLimits {
  readonly #rules: string;
  readonly #namespaces: { readonly size: number };
  readonly #onRoom: (rule: RuleKey) => unknown;
  readonly #accounts = new Map<string, Account>();
  readonly #sizes = new Map<RuleKey, RuleSize>();

  /**
   * @param rules what the rules are called in messages
   * @param namespaces all namespaces of the cluster
   * @param onRoom called if there may be room for a rule that found none. The rule must be evaluated again
   */
  constructor(rules: string, namespaces: { readonly size: number }, onRoom: (rule: RuleKey) => unknown) {
    this.#rules = rules;
    this.#namespaces = namespaces;
    this.#onRoom = onRoom;
  }

  /**
   * Counts a rule with this size from now on. A rule that does not grow always fits.
   * @returns why there is no room: then the rule counts as before; `undefined`: it fits
   */
  take(rule: RuleKey, size: RuleSize): Cause<'TooManyTargets'> | undefined {
    const namespace = namespaceOf(rule);
    const account = getOrCreate(this.#accounts, namespace, (): Account => ({ sum: NOTHING, waiting: new Set() }));
    const before = this.#sizes.get(rule) ?? NOTHING;
    const sum = {
      targets: account.sum.targets - before.targets + size.targets,
      patterns: account.sum.patterns - before.patterns + size.patterns,
    };
    const maxTargets = Math.max(MAX_TARGETS, TARGETS_PER_NAMESPACE * this.#namespaces.size);
    const problem =
      size.targets > before.targets && sum.targets > maxTargets
        ? `${maxTargets} targets in total, and with this one they would have ${sum.targets}`
        : size.patterns > before.patterns && sum.patterns > MAX_PATTERN_SIZE
          ? `patterns of a size of ${MAX_PATTERN_SIZE} in total, and with this one they would have ${sum.patterns}`
          : undefined;
    if (problem !== undefined) {
      account.waiting.add(rule);
      return because('TooManyTargets', `${this.#rules} in namespace ${namespace} may have ${problem}`);
    }
    account.sum = sum;
    account.waiting.delete(rule);
    if (size.targets + size.patterns > 0) this.#sizes.set(rule, size);
    else this.#sizes.delete(rule);
    if (size.targets < before.targets || size.patterns < before.patterns) this.#wake(account);
    if (sum.targets + sum.patterns + account.waiting.size === 0) this.#accounts.delete(namespace);
    return undefined;
  }

  /** The rule is gone, or has no targets. */
  leave(rule: RuleKey): void {
    this.take(rule, NOTHING);
  }

  #wake({ waiting }: Account): void {
    const rules = [...waiting];
    waiting.clear();
    for (const rule of rules) this.#onRoom(rule);
  }
}
