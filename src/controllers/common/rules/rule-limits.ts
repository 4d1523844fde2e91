/**
 * Limits the number of targets of one rule, and of all rules in one namespace. A user of one namespace can create as many rules as fit
 * in etcd, and every target costs memory and a watch event for each change.
 *
 * Measured with the shipped V8 flags: a claim takes 0.5 KB and its copy 1.5 KB, so 10,000 targets take about 20 MB. The limit of a rule
 * is twice the number of namespaces in a very large cluster. The limit of a namespace is the same or, in larger clusters, 50
 * targets for each namespace: 50 rules that copy to all namespaces.
 *
 * State: the requests of each namespace, ordered by age, and the refusals. Older rules take precedence, so a restart refuses the same rules.
 * Invariant: `onChange` was called for every rule whose admission may have changed since its last request.
 */
import type { Cause } from '../../../copy/model/cause.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';

/** Maximum number of targets of one rule. */
export const MAX_TARGETS = 10_000;
/** Factor of the limit for all rules in one namespace: this many for each namespace of the cluster, at least `MAX_TARGETS`. */
const TARGETS_PER_NAMESPACE = 50;

interface Account {
  total: number;
  /** Oldest first. */
  readonly requests: Request[];
  /** Some requests do not fit. */
  isCrowded: boolean;
}

interface Request {
  readonly rule: RuleKey;
  readonly namespace: string;
  readonly account: Account;
  readonly rank: string;
  count: number;
  isAdmitted: boolean;
}

export interface RuleLimitsOptions {
  /** The number of namespaces in the cluster. */
  readonly namespaces: () => number;
  /** The rule may now be admitted or refused: it has to request again. */
  readonly onChange: (rule: RuleKey) => void;
}

/** The limits, and why rules are not applied: they exceed a limit, or have a mistake. */
export class RuleLimits<Refusal extends Cause = Cause> {
  readonly #options: RuleLimitsOptions;
  readonly #accounts = new Map<string, Account>();
  readonly #requests = new Map<RuleKey, Request>();
  readonly #refusals = new Map<RuleKey, Refusal>();

  constructor(options: RuleLimitsOptions) {
    this.#options = options;
  }

  /** Maximum number of targets of all rules in one namespace. */
  get limit(): number {
    return Math.max(MAX_TARGETS, TARGETS_PER_NAMESPACE * this.#options.namespaces());
  }

  /**
   * Requests `count` targets for a rule. This replaces its earlier request.
   * @param rank orders rules by age, as `Owner.rank`
   * @returns whether the limit allows them besides the targets of older rules in the namespace
   */
  request(rule: RuleKey, namespace: string, rank: string, count: number): boolean {
    if (this.#requests.get(rule)?.rank !== rank) this.release(rule);
    const request = this.#requests.get(rule) ?? this.#enter(rule, namespace, rank);
    request.account.total += count - request.count;
    request.count = count;
    this.#decide(request.account, request);
    return request.isAdmitted;
  }

  /** Ends the request of a rule. */
  release(rule: RuleKey): void {
    const request = this.#requests.get(rule);
    if (request === undefined) return;
    const { account, namespace, count } = request;
    this.#requests.delete(rule);
    account.total -= count;
    account.requests.splice(insertionIndex(account.requests, request), 1);
    if (account.requests.length === 0) this.#accounts.delete(namespace);
    else this.#decide(account);
  }

  /** The result of an evaluation. @param refusal `undefined`: the rule is applied */
  decided(rule: RuleKey, refusal: Refusal | undefined): void {
    if (refusal === undefined) this.#refusals.delete(rule);
    else this.#refusals.set(rule, refusal);
  }

  /** Why the rule is not applied, as of its last evaluation. Its copies then stay as they are. */
  refusalOf(rule: RuleKey): Refusal | undefined {
    return this.#refusals.get(rule);
  }

  /** The rule is gone, or is being deleted. */
  forget(rule: RuleKey): void {
    this.release(rule);
    this.#refusals.delete(rule);
  }

  /** The number of namespaces has changed, and the limit with it. */
  recount(): void {
    for (const account of this.#accounts.values()) this.#decide(account);
  }

  /** Admits or refuses `current`, and calls `onChange` for the other rules whose admission changes. */
  #decide(account: Account, current?: Request): void {
    const { limit } = this;
    if (account.total <= limit && !account.isCrowded) {
      if (current !== undefined) current.isAdmitted = true;
      return;
    }
    let sum = 0;
    account.isCrowded = false;
    for (const request of account.requests) {
      const fits = sum + request.count <= limit;
      if (fits) sum += request.count;
      else account.isCrowded = true;
      if (request === current) request.isAdmitted = fits;
      else if (fits !== request.isAdmitted) this.#options.onChange(request.rule);
    }
  }

  #enter(rule: RuleKey, namespace: string, rank: string): Request {
    const account = this.#accounts.get(namespace) ?? { total: 0, requests: [], isCrowded: false };
    this.#accounts.set(namespace, account);
    const request = { rule, namespace, account, rank, count: 0, isAdmitted: true };
    account.requests.splice(insertionIndex(account.requests, request), 0, request);
    this.#requests.set(rule, request);
    return request;
  }
}

/** The index of the request, or where to insert it. */
function insertionIndex(sorted: readonly Request[], { rank, rule }: Request): number {
  let [from, to] = [0, sorted.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    const other = sorted[middle];
    if (other !== undefined && (other.rank < rank || (other.rank === rank && other.rule < rule))) from = middle + 1;
    else to = middle;
  }
  return from;
}
