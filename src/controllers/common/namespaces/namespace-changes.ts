/**
 * Finds the rules that reach a namespace which was added or deleted, or whose labels or consent changed. Enqueues them.
 *
 * Hundreds of namespaces can appear at once. Each search looks at all rules, and each evaluation at all namespaces of a
 * rule. So the search for the first change starts at once. If it finds rules, later changes wait and share one search.
 * A search runs in slices, because it may try thousands of patterns.
 *
 * A label can flip many times a second. So after a change of labels or consent, further such changes of the same
 * namespace wait for a second and share one search. A namespace that is added or deleted never waits for that second:
 * where a label selects the served namespaces, it has waited already (`kube/watch/served-namespaces.ts`).
 *
 * State: the waiting changes, and the changes of the running search. Invariant: from the event of a namespace until its
 * rules are enqueued, `isOutdated` is true, so no copy in the namespace is deleted as an orphan. Reason: a new
 * namespace may contain a copy already (a restored backup). The watch itself may be late, above all after a change of
 * the leader. So where labels or consent decide, `isOutdated` compares them with the server.
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
import { someOf } from '../../../runtime/text/texts.ts';
import type { Changes } from './reach.ts';

/** How long changes wait for further ones, ms. Evaluations of many rules are long, so there the wait is longer. */
const BATCH_MS = { least: 250, most: 1000 };
/** Added for each pair of rule and namespace, ms: five times the evaluation of the pair (2 to 10 µs). */
const BATCH_MS_EACH = 0.05;
/** How long further changes of labels or consent of the same namespace wait, ms. */
const FLIP_MS = 1000;

/** The part of a `ControllerContext` that this file needs. */
export interface NamespaceChangesContext {
  readonly engine: Pick<Engine, 'enqueueRule' | 'slices'> & { readonly claims: Pick<Claims, 'findingsOf'> };
  readonly cluster: {
    readonly namespaces: { readonly size: number };
    readonly namespaceReads: Pick<NamespaceReads, 'isCurrent'>;
  };
  readonly clock: Clock;
  readonly log: Pick<Log, 'error'>;
}

/** The part of a rule set that this file needs. */
export interface RulesInNamespaces {
  /** Finds the rules that must be evaluated again after these changes of namespaces. */
  readonly rulesFor: (changes: Changes) => Steps<readonly RuleKey[]>;
  /** The labels by which a rule selects namespaces; `undefined`: it has no selector. */
  readonly labelsOf?: (rule: RuleKey) => LabelMatcher | undefined;
  /** The limits depend on the number of namespaces, so they are checked again after each search. */
  readonly limits: { readonly recount: () => void };
}

interface Change {
  readonly changed: NamespaceChange;
  /** The change comes from a list. */
  readonly initial: boolean;
}

/** Maximum number of namespaces that the log names after a failed search. */
const NAMED = 5;

export class NamespaceChanges {
  readonly #context: NamespaceChangesContext;
  readonly #affected: RulesInNamespaces;
  #waiting = new Map<string, Change>();
  /** The changes of the running search; `undefined`: no search runs. */
  #searched: ReadonlyMap<string, Change> | undefined;
  /** The namespaces whose labels or consent changed in the last second, with the delayed change if there is one. */
  readonly #flipping = new Map<string, Change | undefined>();
  #timer: Timer | undefined;
  #flipTimer: Timer | undefined;
  #isStopped = false;

  constructor(context: NamespaceChangesContext, rules: RulesInNamespaces) {
    this.#context = context;
    this.#affected = rules;
  }

