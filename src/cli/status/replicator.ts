/** The status of annotated Secrets and ConfigMaps. They have no status of their own: it is found out as the controller would. */
import { REPLICATED_KINDS } from '../../controllers/replicator/controller.ts';
import { annotationNames, type AnnotationNames, listItems } from '../../controllers/replicator/annotations.ts';
import { isFilled } from '../../controllers/replicator/bookkeeping.ts';
import { remarksOn } from '../../controllers/replicator/report.ts';
import { readRule, type ReplicationRule, type RuleSettings } from '../../controllers/replicator/rule.ts';
import { REPLICATOR_SYSTEM } from '../../controllers/replicator/system.ts';
import type { Entry } from '../../copy/claim-book.ts';
import { type HolderKey, parseHolderKey, type RuleKey } from '../../copy/keys.ts';
import type { Observed } from '../../copy/observed.ts';
import type { Kind } from '../../copy/kind.ts';
import { PatternCache } from '../../copy/patterns.ts';
import type { KubeApi } from '../../kube/api.ts';
import type { StatusOptions } from '../actions.ts';
import { AnnotatedCluster } from './annotated.ts';
import { byName, type CopyStatus, type OrphanStatus, type RuleStatus, type SystemStatus } from './report.ts';

/** How annotations are read, and of which kinds, as the replicator runs. */
export function settingsOf({
  annotationsPrefix,
  allowAll,
  ignoreUnknown,
  runReplicators,
}: StatusOptions['replicator']): {
  readonly settings: RuleSettings;
  readonly kinds: readonly Kind[];
} {
  const settings: RuleSettings = {
    names: annotationNames(annotationsPrefix),
    allowAll,
    ignoreUnknown,
    // What is there keeps its labels; they are given at creation only.
    createWithLabels: {},
    patterns: new PatternCache('full'),
  };
  return { settings, kinds: runReplicators.map((kind) => REPLICATED_KINDS[kind]) };
}

/** @param namespace of the annotated objects; `undefined` for all */
export async function replicatorStatus(
  api: KubeApi,
  options: StatusOptions['replicator'],
  namespace: string | undefined,
  now: number,
  signal?: AbortSignal,
): Promise<SystemStatus> {
  const { settings, kinds } = settingsOf(options);
  const { names } = settings;
  const cluster = await AnnotatedCluster.read(api, settings, kinds, now, signal);
  const asked = (place: string): boolean => namespace === undefined || place === namespace;
  const rules: RuleStatus[] = [];
  for (const [key, observed] of cluster.objects) {
    const place = parseHolderKey(key);
    const rule = cluster.system.ruleOf(key);
    if (!asked(place.namespace) || (rule !== undefined && !cluster.isRule(rule))) continue;
    const wish = readRule(settings, place, observed.annotations);
    if (wish === undefined) continue;
    const annotated = { key, observed, wish };
    rules.push(
      rule === undefined ? ignoredStatus(names, annotated) : ruleStatus(cluster, names, { ...annotated, rule }),
    );
  }
  return {
    system: REPLICATOR_SYSTEM,
    installed: true,
    rules,
    orphans: orphansOf(cluster, names).filter(({ owner }) => asked(owner.split('/')[0] ?? '')),
  };
}

interface Annotated {
  readonly key: HolderKey;
  readonly observed: Observed;
  readonly wish: ReplicationRule;
}

/** What stands in the object, whoever follows it. */
function wishOf(
  names: AnnotationNames,
  { key, observed, wish }: Annotated,
): Pick<RuleStatus, 'system' | 'kind' | 'namespace' | 'name' | 'source' | 'destinations'> {
  const { kind, namespace, name } = parseHolderKey(key);
  const from = wish.kind === 'broken' ? undefined : wish.from;
  return {
    system: REPLICATOR_SYSTEM,
    kind,
    namespace,
    name,
    source: `${kind.toLowerCase()} ${from ?? `${namespace}/${name}`}`,
    destinations: wish.kind === 'pull' ? [`${namespace}/${name}`] : destinationsOf(names, observed),
  };
}

