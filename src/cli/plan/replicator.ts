/**
 * What manifests would make of the replicator's objects: the real rules, claim book and `plan`, as `keyferry status` uses them, on
 * the cluster as it would be.
 */
import { readRule } from '../../controllers/replicator/rule.ts';
import { REPLICATOR_SYSTEM } from '../../controllers/replicator/system.ts';
import type { Entry } from '../../copy/claim-book.ts';
import { holderKey, type HolderKey, parseHolderKey, type RuleKey } from '../../copy/keys.ts';
import { winnerOf } from '../../copy/plan.ts';
import type { KubeApi } from '../../kube/api.ts';
import { isForbidden } from '../../kube/errors.ts';
import type { StatusOptions } from '../actions.ts';
import { AnnotatedCluster } from '../status/annotated.ts';
import { settingsOf } from '../status/replicator.ts';
import { ImaginedApi } from './imagined-api.ts';
import type { Manifest } from './manifests.ts';
import type { PlannedNote, PlannedProblem, PlannedTarget } from './report.ts';
import { told } from './told.ts';

export interface ReplicatorPlanInput {
  readonly api: KubeApi;
  readonly manifests: readonly Manifest[];
  /** Of objects that name none. */
  readonly namespace: string;
  readonly options: StatusOptions['replicator'];
  /** Wall clock, ms. */
  readonly now: number;
  readonly signal?: AbortSignal | undefined;
}

interface ReplicatorPlan {
  readonly targets: readonly PlannedTarget[];
  readonly problems: readonly PlannedProblem[];
  readonly notes: readonly PlannedNote[];
  /** ConfigMaps that have nothing to do with it. */
  readonly ignored: number;
}

/**
 * Where the right to list Secrets or ConfigMaps is missing, SecretMirrors are planned all the same.
 * @throws ManifestError, and what `api.request` throws
 */
export async function planReplicator(input: ReplicatorPlanInput): Promise<ReplicatorPlan> {
  try {
    return await planAnnotated(input);
  } catch (error) {
    if (!isForbidden(error)) throw error;
    const notes = [{ rule: REPLICATOR_SYSTEM, note: `not planned: ${error.message}` }];
    return { targets: [], problems: [], notes, ignored: 0 };
  }
}

async function planAnnotated(input: ReplicatorPlanInput): Promise<ReplicatorPlan> {
  const { api, manifests, namespace, options, now, signal } = input;
  const { settings, kinds } = settingsOf(options);
  const imagined = new ImaginedApi(api, manifests, namespace, now);
  const cluster = await AnnotatedCluster.read(imagined, settings, kinds, now, signal);

  const given = new Set<HolderKey>();
  const namespaces = new Set<string>();
  for (const { kind, object } of manifests) {
    const { name, namespace: home = namespace } = object.metadata;
    if (kind === 'v1 Namespace') namespaces.add(name);
    if (kind === 'v1 Secret') given.add(holderKey(api.cluster, 'Secret', home, name));
    if (kind === 'v1 ConfigMap') given.add(holderKey(api.cluster, 'ConfigMap', home, name));
  }
  const touched = new Set<HolderKey>();
  const concerned = new Set<HolderKey>();
  const problems: PlannedProblem[] = [];
  for (const [key, observed] of cluster.objects) {
    const rule = cluster.system.ruleOf(key);
    if (rule === undefined) continue;
    if (given.has(key)) lookAt(key, rule);
    for (const { claim } of cluster.book.of(rule)) {
      const source = claim.source !== undefined && given.has(claim.source) ? claim.source : undefined;
      if (source !== undefined) concerned.add(source);
      const isNew = namespaces.has(parseHolderKey(claim.target).namespace);
      if (given.has(key) || source !== undefined || given.has(claim.target) || isNew) touched.add(claim.target);
    }
    const wish = given.has(key) ? readRule(settings, parseHolderKey(key), observed.annotations) : undefined;
    if (wish?.kind === 'broken') problems.push({ rule: titleOf(key), problem: wish.refusal.message });
  }
  const targets: PlannedTarget[] = [];
  for (const target of [...touched].toSorted()) targets.push(await row(target));
  const unconcerned = [...given].filter((key) => parseHolderKey(key).kind === 'ConfigMap' && !isConcerned(key));
  return { targets, problems, notes: [], ignored: unconcerned.length };

  /** A broken rule takes nothing away; of another, what it has made and does not claim goes. */
  function lookAt(key: HolderKey, rule: RuleKey): void {
    if (cluster.isRule(rule)) concerned.add(key);
    if (!cluster.system.isBroken(rule)) for (const target of cluster.owned.get(rule) ?? []) touched.add(target);
  }

  function isConcerned(key: HolderKey): boolean {
    return concerned.has(key) || touched.has(key);
  }

  async function row(target: HolderKey): Promise<PlannedTarget> {
    const { kind, namespace: home, name } = parseHolderKey(target);
    const entries = [...cluster.book.on(target)];
    const observed = cluster.objects.get(target);
    const owner = observed === undefined ? undefined : cluster.system.ownerOf(observed, target);
    const marker = owner === undefined ? '' : ownerTitle(owner);
    const decision = await cluster.decide(target, signal);
    const said = decision.do === 'nothing' ? remarkOf(entries) : undefined;
    const rule = (winnerOf(entries) ?? entries[0])?.claim.owner.title ?? marker;
    return { system: REPLICATOR_SYSTEM, kind, namespace: home, name, rule, ...(said ?? told(decision, marker)) };
  }

  function ownerTitle(owner: RuleKey): string {
    for (const key of cluster.objects.keys()) if (cluster.system.ruleOf(key) === owner) return titleOf(key);
    return 'its source, which is gone,';
  }
}

function titleOf(key: HolderKey): string {
  const { kind, namespace, name } = parseHolderKey(key);
  return `${kind} ${namespace}/${name}`;
}

/** Why nothing is done, where that is not because all is well. */
function remarkOf(entries: readonly Entry[]): Pick<PlannedTarget, 'action' | 'reason'> | undefined {
  for (const { outcome } of entries) {
    const reason = `${outcome.reason}: ${outcome.message}`;
    if (outcome.state === 'error') return { action: 'fail', reason };
    if (outcome.state === 'conflict') return { action: 'conflict', reason: outcome.message };
    if (outcome.state === 'waiting') return { action: 'wait', reason };
  }
  return undefined;
}
