/**
 * After a namespace was added or deleted, or its labels or consent changed: enqueues the rules that select it.
 *
 * Hundreds of namespaces can appear at the same time, a label can change many times a second, and a search looks at all
 * rules. So a search starts at once only if none ran within the last second. Later changes wait and share one search. A
 * search pauses often, because it may try thousands of patterns.
 *
 * Invariant: from the event of a namespace until its rules are enqueued, `isOutdated` is true, so Keyferry deletes no copy
 * there as an orphan. Example: a namespace is restored from a backup together with a copy. The watch of namespaces may
 * be late, too, above all after a change of the leader. So where labels or consent decide, `isOutdated` compares the
 * watched namespace with the server.
 */
import type { Claims } from '../../../copy/book/claims.ts';
import type { Cluster } from '../../../copy/cluster/cluster.ts';
import type { NamespaceChange, OnNamespace } from '../../../copy/cluster/watch/namespaces.ts';
import type { Engine } from '../../../copy/engine/engine.ts';
import { controllerOf, namespaceOf, type RuleKey } from '../../../copy/model/keys.ts';
import type { Log } from '../../../observe/log.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { someOf } from '../../../runtime/text/texts.ts';

/** How long the next search waits after a search, ms. */
const WAIT_MS = 1000;

/** The part of a `ControllerContext` that this file needs. */
export interface NamespaceChangesContext {
  readonly engine: Pick<Engine, 'enqueueRule'> & { readonly claims: Pick<Claims, 'findingsOf'> };
  readonly cluster: Pick<Cluster, 'watchNamespaces' | 'isCurrent'>;
  readonly clock: Clock;
  readonly log: Pick<Log, 'error'>;
  /** Ends the searches. */
  readonly signal: AbortSignal;
}

/** The names of changed namespaces. */
export interface Changes {
  readonly any: ReadonlySet<string>;
  /** Without those of which only labels have changed. */
  readonly exceptLabels: readonly string[];
}

/** The part of `RuleTargets` that this file needs. */
interface RulesInNamespaces {
  readonly name: string;
  rulesFor(changes: Changes): Promise<Iterable<RuleKey>>;
  readsLabels(rule: RuleKey): boolean;
}

/** Maximum number of namespaces that the log names after a failed search. */
const NAMED = 5;

export class NamespaceChanges {
  readonly #context: NamespaceChangesContext;
  /** By the names of their controllers. */
  readonly #affected = new Map<string, RulesInNamespaces>();
  /** The changes whose rules are not enqueued yet. Each is an object of its own: it may come again during a search. */
  readonly #open = new Map<string, { readonly change: NamespaceChange }>();
  /** Whether a search runs, or ended within `WAIT_MS`. */
  #isBusy = false;

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
    return this.#open.has(decisive);
  }

  readonly add: OnNamespace = (namespace, change) => {
    const isForAll = change === 'all' || this.#open.get(namespace)?.change === 'all';
    this.#open.set(namespace, { change: isForAll ? 'all' : 'labels' });
    if (!this.#isBusy) void this.#search();
  };

  async #search(): Promise<void> {
    const { clock, log, signal } = this.#context;
    if (signal.aborted) return;
    this.#isBusy = true;
    // Changes that arrive later in this turn of the event loop belong to this search: those of a list.
    await Promise.resolve();
    const changes = new Map(this.#open);
    try {
      await this.#enqueueRulesFor(changes);
    } catch (error) {
      // The changes stay open until the next search.
      const namespace = someOf([...changes.keys()], NAMED);
      log.error('cannot find the rules that a change of a namespace concerns, retrying', { namespace, error });
    }
    const next = (): void => {
      this.#isBusy = false;
      if (this.#open.size > 0) void this.#search();
    };
    clock.setTimeout(next, WAIT_MS, { unref: true });
  }

  async #enqueueRulesFor(open: ReadonlyMap<string, { readonly change: NamespaceChange }>): Promise<void> {
    const { engine, signal } = this.#context;
    const exceptLabels = [...open].flatMap(([namespace, { change }]) => (change === 'all' ? namespace : []));
    const changes = { any: new Set(open.keys()), exceptLabels };
    const found: RuleKey[] = [];
    for (const rules of this.#affected.values()) found.push(...(await rules.rulesFor(changes)));
    if (signal.aborted) return;
    for (const rule of found) engine.enqueueRule(rule);
    for (const [namespace, change] of open) if (this.#open.get(namespace) === change) this.#open.delete(namespace);
  }
}
