/**
 * Limits the number of targets of one rule, and of all rules in one namespace. Reason: a user with access to one
 * namespace can create as many rules as fit in etcd, and every target costs Keyferry memory and watch events.
 *
 * Measured with the shipped V8 flags: a claim takes 0.5 KB and its copy 1.5 KB, so 10,000 targets take about 20 MB. One
 * rule may have 10,000 targets, twice the number of namespaces in a very large cluster. All rules in one namespace may
 * together have 10,000 targets, or 50 for each namespace of the cluster, whichever is more.
 *
 * State: the demands of the rules in each namespace, oldest rule first. Older rules take precedence, so the same rules
 * are refused after a restart. Invariant: each time a rule would become admitted or refused, `onChange` is called for
 * the rule.
 */
import type { RuleKey } from '../../../copy/model/keys.ts';
import type { Demand } from '../../../copy/model/rule-set.ts';
import { getOrCreate } from '../../../runtime/maps.ts';

/** Maximum number of targets of one rule. */
export const MAX_TARGETS = 10_000;
/** Targets of all rules in one namespace, for each namespace of the cluster. `MAX_TARGETS` are always allowed. */
const TARGETS_PER_NAMESPACE = 50;

interface Account {
  total: number;
  /** Oldest first. */
  readonly requests: Request[];
  /** At the last check, the limit had no room for at least one request. */
  isCrowded: boolean;
}

interface Request extends Demand {
  readonly rule: RuleKey;
}

export class RuleLimits {
  readonly #namespaces: { readonly size: number };
  readonly #onChange: (rule: RuleKey) => unknown;
  readonly #accounts = new Map<string, Account>();
  readonly #requests = new Map<RuleKey, Request>();

  /**
   * @param namespaces all namespaces of the cluster
   * @param onChange called if the limits now decide differently on the rule. The rule must be evaluated again
   */
  constructor(namespaces: { readonly size: number }, onChange: (rule: RuleKey) => unknown) {
    this.#namespaces = namespaces;
    this.#onChange = onChange;
  }

  /** Maximum number of targets of all rules in one namespace. */
  get limit(): number {
    return Math.max(MAX_TARGETS, TARGETS_PER_NAMESPACE * this.#namespaces.size);
  }

  /** Makes a demand for `count` targets, with the decision of the limit. The demand counts only after `record`. */
  demand(rule: RuleKey, namespace: string, rank: string, count: number): Demand {
    const { limit } = this;
    const { total = 0, requests = [] } = this.#accounts.get(namespace) ?? {};
    const others = total - (this.#requests.get(rule)?.count ?? 0);
    if (others + count <= limit) return { namespace, rank, count, isAdmitted: true };
    let older = 0;
    for (const request of requests) {
      if (request.rule === rule) continue;
      if (!isBefore(request, { rule, rank })) break;
      if (older + request.count <= limit) older += request.count;
    }
    return { namespace, rank, count, isAdmitted: older + count <= limit };
  }

  /** The recorded demand of a rule; `undefined`: none was recorded. */
  demandOf(rule: RuleKey): Demand | undefined {
    return this.#requests.get(rule);
  }

  /** Replaces the recorded demand of a rule after its evaluation. @param demand `undefined`: the rule has no targets */
  record(rule: RuleKey, demand: Demand | undefined): void {
    const before = this.#requests.get(rule);
    if (before === undefined && demand === undefined) return;
    if (before !== undefined) this.#remove(before);
    if (demand !== undefined) this.#add({ ...demand, rule });
    for (const namespace of new Set([before?.namespace, demand?.namespace])) {
      if (namespace !== undefined) this.#check(this.#accounts.get(namespace));
    }
  }

  /** Call this when the number of namespaces has changed, because the limit depends on this number. */
  recount(): void {
    for (const account of this.#accounts.values()) this.#check(account);
  }

  /** Calls `onChange` for each rule that was admitted and no longer fits the limit, or was refused and now fits. */
  #check(account: Account | undefined): void {
    const { limit } = this;
    if (account === undefined || (account.total <= limit && !account.isCrowded)) return;
    let sum = 0;
    account.isCrowded = false;
    for (const { rule, count, isAdmitted } of account.requests) {
      const fits = sum + count <= limit;
      if (fits) sum += count;
      else account.isCrowded = true;
      if (fits !== isAdmitted) this.#onChange(rule);
    }
  }

  #add(request: Request): void {
    const account = getOrCreate(this.#accounts, request.namespace, () => ({
      total: 0,
      requests: [],
      isCrowded: false,
    }));
    account.total += request.count;
    account.isCrowded ||= !request.isAdmitted;
    account.requests.splice(insertionIndex(account.requests, request), 0, request);
    this.#requests.set(request.rule, request);
  }

  #remove(request: Request): void {
    const { rule, namespace, count } = request;
    const account = this.#accounts.get(namespace);
    this.#requests.delete(rule);
    if (account === undefined) return;
    account.total -= count;
    account.requests.splice(insertionIndex(account.requests, request), 1);
    if (account.requests.length === 0) this.#accounts.delete(namespace);
  }
}

type Ranked = Pick<Request, 'rule' | 'rank'>;

/** Whether rule `a` comes before rule `b`: the older rule first; rules of the same age by their keys. */
function isBefore(a: Ranked, b: Ranked): boolean {
  return a.rank < b.rank || (a.rank === b.rank && a.rule < b.rule);
}

/** The index of the request in `sorted`; if `sorted` does not contain it, the index where to insert it. */
function insertionIndex(sorted: readonly Request[], request: Ranked): number {
  let [from, to] = [0, sorted.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    const other = sorted[middle];
    if (other !== undefined && isBefore(other, request)) from = middle + 1;
    else to = middle;
  }
  return from;
}
