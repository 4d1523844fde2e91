/**
 * How many targets rules may have: one rule, and the rules of one namespace together. Whoever may write in a namespace can make as many rules as
 * there is room for in etcd, and every target costs memory and, once it is written, a watch event at each change.
 *
 * Measured under the shipped V8 flags: a claim takes 0.5 KB and its copy 1.5 KB more, so that 10,000 targets are about 20 MB. A rule may
 * have twice as many as the namespaces of a very large cluster. A namespace may have as many as one rule, or in a larger
 * cluster 50 for each of its namespaces: 50 rules that go everywhere.
 *
 * State: each rule that asked, by its namespace, in the order of age. Older rules come first, so that the same rules are refused after
 * a restart. Invariant: a rule whose verdict may have changed since it asked was told of it.
 */
import type { RuleKey } from '../../copy/model/keys.ts';

/** Most targets of one rule. */
export const MAX_TARGETS = 10_000;
/** Most targets of the rules of one namespace together, for each namespace that there is; in small clusters `MAX_TARGETS`. */
const TARGETS_PER_NAMESPACE = 50;

interface Asked {
  readonly rule: RuleKey;
  readonly rank: string;
  count: number;
  admitted: boolean;
}

interface Account {
  total: number;
  /** Oldest first. */
  readonly asked: Asked[];
  refused: number;
}

export interface TargetLedgerOptions {
  /** Namespaces in the cluster. */
  readonly namespaces: () => number;
  /** The rule may be decided on otherwise than when it last asked. */
  readonly onChange: (rule: RuleKey) => void;
}

export class TargetLedger {
  readonly #options: TargetLedgerOptions;
  readonly #accounts = new Map<string, Account>();
  readonly #of = new Map<RuleKey, { readonly namespace: string; readonly asked: Asked }>();

  constructor(options: TargetLedgerOptions) {
    this.#options = options;
  }

  /** Most targets that the rules of one namespace may have together now. */
  get limit(): number {
    return Math.max(MAX_TARGETS, TARGETS_PER_NAMESPACE * this.#options.namespaces());
  }

  /**
   * Asks for `count` targets for a rule, in place of those that it asked for before.
   * @param rank orders rules by age, as `Owner.rank`
   * @returns whether they fit beside those of the older rules of the namespace
   */
  ask(rule: RuleKey, namespace: string, rank: string, count: number): boolean {
    const known = this.#of.get(rule);
    if (known?.asked.rank !== rank) this.release(rule);
    const account = this.#account(namespace);
    const asked =
      this.#of.get(rule)?.asked ?? this.#enter(account, { rule, rank, count: 0, admitted: true }, namespace);
    account.total += count - asked.count;
    asked.count = count;
    this.#decide(account, asked);
    return asked.admitted;
  }

  /** The rule asks for nothing any more. */
  release(rule: RuleKey): void {
    const known = this.#of.get(rule);
    if (known === undefined) return;
    const { namespace, asked } = known;
    this.#of.delete(rule);
    const account = this.#account(namespace);
    account.total -= asked.count;
    if (!asked.admitted) account.refused -= 1;
    account.asked.splice(placeOf(account.asked, asked), 1);
    if (account.asked.length === 0) this.#accounts.delete(namespace);
    else this.#decide(account);
  }

  /** There are more or fewer namespaces than before, so that there may be room for others. */
  recount(): void {
    const { limit } = this;
    for (const account of this.#accounts.values()) {
      if (account.refused > 0 || account.total > limit) this.#decide(account);
    }
  }

  /** Decides on the rule that asks, and tells the others whose verdict is another one now. */
  #decide(account: Account, asking?: Asked): void {
    const { limit } = this;
    if (account.total <= limit && account.refused === 0) return;
    let sum = 0;
    for (const asked of account.asked) {
      const fits = sum + asked.count <= limit;
      if (fits) sum += asked.count;
      if (fits === asked.admitted) continue;
      if (asked !== asking) this.#options.onChange(asked.rule);
      else {
        asked.admitted = fits;
        account.refused += fits ? -1 : 1;
      }
    }
  }

  #account(namespace: string): Account {
    let account = this.#accounts.get(namespace);
    if (account === undefined) this.#accounts.set(namespace, (account = { total: 0, asked: [], refused: 0 }));
    return account;
  }

  #enter(account: Account, asked: Asked, namespace: string): Asked {
    account.asked.splice(placeOf(account.asked, asked), 0, asked);
    this.#of.set(asked.rule, { namespace, asked });
    return asked;
  }
}

/** Where the rule stands, or would stand, among these. */
function placeOf(sorted: readonly Asked[], { rank, rule }: Asked): number {
  let [from, to] = [0, sorted.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    const other = sorted[middle];
    if (other !== undefined && (other.rank < rank || (other.rank === rank && other.rule < rule))) from = middle + 1;
    else to = middle;
  }
  return from;
}