/** An object of a kind that the replicator does not run for. */
function ignoredStatus(names: AnnotationNames, annotated: Annotated): RuleStatus {
  const wish = wishOf(names, annotated);
  const message = `the replicator does not run for ${wish.kind}s (--run-replicators)`;
  const state = { state: 'Ignored', ready: false, reason: 'NotRun', message };
  return { ...wish, ...state, lastSyncTime: annotated.observed.annotations[names.at] ?? null, copies: [] };
}

function ruleStatus(
  cluster: AnnotatedCluster,
  names: AnnotationNames,
  annotated: Annotated & { readonly rule: RuleKey },
): RuleStatus {
  const { rule, wish } = annotated;
  const entries = [...cluster.book.of(rule)];
  const copies: CopyStatus[] = [];
  let lastSyncTime: string | null = null;
  for (const { claim } of entries) {
    const target = cluster.objects.get(claim.target);
    if (target === undefined) continue;
    const ours =
      claim.mode === 'fill' ? isFilled(names, target) : cluster.system.ownerOf(target, claim.target) === rule;
    if (!ours) continue;
    copies.push(copyOf(names, claim.target, target));
    const at = target.annotations[names.at];
    if (at !== undefined && (lastSyncTime === null || at > lastSyncTime)) lastSyncTime = at;
  }
  return {
    ...wishOf(names, annotated),
    ...stateOf(wish, entries),
    lastSyncTime,
    copies: copies.toSorted(byName),
  };
}

/** As they are written, because a status has to be recognized. */
function destinationsOf(names: AnnotationNames, { annotations }: Observed): string[] {
  return [names.to, names.toNamespaces].flatMap((name) => listItems(annotations[name] ?? ''));
}

function stateOf(
  wish: ReplicationRule,
  entries: readonly Entry[],
): Pick<RuleStatus, 'state' | 'ready' | 'reason' | 'message'> {
  const [pending, told] = [entries.filter(isPending), entries.filter((entry) => !isPending(entry))];
  const [first, ...more] = remarksOn(wish.kind === 'broken' ? wish.refusal : undefined, told) ?? [];
  if (first !== undefined) {
    const message = [first, ...more].map((remark) => remark.message).join('; ');
    return { state: wish.kind === 'broken' ? 'Suspended' : 'Error', ready: false, reason: first.reason, message };
  }
  if (pending.length > 0) {
    const message = `${pending.length} of ${entries.length} not as they should be yet; does Keyferry run? If so, the events of this object say why`;
    return { state: 'Outdated', ready: false, reason: 'Outdated', message };
  }
  const waiting = entries.find(({ outcome }) => outcome.state === 'waiting')?.outcome;
  if (waiting !== undefined) {
    return { state: 'Waiting', ready: false, reason: waiting.reason, message: waiting.message };
  }
  const message = `${entries.length} ${entries.length === 1 ? 'object is' : 'objects are'} up to date`;
  return { state: 'Active', ready: true, reason: 'Synced', message };
}

function isPending({ outcome }: Entry): boolean {
  return outcome.state === 'pending';
}

function orphansOf(cluster: AnnotatedCluster, names: AnnotationNames): OrphanStatus[] {
  const orphans: OrphanStatus[] = [];
  for (const [rule, targets] of cluster.owned) {
    const claimed = new Set(Array.from(cluster.book.of(rule), ({ claim }) => claim.target));
    for (const key of targets) {
      const target = cluster.objects.get(key);
      if (claimed.has(key) || target === undefined) continue;
      const why = cluster.isRule(rule) ? 'its source does not name it any more' : 'its source is gone, or no source';
      const then = cluster.fateOf(rule, target) === 'delete' ? 'it goes when Keyferry runs' : 'it stays';
      orphans.push({
        system: REPLICATOR_SYSTEM,
        ...copyOf(names, key, target),
        owner: target.annotations[names.by] ?? '',
        reason: `${why}; ${then}`,
      });
    }
  }
  return orphans;
}

function copyOf(names: AnnotationNames, key: HolderKey, { annotations }: Observed): CopyStatus {
  const { kind, namespace, name } = parseHolderKey(key);
  return { kind, namespace, name, sourceVersion: annotations[names.version] ?? '' };
}
