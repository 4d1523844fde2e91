/** The status of rules and copies, as `keyferry status` prints it. The fields are those of the report (`commands/status/report.ts`). */
import type { Outcome } from '../../../copy/model/claim.ts';
import { parseResourceKey, type ResourceKey, type RuleKey } from '../../../copy/model/keys.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import type { KubeObject } from '../../../kube/api.ts';
import type { Condition } from '../rules/condition.ts';
import { VAULT_NOT_READ } from './inventory.ts';
import type { ListedRule, RuleReader } from './reader.ts';
import type { Snapshot } from './snapshot.ts';

/** A rule and its state. */
export interface RuleStatus extends TargetPlace {
  /** `mirrors`, … */
  readonly system: string;
  /** `secret default/mysecret`, `vault vault.example.com/secret/data/x`. */
  readonly source: string;
  /** Patterns of namespaces, or a place in Vault. */
  readonly destinations: readonly string[];
  /**
   * By controller: `Pending`, `Active`, `Error`; `Deleting`; `Unknown` before Keyferry has reconciled it, or if the permissions of the
   * caller do not cover it.
   */
  readonly state: string;
  readonly ready: boolean;
  readonly reason: string;
  readonly message: string;
  /** RFC 3339; `null`: never. For a SyncSecret: since when it is synced. */
  readonly lastSyncTime: string | null;
  readonly copies: readonly CopyStatus[];
  /** Every target that is not up to date, as far as the permissions of the caller reach. */
  readonly failing: readonly FailingTarget[];
}

/** An object, as the reports name it. */
export interface TargetPlace {
  readonly kind: string;
  /** '' for an object without a namespace. */
  readonly namespace: string;
  readonly name: string;
}

export function placeOf(object: ResourceKey): TargetPlace {
  const { kind, namespace, name } = parseResourceKey(object);
  return { kind, namespace, name };
}

/** `Secret default/mysecret` */
export function titleOf({ kind, namespace, name }: TargetPlace): string {
  return `${kind} ${namespace}/${name}`;
}

export interface CopyStatus extends TargetPlace {
  /** Version of the source in it; '' if sources have none. */
  readonly sourceVersion: string;
}

export interface FailingTarget extends TargetPlace {
  /** `pending`: Keyferry would write it now. */
  readonly state: Extract<Outcome['state'], 'pending' | 'waiting' | 'conflict' | 'error'>;
  readonly reason: string;
  readonly message: string;
}

/** A copy that no rule claims. */
export interface OrphanStatus extends CopyStatus {
  readonly system: string;
  /** The rule in its mark: `default/mysecret-mirror`. */
  readonly owner: string;
  readonly reason: string;
  /** Of a copy of an original that Keyferry does not decide on: what `keyferry migrate` says of it. */
  readonly verdict?: 'leftover' | 'manual' | undefined;
}

export type RuleState = Pick<RuleStatus, 'state' | 'ready' | 'reason' | 'message'>;

interface WithConditions extends KubeObject {
  readonly status?: { readonly observedGeneration?: number; readonly conditions?: readonly Condition[] };
}

export function notReady(state: string, reason: string, message: string): RuleState {
  return { state, ready: false, reason, message };
}

/** The state of a custom resource by one condition of its own status. @param state `RuleStatus.state`, unless it is being deleted */
export function stateByCondition({ metadata, status }: WithConditions, type: string, state: string): RuleState {
  const condition = status?.conditions?.find((one) => one.type === type);
  const isCurrent = metadata.generation === undefined || status?.observedGeneration === metadata.generation;
  if (metadata.deletionTimestamp !== undefined) {
    // A status from before the deletion does not explain why it waits.
    const isExplained = isCurrent && (condition?.status === 'False' || condition?.reason === 'Terminating');
    const details = isExplained ? `; ${condition.reason}: ${condition.message}` : '';
    return notReady('Deleting', 'Deleting', `since ${metadata.deletionTimestamp}${details}`);
  }
  if (condition === undefined) return notReady(state, 'NotSeen', 'not reconciled yet; check that Keyferry is running');
  if (!isCurrent) {
    return notReady(state, 'Outdated', 'the latest change is not reconciled yet; check that Keyferry is running');
  }
  return { state, ready: condition.status === 'True', reason: condition.reason, message: condition.message };
}

