/** What the readers of annotated objects share: such a rule has no status, so its state comes from its outcomes. */
import { eventsOf, warningsOf } from '../../controllers/common/annotated/report.ts';
import type { AnnotatedRules, FindObject } from '../../controllers/common/annotated/rules.ts';
import type { Entry } from '../../copy/book/claim-book.ts';
import { because, withReason } from '../../copy/model/cause.ts';
import { parseResourceKey, parseRuleKey, resourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Evaluation, OutOfReach } from '../../copy/model/rule-set.ts';
import type { Inventory } from '../snapshot/inventory.ts';
import type { Description, RuleReader, SnapshotView, Unwanted } from '../snapshot/reader.ts';
import { LIMITED, notReady, type RuleState } from '../snapshot/rule-state.ts';

type Annotations = Observed['annotations'];

/** A rule that was evaluated, with its object. */
export interface ReadRule {
  readonly key: RuleKey;
  readonly evaluation: Evaluation;
  readonly annotations: Annotations;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
}

export abstract class AnnotatedReader<Rules extends AnnotatedRules> implements RuleReader {
  readonly ruleSet: Rules;
  readonly versionMark: string;
  protected readonly inventory: Inventory;

  constructor(inventory: Inventory, ruleSet: Rules, versionMark: string) {
    this.inventory = inventory;
    this.ruleSet = ruleSet;
    this.versionMark = versionMark;
  }

  ruleOf(object: ResourceKey): RuleKey | undefined {
    return this.ruleSet.ruleOf(object);
  }

  describe(object: ResourceKey, snapshot: SnapshotView): Description | undefined {
    const key = this.ruleOf(object);
    const evaluation = key && snapshot.rules.get(key);
    const annotations = this.inventory.objects.get(object)?.annotations;
    if (key === undefined || evaluation === undefined || annotations === undefined) return undefined;
    const { refusal, outOfReach } = evaluation;
    const described = this.described({ key, evaluation, annotations, ...parseResourceKey(object) }, snapshot);
    if (described === undefined) return undefined;
    const all = [this.warningsOn(key, outOfReach), ...(described.notes ?? [])].filter((note) => note !== '');
    return {
      problems: refusal === undefined ? [] : [refusal.message],
      ...described,
      notes: all.length === 0 ? [] : [all.join('; ')],
    };
  }

  /** What is said of a rule besides its warnings and its refusal; `undefined`: its annotations ask for nothing. */
  protected abstract described(rule: ReadRule, snapshot: SnapshotView): Description | undefined;

  protected warningsOn(key: RuleKey, outOfReach: OutOfReach | undefined): string {
    return warningsOf(this.ruleSet, key, outOfReach).map(withReason).join('; ');
  }

  /**
   * The state of a rule, from the outcomes of its claims.
   * @param isPush whether it makes copies
   * @param at the time of its last copy
   */
  protected stateOf(
    { evaluation: { refusal, outOfReach } }: ReadRule,
    claims: Iterable<Entry>,
    isPush: boolean,
    at: string | undefined,
  ): ReturnType<Description['state']> {
    const entries = [...this.ruleSet.named(claims)];
    const problem = problemIn(outOfReach);
    const told = (): RuleState => {
      const [pending, settled] = [entries.filter(isPending), entries.filter((entry) => !isPending(entry))];
      const [first, ...more] = eventsOf(refusal, settled) ?? [];
      if (first !== undefined) {
        const message = [first, ...more].map((remark) => remark.message).join('; ');
        // As for a SecretMirror, a conflict is no error: all that the rule may write is up to date.
        const state = settled.some(({ outcome }) => outcome.state === 'error') ? 'Error' : 'Active';
        return notReady(refusal === undefined ? state : 'Suspended', { reason: first.reason, message });
      }
      const isBeyond = isPush && problem === undefined && entries.length === 0 && this.inventory.served !== undefined;
      if (isBeyond || entries.some((entry) => this.#isUnread(entry))) return notReady('Unknown', because(LIMITED));
      if (pending.length > 0) {
        const message = `${pending.length} of ${entries.length} not up to date; check that Keyferry is running and see the events of this object`;
        return notReady('Outdated', because('Outdated', message));
      }
      const waiting = entries.find(({ outcome }) => outcome.state === 'waiting')?.outcome;
      if (waiting !== undefined) return notReady('Waiting', waiting);
      const message = `${entries.length} ${entries.length === 1 ? 'object is' : 'objects are'} up to date`;
      if (problem === undefined) return { state: 'Active', ready: true, reason: 'Synced', message };
      const state = problem.part === 'all' ? 'Error' : 'Active';
      return notReady(state, { reason: problem.reason, message: `${problem.message}; ${message}` });
    };
    return { ...told(), lastSyncTime: at ?? null };
  }

  /** Whether the source is in a namespace that was not read. */
  #isUnread({ claim: { source } }: Entry): boolean {
    if (source === undefined) return false;
    const { kind, namespace } = parseResourceKey(source);
    return !this.inventory.isListed(kind, namespace);
  }

  unwanted(object: ResourceKey, observed: Observed, { claims, rules }: SnapshotView): Unwanted | undefined {
    const { rule } = this.ruleSet.markOn(observed, object) ?? {};
    if (rule === undefined || claims.book.claims(rule, object)) return undefined;
    const { kind, namespace } = parseRuleKey(rule);
    return this.inventory.isListed(kind, namespace) ? this.left(rule, observed, rules.get(rule)) : undefined;
  }

  /** Describes a copy that its rule does not want. @param evaluation of the rule; `undefined`: there is no such rule */
  protected abstract left(rule: RuleKey, observed: Observed, evaluation: Evaluation | undefined): Unwanted;
}

/** Finds the objects that the command has listed, as `watchedObjects` finds those that the operator watches. */
export function listedObjects({ objects }: Inventory, cluster: string): FindObject {
  return ({ kind }, namespace, name) => objects.get(resourceKey(cluster, kind, namespace, name));
}

/** Why no rule wants a copy. @param evaluation that of its source */
export function whyUnwanted(evaluation: Evaluation | undefined): string {
  return evaluation === undefined
    ? 'its source does not exist, or is no source'
    : 'its source does not select its namespace';
}

/** Why the rule copies nothing, or cannot copy into a namespace that it names; `undefined`: no such problem. */
export function problemIn(outOfReach: OutOfReach | undefined): OutOfReach | undefined {
  return outOfReach?.part === 'others' ? undefined : outOfReach;
}

function isPending({ outcome }: Entry): boolean {
  return outcome.state === 'pending';
}
