/**
 * Limits the number of targets of one rule, and of all rules in one namespace. A user of one namespace can create as many rules as fit
 * in etcd, and every target costs memory and a watch event for each change.
 *
 * Measured with the shipped V8 flags: a claim takes 0.5 KB and its copy 1.5 KB, so 10,000 targets take about 20 MB. The limit of a rule
 * is twice the number of namespaces in a very large cluster. The limit of a namespace is the same or, in larger clusters, 50
 * targets for each namespace: 50 rules that copy to all namespaces.
 *
 * State: the rules of each namespace, ordered by age. Older rules take precedence, so a restart refuses the same rules. Invariant:
 * `onChange` was called for every rule whose admission may have changed since its last request.
 */
import type { RuleKey } from '../../../copy/model/keys.ts';

/** Maximum number of targets of one rule. */
export const MAX_TARGETS = 10_000;
/** Factor of the limit for all rules in one namespace: this many for each namespace of the cluster, at least `MAX_TARGETS`. */
const TARGETS_PER_NAMESPACE = 50;

interface Request {
  readonly rule: RuleKey;
  readonly rank: string;
  count: number;
  admitted: boolean;
}

interface Account {
  total: number;
  /** Oldest first. */
  readonly requests: Request[];
  refused: number;
}

export interface TargetQuotaOptions {
  /** The number of namespaces in the cluster. */
  readonly namespaces: () => number;
  /** The rule may now be admitted or refused: it has to request again. */
  readonly onChange: (rule: RuleKey) => void;
}

export class TargetQuota {
  readonly #options: TargetQuotaOptions;
  readonly #accounts = new Map<string, Account>();
  readonly #of = new Map<RuleKey, { readonly namespace: string; readonly request: Request }>();

  constructor(options: TargetQuotaOptions) {
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
    if (this.#of.get(rule)?.request.rank !== rank) this.release(rule);
    const account = this.#account(namespace);
    const request = this.#of.get(rule)?.request ?? this.#enter(account, namespace, rule, rank);
    account.total += count - request.count;
    request.count = count;
    this.#decide(account, request);
    return request.admitted;
  }

  /** Ends the request of a rule. */
  release(rule: RuleKey): void {
    const known = this.#of.get(rule);
    if (known === undefined) return;
    const { namespace, request } = known;
    this.#of.delete(rule);
    const account = this.#account(namespace);
    account.total -= request.count;
    if (!request.admitted) account.refused -= 1;
    account.requests.splice(insertionIndex(account.requests, request), 1);
    if (account.requests.length === 0) this.#accounts.delete(namespace);
    else this.#decide(account);
  }

  /** The number of namespaces has changed, and the limit with it. */
  recount(): void {
    const { limit } = this;
    for (const account of this.#accounts.values()) {
      if (account.refused > 0 || account.total > limit) this.#decide(account);
    }
  }

  /** Admits or refuses `current`, and calls `onChange` for the other rules whose admission changes. */
  #decide(account: Account, current?: Request): void {
    const { limit } = this;
    if (account.total <= limit && account.refused === 0) return;
    let sum = 0;
    for (const request of account.requests) {
      const fits = sum + request.count <= limit;
      if (fits) sum += request.count;
      if (fits === request.admitted) continue;
      if (request !== current) this.#options.onChange(request.rule);
      else {
        request.admitted = fits;
        account.refused += fits ? -1 : 1;
      }
    }
  }

  #account(namespace: string): Account {
    let account = this.#accounts.get(namespace);
    if (account === undefined) this.#accounts.set(namespace, (account = { total: 0, requests: [], refused: 0 }));
    return account;
  }

  #enter(account: Account, namespace: string, rule: RuleKey, rank: string): Request {
    const request = { rule, rank, count: 0, admitted: true };
    account.requests.splice(insertionIndex(account.requests, request), 0, request);
    this.#of.set(rule, { namespace, request });
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
