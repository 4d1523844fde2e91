/**
 * Finds the rules that reach a namespace that was added or deleted, or whose labels or consent have changed, and enqueues them.
 *
 * Hundreds of namespaces can be created at once, each search covers all rules, and each evaluation of a rule all namespaces that it selects. So
 * the first change is searched for at once. If it concerns rules, the next ones wait for more, and are searched for together. The search works in
 * slices, because it may try thousands of patterns.
 *
 * State: the changes that wait, while a timer or a search runs; and those that the search is about. Invariant: `isOutdated` is true
 * for the rules of a namespace from its event until they are enqueued. Until then no copy in it may be deleted as an orphan: an object that is
 * already in a new namespace (a restored backup) may be one of its copies. The watch itself may be late, above all after a new leader has started.
 * So where labels or consent decide, `isOutdated` compares them with the server.
 *
 * A label can flip many times a second. So after a change of its labels or consent, further such changes of the namespace wait for a second, and
 * cost one search together. Meanwhile only the copies in this namespace are pending. A namespace that comes or goes never waits so long: where a
 * label selects the served namespaces, it has waited before (`kube/watch/served-namespaces.ts`).
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

/** How long changes wait for further ones, ms. The wait is longer for many rules and namespaces, so that one evaluation of a rule serves many changes. */
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
  /** The rules that changes of namespaces concern. */
  readonly rulesFor: (changes: Changes) => Steps<readonly RuleKey[]>;
  /** The labels that a rule selects by. */
  readonly labelsOf?: (rule: RuleKey) => LabelMatcher | undefined;
  /** They depend on the number of namespaces. */
  readonly limits: { readonly recount: () => void };
}

interface Change {
  readonly changed: NamespaceChange;
  /** It comes from a list. */
  readonly initial: boolean;
}

/** Namespaces of a failed search that are named in the log. */
const NAMED = 5;

export class NamespaceChanges {
  readonly #context: NamespaceChangesContext;
  readonly #affected: RulesInNamespaces;
  #waiting = new Map<string, Change>();
  /** `undefined`: no search is under way. */
  #searched: ReadonlyMap<string, Change> | undefined;
  /** The namespaces whose labels or consent changed lately: the next change, if there is one. Also a change whose search has failed. */
  readonly #flipping = new Map<string, Change | undefined>();
  #timer: Timer | undefined;
  #flipTimer: Timer | undefined;
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
    // The namespaces of a list come together.
    if (change.initial) this.#endWait();
    if (this.#timer === undefined) void this.#search();
  }

  /** Makes further changes of labels or consent wait for a second. @param change waits, too, and is merged with one that waits already */
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

  /** Searches for what waits, together with what comes in the same turn. */
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

/** Both changes of a namespace, as one. */
function merged(before: Change | undefined, after: Change): Change {
  if (before === undefined) return after;
  const isExistence = before.changed === 'existence' || after.changed === 'existence';
  const changed = isExistence ? 'existence' : new Set([...before.changed, ...after.changed]);
  return { changed, initial: before.initial && after.initial };
}
