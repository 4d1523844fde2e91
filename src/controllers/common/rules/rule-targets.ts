/**
 * Finds the targets of the rules of one controller: within the limits of the administrator, the consents of namespaces,
 * and the room that there is. Remembers what each rule selects, so that a change of a namespace finds the rules that it
 * concerns.
 */
import { because, type Cause } from '../../../copy/model/cause.ts';
import { namespaceOf, type RuleKey } from '../../../copy/model/keys.ts';
import { pause } from '../../../runtime/pause.ts';
import type { OutOfReach } from '../../../copy/model/rule-set.ts';
import type { RuleScope } from '../context.ts';
import { LeftOut } from '../namespaces/left-out.ts';
import type { Changes } from '../namespaces/namespace-changes.ts';
import { isMisread, type NamespaceSelection, readsLabels, selects } from '../namespaces/selection.ts';
import { patternSize, RuleLimits } from './rule-limits.ts';

/** What a rule wants. */
export interface Wanted {
  /** All namespaces that the rule selects. */
  readonly selection: NamespaceSelection;
  /** Whether the administrator permits that annotations push copies. Default: yes. */
  readonly mayPush?: boolean;
  /**
   * Finds the targets; a cause: why the rule is refused. Default: the names of the selected namespaces, without the
   * rule's own: then the rule has one target in each.
   * @param leftOut gets the namespaces that the rule must not copy into
   */
  readonly find?: (leftOut: LeftOut) => Promise<ReadonlySet<string> | Cause>;
  /** Number of targets that count even if their namespaces do not exist. Default: one for each named namespace. */
  readonly least?: number;
}

export interface Found {
  /** Empty if the rule is refused, or may copy nothing. */
  readonly targets: ReadonlySet<string>;
  /** Why the copies of the rule must stay as they are. */
  readonly refusal?: Cause | undefined;
  readonly outOfReach?: OutOfReach | undefined;
}

const NONE: ReadonlySet<string> = new Set();

/** Why a rule whose patterns look like globs is not ready. */
export const MISREAD: OutOfReach = { ...because('MisreadPattern'), part: 'named' };

export class RuleTargets {
  /** @see RuleSet.name */
  readonly name: string;
  readonly #scope: RuleScope;
  readonly #limits: RuleLimits;
  /** What each rule selects, by its last evaluation. */
  readonly #selections = new Map<RuleKey, NamespaceSelection>();
  /** The namespace of a rule's source, if its labels, or those of the rule's own namespace, decide whether it may copy. */
  readonly #sources = new Map<RuleKey, string>();

  /** @param name of the controller @param rules what its rules are called in messages */
  constructor(scope: RuleScope, name: string, rules = 'the annotated objects') {
    this.name = name;
    this.#scope = scope;
    this.#limits = new RuleLimits(rules, scope.namespaces, scope.onRoom);
  }

  /**
   * Finds the rules that must be evaluated again after changes of namespaces: those that select the name. Changed labels
   * count only for rules that read any label. Pauses before each rule and namespace.
   */
  async rulesFor({ any, exceptLabels }: Changes): Promise<Iterable<RuleKey>> {
    const found = new Set<RuleKey>();
    for (const [rule, selection] of this.#selections) {
      await pause();
      for (const namespace of this.#scope.reach.readsLabels || readsLabels(selection) ? any : exceptLabels) {
        await pause();
        if (!selects(selection, namespace)) continue;
        found.add(rule);
        break;
      }
    }
    for (const [rule, from] of this.#sources) {
      await pause();
      if (any.has(from) || any.has(namespaceOf(rule))) found.add(rule);
    }
    return found;
  }

  /** The rule is gone, or has no targets that this class finds. */
  leave(rule: RuleKey): void {
    this.#selections.delete(rule);
    this.#sources.delete(rule);
    this.#limits.leave(rule);
  }

  /** Whether labels of namespaces decide where a rule copies. */
  readsLabels(rule: RuleKey): boolean {
    const selection = this.#selections.get(rule);
    return selection !== undefined && readsLabels(selection);
  }

  /**
   * Why a rule must not pull from a namespace; `undefined`: it may. The target itself requests the data, so its own
   * namespace need not consent.
   * @param byLabels whether the labels of either namespace decide. Default: if the administrator's limits read labels
   */
  pullFrom(rule: RuleKey, from: string, byLabels = this.#scope.reach.readsLabels): OutOfReach | undefined {
    const { reach, namespaces } = this.#scope;
    const home = namespaceOf(rule);
    if (byLabels) this.#sources.set(rule, from);
    else this.#sources.delete(rule);
    const refusal =
      reach.fromRefusal(from, namespaces.factsOf(from)) ?? reach.toRefusal(home, home, namespaces.factsOf(home));
    return refusal && { ...refusal, part: 'all' };
  }

  async find(rule: RuleKey, { selection, mayPush = true, find, least = selection.names.size }: Wanted): Promise<Found> {
    const { namespaces, reach } = this.#scope;
    const home = namespaceOf(rule);
    if (!mayPush) {
      this.leave(rule);
      const message = `annotations must not push copies: --${this.name}-push is false`;
      return { targets: NONE, outOfReach: { ...because('NotPermitted', message), part: 'all' } };
    }
    const forbidden = reach.fromRefusal(home, namespaces.factsOf(home));
    if (forbidden !== undefined) {
      this.leave(rule);
      this.#sources.set(rule, home);
      return { targets: NONE, outOfReach: { ...forbidden, part: 'all' } };
    }
    // Stored before the search, so that a namespace that changes meanwhile causes another evaluation.
    this.#selections.set(rule, selection);
    if (reach.readsLabels) this.#sources.set(rule, home);
    const leftOut = new LeftOut(home);
    const found =
      find === undefined ? new Set(await reach.reachedBy(selection, namespaces, leftOut, home)) : await find(leftOut);
    const outOfReach = leftOut.outOfReach() ?? (leftOut.reached === 0 && isMisread(selection) ? MISREAD : undefined);
    if ('reason' in found) return { targets: NONE, refusal: found, outOfReach };
    const size = { targets: Math.max(found.size, least), patterns: patternSize(selection) };
    const refusal = this.#limits.take(rule, size);
    if (refusal === undefined) return { targets: found, outOfReach };
    // Only namespaces that match a pattern change the number of targets: those in named namespaces always count.
    this.#selections.set(rule, { ...selection, names: new Set() });
    return { targets: NONE, refusal, outOfReach };
  }
}
