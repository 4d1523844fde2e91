/**
 * Finds the rules that reach a namespace that was added or deleted, or whose labels or consent have changed, and enqueues them.
 *
 * Hundreds of namespaces can be created at once, and each evaluation of a rule covers all namespaces. So the rules that are found wait for more
 * namespaces, except those of the first namespace in a burst. The search works in slices, because it may try thousands of patterns.
 *
 * State: the namespaces to search for, in the order of their events; and the rules that wait, while a timer runs. Invariant: `isOutdated` is true
 * for a rule from the event until the rule is enqueued. Until then no copy of the rule may be deleted as an orphan: an object that is already
 * in a new namespace (a restored backup) may be one of its copies. The watch itself may be late, above all after a new leader has started. So where
 * labels or consent decide, `isOutdated` compares them with the server.
 *
 * A label can flip many times a second. So after a change of its labels or consent, further such changes of the namespace wait for a second, and
 * cost one search together. Meanwhile only the copies in this namespace are pending. A namespace that comes or goes never waits here: where a label
 * selects the served namespaces, it has waited before (`kube/watch/served-namespaces.ts`).
 */
import type { Claims } from '../../../copy/book/claims.ts';
import type { NamespaceReads } from '../../../copy/cluster/watch/namespace-reads.ts';
import type { NamespaceChange, OnNamespace } from '../../../copy/cluster/watch/namespaces.ts';
import type { Engine } from '../../../copy/engine/engine.ts';
import { namespaceOf, type RuleKey } from '../../../copy/model/keys.ts';
import type { Log } from '../../../observe/log.ts';
import type { Clock, Timer } from '../../../runtime/clock.ts';
import type { Steps } from '../../../runtime/queue/slices.ts';
import type { LabelMatcher } from '../../../runtime/text/label-selector.ts';

/** How long the rules wait for more namespaces, ms: longer for many rules and namespaces, so that a burst of changes is no burst of evaluations. */
const BATCH_MS = { least: 250, most: 1000 };
/** For each rule and namespace: five times the evaluation of both, which takes 2 to 10 µs. */
const BATCH_MS_EACH = 0.05;
/** How long further changes of the same namespace wait, ms. */
const FLIP_MS = 1000;

/** The part of a `ControllerContext` that is needed. */
export interface NamespaceChangesContext {
  readonly engine: Pick<Engine, 'enqueueRule' | 'slices'> & { readonly claims: Pick<Claims, 'findingsOf'> };
  readonly cluster: {
    readonly namespaces: { readonly size: number };
    readonly namespaceReads: Pick<NamespaceReads, 'isCurrent'>;
  };
  readonly clock: Clock;
  readonly log: Pick<Log, 'error'>;
}

/** The part of a rule set that is needed. */
export interface RulesInNamespaces {
  /** The rules that a change of a namespace concerns. */
  readonly rulesFor: (namespace: string, changed: NamespaceChange) => Steps<Iterable<RuleKey>>;
  /** The labels that a rule selects by. */
  readonly labelsOf?: (rule: RuleKey) => LabelMatcher | undefined;
  /** They depend on the number of namespaces. */
  readonly limits: { readonly recount: () => void };
}

type Change = Parameters<OnNamespace>;

export class NamespaceChanges {
  readonly #context: NamespaceChangesContext;
  readonly #affected: RulesInNamespaces;
  readonly #namespaces: Change[] = [];
  readonly #rules = new Set<RuleKey>();
  /** The namespaces whose labels or consent changed lately: the next change, if there is one. Also a change whose search has failed. */
  readonly #flipping = new Map<string, Change | undefined>();
  #timer: Timer | undefined;
  #flipTimer: Timer | undefined;
  #isSearching = false;
  #isStopped = false;

  constructor(context: NamespaceChangesContext, rules: RulesInNamespaces) {
    this.#context = context;
    this.#affected = rules;
  }

