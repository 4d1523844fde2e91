/**
 * After a namespace was added or deleted, or its labels or consent changed: enqueues the rules that select it.
 *
 * Hundreds of namespaces can appear at the same time, a label can change many times a second, and a search looks at all
 * rules. So only the first change starts a search immediately. If this search finds rules, later changes wait up to a
 * second and share one search. A search pauses often, because it may try thousands of patterns.
 *
 * State: the waiting changes, and the changes of the running search. Invariant: from the event of a namespace until its
 * rules are enqueued, `isOutdated` is true, so Keyferry deletes no copy there as an orphan. Example: a namespace is
 * restored from a backup together with a copy. The watch of namespaces may be late, too, above all after a change of
 * the leader. So where labels or consent decide, `isOutdated` compares the watched namespace with the server.
 */
import type { Claims } from '../../../copy/book/claims.ts';
import type { Cluster } from '../../../copy/cluster/cluster.ts';
import type { NamespaceChange, OnNamespace } from '../../../copy/cluster/watch/namespaces.ts';
import type { Engine } from '../../../copy/engine/engine.ts';
import { controllerOf, namespaceOf, type RuleKey } from '../../../copy/model/keys.ts';
import type { Log } from '../../../observe/log.ts';
import type { Clock, Timer } from '../../../runtime/clock.ts';
import { pause } from '../../../runtime/pause.ts';
import { someOf } from '../../../runtime/text/texts.ts';
import type { Changes } from './reach.ts';

/**
 * How long changes wait for further ones, ms. Labels and consents may change often, so after a search for them that found
 * rules, the next changes wait longer; and they wait at all after a search for them that found nothing.
 */
const BATCH_MS = { existence: 250, labels: 1000 };

/** The part of a `ControllerContext` that this file needs. */
export interface NamespaceChangesContext {
  readonly engine: Pick<Engine, 'enqueueRule'> & { readonly claims: Pick<Claims, 'findingsOf'> };
  readonly cluster: Pick<Cluster, 'watchNamespaces' | 'isCurrent'>;
  readonly clock: Clock;
  readonly log: Pick<Log, 'error'>;
}

/** The part of `RuleTargets` that this file needs. */
interface RulesInNamespaces {
  readonly name: string;
  rulesFor(changes: Changes): Promise<readonly RuleKey[]>;
  readsLabels(rule: RuleKey): boolean;
}

/** Maximum number of namespaces that the log names after a failed search. */
const NAMED = 5;

export class NamespaceChanges {
  readonly #context: NamespaceChangesContext;
  /** By the names of their controllers. */
  readonly #affected = new Map<string, RulesInNamespaces>();
  #waiting = new Map<string, NamespaceChange>();
  /** The changes of the running search; `undefined`: no search runs. */
  #searched: ReadonlyMap<string, NamespaceChange> | undefined;
  /** Runs while changes wait. */
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(context: NamespaceChangesContext) {
    this.#context = context;
  }

  /** Enqueues these rules after changes from now on. */
  serve(rules: RulesInNamespaces): void {
    if (this.#affected.size === 0) this.#context.cluster.watchNamespaces(this.add);
    this.#affected.set(rules.name, rules);
  }

  /**
   * Whether the last evaluation of a rule may be older than the present state of a namespace.
   * @param namespace of a copy that the rule does not claim
   * @throws the errors of `api.request`
   */
  async isOutdated(rule: RuleKey, namespace: string, signal: AbortSignal): Promise<boolean> {
    const { engine, cluster } = this.#context;
    const affected = this.#affected.get(controllerOf(rule));
    if (affected === undefined) return false;
    const { outOfReach } = engine.claims.findingsOf(rule);
    // 'all': a limit of sources forbids all copies of the rule, by the labels of the rule's own namespace.
    const decisive = outOfReach?.part === 'all' ? namespaceOf(rule) : namespace;
    const isByFacts = outOfReach !== undefined || affected.readsLabels(rule);
    if (isByFacts && !(await cluster.isCurrent(decisive, signal))) return true;
    return this.#waiting.has(decisive) || this.#searched?.has(decisive) === true;
  }

  readonly add: OnNamespace = (namespace, changed) => {
    if (this.#isStopped) return;
    this.#waiting.set(namespace, merged(this.#waiting.get(namespace), changed));
    if (this.#timer === undefined) void this.#search();
  };

  stop(): void {
    this.#isStopped = true;
    this.#endWait();
    this.#waiting.clear();
  }

  #endWait(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** Finds the rules for all waiting changes, including changes that arrive later in this turn of the event loop. */
  async #search(): Promise<void> {
    if (this.#searched !== undefined) return;
    this.#searched = this.#waiting;
    await pause();
    while (this.#waiting.size > 0 && this.#timer === undefined) {
      const changes = (this.#searched = this.#waiting);
      this.#waiting = new Map();
      let waitMs: number = BATCH_MS.labels;
      try {
        waitMs = await this.#searchFor(changes);
      } catch (error) {
        // The changes wait for the next search. Until then `isOutdated` is true, so no copy there is deleted.
        for (const [namespace, change] of changes)
          this.#waiting.set(namespace, merged(this.#waiting.get(namespace), change));
        const namespace = someOf([...changes.keys()], NAMED);
        this.#context.log.error('cannot find the rules that a change of a namespace concerns, retrying', {
          namespace,
          error,
        });
      }
      if (waitMs > 0 && !this.#isStopped)
        this.#timer = this.#context.clock.setTimeout(this.#next, waitMs, { unref: true });
    }
    this.#searched = undefined;
  }

  readonly #next = (): void => {
    this.#endWait();
    void this.#search();
  };

  /** @returns how long further changes wait, ms */
  async #searchFor(changes: ReadonlyMap<string, NamespaceChange>): Promise<number> {
    const { engine } = this.#context;
    const found: RuleKey[] = [];
    for (const rules of this.#affected.values()) found.push(...(await rules.rulesFor(changes)));
    if (this.#isStopped) return 0;
    for (const rule of found) engine.enqueueRule(rule);
    const isLabelled = [...changes.values()].some((changed) => changed !== 'existence');
    if (found.length === 0) return isLabelled ? BATCH_MS.existence : 0;
    return isLabelled ? BATCH_MS.labels : BATCH_MS.existence;
  }
}

/** Two changes of one namespace as one change. */
function merged(before: NamespaceChange | undefined, after: NamespaceChange): NamespaceChange {
  if (before === undefined) return after;
  return before === 'existence' || after === 'existence' ? 'existence' : new Set([...before, ...after]);
}