  /**
   * Whether the last evaluation of the rule may be older than the present state of a namespace.
   * @param namespace of a copy that the rule does not claim
   * @throws the errors of `api.request`
   */
  readonly isOutdated = async (rule: RuleKey, namespace: string, signal: AbortSignal): Promise<boolean> => {
    const { engine, cluster } = this.#context;
    const { outOfReach } = engine.claims.findingsOf(rule);
    // A limit of sources reads the labels of the rule's own namespace, and can forbid all its copies.
    const decisive = outOfReach?.part === 'all' ? namespaceOf(rule) : namespace;
    const isByFacts = outOfReach !== undefined || this.#affected.labelsOf?.(rule) !== undefined;
    if (isByFacts && !(await cluster.namespaceReads.isCurrent(decisive, signal))) return true;
    const isPending = this.#waiting.has(decisive) || this.#searched?.has(decisive) === true;
    return isPending || this.#flipping.get(decisive) !== undefined;
  };

  readonly add: OnNamespace = (namespace, _there, initial, changed) => {
    if (!this.#isStopped) this.#add(namespace, { changed, initial });
  };

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
    this.#flipTimer?.cancel();
    this.#waiting.clear();
    this.#flipping.clear();
  }

  #add(namespace: string, change: Change): void {
    const isFlip = change.changed !== 'existence' && this.#flipping.has(namespace);
    if (change.changed !== 'existence') this.#delay(namespace, isFlip ? change : undefined);
    if (isFlip) return;
    this.#waiting.set(namespace, merged(this.#waiting.get(namespace), change));
    // All namespaces of a list arrive in the same turn, so their search need not wait for more.
    if (change.initial) this.#endWait();
    if (this.#timer === undefined) void this.#search();
  }

  /** Delays further changes of labels or consent for a second. @param change is delayed and merged, too */
  #delay(namespace: string, change?: Change): void {
    this.#flipping.set(namespace, change && merged(this.#flipping.get(namespace), change));
    this.#flipTimer ??= this.#context.clock.setTimeout(() => this.#searchDelayed(), FLIP_MS, { unref: true });
  }

  #searchDelayed(): void {
    this.#flipTimer = undefined;
    const delayed = [...this.#flipping];
    this.#flipping.clear();
    for (const [namespace, change] of delayed) if (change !== undefined) this.#add(namespace, change);
  }

  #endWait(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** Searches the rules for all waiting changes, also for those that arrive in the same turn of the event loop. */
  async #search(): Promise<void> {
    if (this.#searched !== undefined) return;
    const { engine, log } = this.#context;
    this.#searched = this.#waiting;
    await engine.slices.pause();
    while (this.#waiting.size > 0 && this.#timer === undefined) {
      const changes = (this.#searched = this.#waiting);
      this.#waiting = new Map();
      try {
        await engine.slices.run(this.#searchFor(changes));
      } catch (error) {
        // Until the next search, no copy in these namespaces counts as an orphan.
        for (const [namespace, change] of changes) this.#delay(namespace, change);
        const namespace = someOf([...changes.keys()], NAMED);
        log.error('cannot find the rules that a change of a namespace concerns, retrying', { namespace, error });
      }
    }
    this.#searched = undefined;
  }

  *#searchFor(changes: ReadonlyMap<string, Change>): Steps<void> {
    const { engine, clock, cluster } = this.#context;
    const found = yield* this.#affected.rulesFor(changes);
    if (this.#isStopped) return;
    const isListed = [...changes.values()].every(({ initial }) => initial);
    for (const rule of found) engine.enqueueRule(rule, isListed ? 'low' : 'normal');
    this.#affected.limits.recount();
    if (isListed || found.length === 0) return;
    const waitMs = Math.max(BATCH_MS.least, found.length * cluster.namespaces.size * BATCH_MS_EACH);
    const next = (): void => {
      this.#endWait();
      void this.#search();
    };
    this.#timer = clock.setTimeout(next, Math.min(waitMs, BATCH_MS.most), { unref: true });
  }
}

/** Two changes of one namespace as one change. */
function merged(before: Change | undefined, after: Change): Change {
  if (before === undefined) return after;
  const isExistence = before.changed === 'existence' || after.changed === 'existence';
  const changed = isExistence ? 'existence' : new Set([...before.changed, ...after.changed]);
  return { changed, initial: before.initial && after.initial };
}