  /**
   * Whether the rule may reach a namespace that it was not evaluated for as it is now.
   * @param namespace of a copy that the rule does not claim
   * @throws the errors of `api.request`
   */
  readonly isOutdated = async (rule: RuleKey, namespace: string, signal: AbortSignal): Promise<boolean> => {
    const { engine, cluster } = this.#context;
    const { outOfReach } = engine.claims.findingsOf(rule);
    // The labels of its own namespace can forbid the rule to copy at all.
    const decisive = outOfReach?.part === 'all' ? namespaceOf(rule) : namespace;
    const isByFacts = outOfReach !== undefined || this.#affected.labelsOf?.(rule) !== undefined;
    if (isByFacts && !(await cluster.namespaceReads.isCurrent(decisive, signal))) return true;
    return this.#isSearching || this.#rules.has(rule) || this.#flipping.get(decisive) !== undefined;
  };

  /** If the search takes less than one slice, the search is done when this returns. */
  readonly add: OnNamespace = (...change) => {
    const [namespace, , , changed] = change;
    const isFlip = changed !== 'existence' && this.#flipping.has(namespace);
    if (isFlip) this.#delay(namespace, change);
    if (this.#isStopped || isFlip) return;
    if (changed !== 'existence') this.#delay(namespace);
    this.#namespaces.push(change);
    if (!this.#isSearching) void this.#search();
  };

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
    this.#flipTimer?.cancel();
    this.#namespaces.length = 0;
    this.#flipping.clear();
    this.#rules.clear();
  }

  /** Further changes of labels or consent wait for a second. @param change waits already; several become one, of all that has changed */
  #delay(namespace: string, change?: Change): void {
    const before = this.#flipping.get(namespace);
    this.#flipping.set(namespace, change && before ? merged(before, change) : change);
    this.#flipTimer ??= this.#context.clock.setTimeout(() => this.#searchDelayed(), FLIP_MS, { unref: true });
  }

  #searchDelayed(): void {
    this.#flipTimer = undefined;
    const delayed = [...this.#flipping.values()].filter((change) => change !== undefined);
    this.#flipping.clear();
    for (const change of delayed) this.add(...change);
  }

  async #search(): Promise<void> {
    const { engine, log } = this.#context;
    this.#isSearching = true;
    for (let next = 0, change = this.#namespaces[0]; change !== undefined; change = this.#namespaces[(next += 1)]) {
      const [namespace] = change;
      try {
        await engine.slices.run(this.#searchFor(...change));
      } catch (error) {
        // Until the next search, no copy in this namespace counts as an orphan.
        this.#delay(namespace, change);
        log.error('cannot find the rules that a change of a namespace concerns, retrying', { namespace, error });
      }
    }
    this.#namespaces.length = 0;
    this.#isSearching = false;
  }

  *#searchFor(...[name, , initial, changed]: Change): Steps<void> {
    const { engine } = this.#context;
    const found = yield* this.#affected.rulesFor(name, changed);
    if (this.#isStopped) return;
    for (const rule of found) {
      if (initial) engine.enqueueRule(rule, 'low');
      else this.#rules.add(rule);
    }
    if (this.#timer === undefined) this.#enqueue();
    this.#affected.limits.recount();
  }

  #enqueue(): void {
    this.#timer = undefined;
    if (this.#rules.size === 0) return;
    const { clock, cluster } = this.#context;
    const waitMs = Math.max(BATCH_MS.least, this.#rules.size * cluster.namespaces.size * BATCH_MS_EACH);
    this.#timer = clock.setTimeout(() => this.#enqueue(), Math.min(waitMs, BATCH_MS.most), { unref: true });
    for (const rule of this.#rules) this.#context.engine.enqueueRule(rule);
    this.#rules.clear();
  }
}

function merged([, , , before]: Change, [namespace, there, initial, after]: Change): Change {
  const isExistence = before === 'existence' || after === 'existence';
  return [namespace, there, initial, isExistence ? 'existence' : new Set([...before, ...after])];
}
