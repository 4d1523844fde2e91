/** The status of annotated Secrets and ConfigMaps. They have no status of their own: their targets are decided as the controller would. */
import { parseResourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Entry } from '../../copy/plan/claim-book.ts';
import type { Snapshot } from '../common/snapshot/snapshot.ts';
import {
  byName,
  type ControllerStatus,
  type CopyStatus,
  failingOf,
  LIMITED,
  notReady,
  orphanNote,
  type OrphanStatus,
  type RuleState,
  type RuleStatus,
} from '../common/snapshot/status-report.ts';
import { type AnnotationNames, listItems } from './annotations.ts';
import { isFilled } from './bookkeeping.ts';
import type { ReplicatorReader } from './reader.ts';
import { REPLICATOR_CONTROLLER } from './reconciler.ts';
import { eventsOf } from './rule-events.ts';
import type { ReplicationRule } from './rule.ts';

/** @see RuleReader.status */
export async function replicatorStatus(
  snapshot: Snapshot,
  reader: ReplicatorReader,
  isIncluded: (namespace: string) => boolean,
): Promise<ControllerStatus> {
  const { names } = reader.settings;
  const annotated: (Annotated & { readonly rule: RuleKey | undefined })[] = [];
  for (const [key, observed] of snapshot.inventory.objects) {
    const place = parseResourceKey(key);
    const rule = reader.ruleOf(key);
    if (!isIncluded(place.namespace) || (rule !== undefined && !snapshot.rules.has(rule))) continue;
    const replication = reader.replicationRuleOf(key, observed);
    if (replication !== undefined) annotated.push({ key, observed, replication, rule });
  }
  await snapshot.settle(annotated.flatMap(({ rule }) => rule ?? []));
  const rules = annotated.map(({ rule, ...one }) =>
    rule === undefined ? ignoredStatus(names, one) : ruleStatus(snapshot, names, { ...one, rule }),
  );
  return {
    system: REPLICATOR_CONTROLLER,
    installed: true,
    rules,
    orphans: await orphansOf(snapshot, reader),
  };
}

interface Annotated {
  readonly key: ResourceKey;
  readonly observed: Observed;
  readonly replication: ReplicationRule;
}

/** The part of a status that the annotations alone determine. */
function replicationOf(
  names: AnnotationNames,
  { key, observed, replication }: Annotated,
): Pick<RuleStatus, 'system' | 'kind' | 'namespace' | 'name' | 'source' | 'destinations'> {
  const { kind, namespace, name } = parseResourceKey(key);
  const from = replication.kind === 'broken' ? undefined : replication.from;
  return {
    system: REPLICATOR_CONTROLLER,
    kind,
    namespace,
    name,
    source: `${kind.toLowerCase()} ${from ?? `${namespace}/${name}`}`,
    destinations: replication.kind === 'pull' ? [`${namespace}/${name}`] : destinationsOf(names, observed),
  };
}

/** An object of a kind that the replicator does not run for. */
function ignoredStatus(names: AnnotationNames, annotated: Annotated): RuleStatus {
  const replication = replicationOf(names, annotated);
  const message = `the replicator does not run for ${replication.kind}s (--run-replicators)`;
  const lastSyncTime = annotated.observed.annotations[names.at] ?? null;
  return { ...replication, ...notReady('Ignored', 'NotRun', message), lastSyncTime, copies: [], failing: [] };
}

function ruleStatus(
  snapshot: Snapshot,
  names: AnnotationNames,
  annotated: Annotated & { readonly rule: RuleKey },
): RuleStatus {
  const { rule, replication } = annotated;
  const entries = [...snapshot.claims.book.of(rule)];
  const copies: CopyStatus[] = [];
  let lastSyncTime: string | null = null;
  for (const { claim } of entries) {
    const target = snapshot.inventory.objects.get(claim.target);
    if (target === undefined) continue;
    const ours =
      claim.mode === 'fill' ? isFilled(names, target) : snapshot.claims.ownerOf(target, claim.target) === rule;
    if (!ours) continue;
    copies.push(copyOf(names, claim.target, target));
    const at = target.annotations[names.at];
    if (at !== undefined && (lastSyncTime === null || at > lastSyncTime)) lastSyncTime = at;
  }
  return {
    ...replicationOf(names, annotated),
    ...stateOf(snapshot, replication, entries),
    lastSyncTime,
    copies: copies.toSorted(byName),
    failing: failingOf(snapshot, rule),
  };
}