/** The reason if the permissions of the caller do not show the state of a rule. It is not known to fail. */
export const LIMITED = 'Limited';

/** By system, namespace and name. */
export function byName(a: TargetPlace & { system?: string }, b: TargetPlace & { system?: string }): number {
  for (const field of ['system', 'namespace', 'name'] as const) {
    const [left, right] = [a[field] ?? '', b[field] ?? ''];
    if (left !== right) return left < right ? -1 : 1;
  }
  return 0;
}

/** @param versionMark the annotation that has the version of the source */
export function copyStatus(copy: ResourceKey, { annotations }: Observed, versionMark: string): CopyStatus {
  return { ...placeOf(copy), sourceVersion: annotations[versionMark] ?? '' };
}

/**
 * The rules of all controllers, with their keys where they have claims. Decides the targets of those whose state alone does not say what is
 * wrong.
 * @param isIncluded whether the rules in a namespace are included
 * @throws the errors of `api.request`
 */
export async function ruleStatuses(
  snapshot: Snapshot,
  isIncluded: (namespace: string) => boolean,
): Promise<readonly (readonly [RuleKey | undefined, RuleStatus])[]> {
  const listed = [...snapshot.readers.values()].flatMap((reader) =>
    Array.from(reader.list(snapshot), (rule) => ({ reader, rule })).filter(({ rule }) => isIncluded(rule.namespace)),
  );
  await snapshot.settle(listed.flatMap(({ rule: { key, isDecided } }) => (isDecided ? (key ?? []) : [])));
  return listed.map(({ reader, rule }) => [rule.key, statusOf(snapshot, reader, rule)]);
}

function statusOf(snapshot: Snapshot, reader: RuleReader, rule: ListedRule): RuleStatus {
  const { key, isDecided, stateOf, ...described } = rule;
  const { claims, inventory } = snapshot;
  const copies: (readonly [ResourceKey, Observed])[] = [];
  for (const { claim } of key === undefined ? [] : claims.book.of(key)) {
    const observed = inventory.objects.get(claim.target);
    if (observed === undefined) continue;
    const isFilled = claim.mode === 'fill' && reader.isFilled?.(observed) === true;
    if (isFilled || (claim.mode !== 'fill' && claims.ownerOf(observed, claim.target) === key))
      copies.push([claim.target, observed]);
  }
  return {
    system: reader.system,
    ...described,
    ...stateOf(copies.map(([, observed]) => observed)),
    copies: copies.map(([copy, observed]) => copyStatus(copy, observed, reader.versionMark)).toSorted(byName),
    failing: isDecided && key !== undefined ? failingOf(snapshot, key) : [],
  };
}

/** The targets of a rule that are not up to date. @param snapshot with the outcomes of the rule */
function failingOf(snapshot: Snapshot, rule: RuleKey): FailingTarget[] {
  const failing: FailingTarget[] = [];
  for (const { claim, outcome } of snapshot.claims.book.of(rule)) {
    const { state, reason, message } = outcome;
    if (state === 'synced' || state === 'released') continue;
    const place = placeOf(claim.target);
    if (state === 'waiting' && claim.source === undefined && reason === VAULT_NOT_READ.reason) {
      // Without reading Vault, nothing is known of the content of a copy.
      if (snapshot.inventory.objects.has(claim.target)) continue;
      failing.push({ ...place, state, reason: 'Missing', message: 'the copy does not exist yet' });
    } else if (state === 'pending') {
      const { plan } = snapshot.decisionOn(claim.target);
      failing.push({
        ...place,
        state,
        reason: 'Outdated',
        message: plan.do === 'later' ? 'changed while it was read' : `Keyferry will ${plan.do} it`,
      });
    } else {
      failing.push({ ...place, state, reason, message });
    }
  }
  return failing.toSorted(byName);
}