/** As they are written in the annotations. */
function destinationsOf(names: AnnotationNames, { annotations }: Observed): string[] {
  return [names.to, names.toNamespaces].flatMap((name) => listItems(annotations[name] ?? ''));
}

function stateOf(snapshot: Snapshot, replication: ReplicationRule, entries: readonly Entry[]): RuleState {
  const [pending, settled] = [entries.filter(isPending), entries.filter((entry) => !isPending(entry))];
  const [first, ...more] = eventsOf(replication.kind === 'broken' ? replication.refusal : undefined, settled) ?? [];
  if (first !== undefined) {
    const message = [first, ...more].map((remark) => remark.message).join('; ');
    return notReady(replication.kind === 'broken' ? 'Suspended' : 'Error', first.reason, message);
  }
  if (dependsOnUnlisted(snapshot, replication, entries)) {
    return notReady('Unknown', LIMITED, 'no permission to read other namespaces');
  }
  if (pending.length > 0) {
    const message = `${pending.length} of ${entries.length} not up to date; check that Keyferry is running and see the events of this object`;
    return notReady('Outdated', 'Outdated', message);
  }
  const waiting = entries.find(({ outcome }) => outcome.state === 'waiting')?.outcome;
  if (waiting !== undefined) return notReady('Waiting', waiting.reason, waiting.message);
  const message = `${entries.length} ${entries.length === 1 ? 'object is' : 'objects are'} up to date`;
  return { state: 'Active', ready: true, reason: 'Synced', message };
}

/** Whether the rule depends on namespaces that could not be listed. */
function dependsOnUnlisted(snapshot: Snapshot, replication: ReplicationRule, entries: readonly Entry[]): boolean {
  if (['Namespace', 'Secret', 'ConfigMap'].every((kind) => snapshot.inventory.isWhole(kind))) return false;
  if (replication.kind === 'push') return true;
  return entries.some(({ claim }) => {
    if (claim.source === undefined) return false;
    const { kind, namespace } = parseResourceKey(claim.source);
    return !snapshot.inventory.isListed(kind, namespace);
  });
}

function isPending({ outcome }: Entry): boolean {
  return outcome.state === 'pending';
}

async function orphansOf(snapshot: Snapshot, reader: ReplicatorReader): Promise<OrphanStatus[]> {
  const { names } = reader.settings;
  const unclaimed = [...snapshot.inventory.objects].flatMap(([key, target]) => {
    const rule = reader.reconciler.ownerOf(target, key);
    if (rule === undefined || snapshot.claims.book.claims(rule, key)) return [];
    const [kind = '', home = ''] = rule.slice(REPLICATOR_CONTROLLER.length + 1).split('/');
    return snapshot.inventory.isListed(kind, home) ? [{ key, target, rule }] : [];
  });
  await snapshot.decide(unclaimed.map(({ key }) => key));
  const orphans: OrphanStatus[] = [];
  for (const { key, target, rule } of unclaimed) {
    const why = snapshot.rules.has(rule)
      ? 'no longer selected by its source'
      : 'its source does not exist or has no copies';
    const owner = target.annotations[names.by] ?? '';
    const reason = `${why}; ${orphanNote(snapshot, key)}`;
    orphans.push({ system: REPLICATOR_CONTROLLER, ...copyOf(names, key, target), owner, reason });
  }
  return orphans;
}

function copyOf(names: AnnotationNames, key: ResourceKey, { annotations }: Observed): CopyStatus {
  const { kind, namespace, name } = parseResourceKey(key);
  return { kind, namespace, name, sourceVersion: annotations[names.version] ?? '' };
}
