/** Puts the replicator system on an engine: its watches, its system, its resync. */
import type { ReplicatorConfig } from '../../config/config.ts';
import type { Engine } from '../../copy/engine.ts';
import type { Cluster } from '../../copy/cluster/cluster.ts';
import { type ResourceKey, parseResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { CONFIG_MAP, type Kind, SECRET } from '../../copy/model/kind.ts';
import type { Observed } from '../../copy/model/observed.ts';
import { NamespaceNews } from '../common/namespace-news.ts';
import { PatternCache } from '../common/namespace-patterns.ts';
import { type Clock, systemClock } from '../../runtime/clock.ts';
import type { Steps } from '../../runtime/slices.ts';
import { annotationNames, isAnnotated } from './annotations.ts';
import { Bursts } from './bursts.ts';
import type { ReplicatorEvent } from './report.ts';
import type { RuleSettings } from './rule.ts';
import { ReplicatorReconciler, type RuleObject } from './reconciler.ts';

/** The source component of its events. */
export const REPLICATOR_EVENT_COMPONENT = 'k8s-replicator';

/** How long rules that namespaces concern wait for more namespaces after some have come, ms. The first of a burst waits for none. */
const NAMESPACES_REST_MS = 250;

/** The kinds by their names in `--run-replicators`. */
export const REPLICATED_KINDS = { secret: SECRET, configmap: CONFIG_MAP } as const;

export interface ReplicatorControllerOptions {
  readonly engine: Engine;
  readonly cluster: Cluster;
  readonly config: ReplicatorConfig;
  /** Kinds beside those that the config names; the cluster's backend must know them too. */
  readonly extraKinds?: readonly Kind[];
  readonly recordEvent: (subject: RuleObject, event: ReplicatorEvent) => void;
  readonly clock?: Clock;
}

export interface ReplicatorController {
  /** A namespace came or went. */
  namespaceChanged(name: string, there: boolean, initial: boolean): void;
  /** An object came, went or changed. */
  objectChanged(key: ResourceKey, before: Observed | undefined, after: Observed | undefined, initial: boolean): void;
  stop(): void;
}

/** Opens the watches and adds the system; the engine may be started when the cluster is synced. */
export function startReplicator(options: ReplicatorControllerOptions): ReplicatorController {
  const { engine, cluster, config } = options;
  const kinds: readonly Kind[] = [
    ...config.runReplicators.map((name) => REPLICATED_KINDS[name]),
    ...(options.extraKinds ?? []),
  ];
  const names = annotationNames(config.annotationsPrefix);
  const settings: RuleSettings = {
    names,
    allowAll: config.allowAll,
    ignoreUnknown: config.ignoreUnknown,
    createWithLabels: config.createWithLabels,
    patterns: new PatternCache('full'),
  };
  const system = new ReplicatorReconciler({
    api: cluster.api,
    settings,
    kinds,
    namespaces: cluster.namespaces,
    observed: (kind, namespace, name) => cluster.store(kind).index.get(namespace, name),
    recordEvent: options.recordEvent,
    onRoom: (rule) => engine.touchRule(rule, 'low'),
    isNamespaceNews: () => news.isBusy,
  });
  const news = new NamespaceNews(engine.slices, function* (name, there, initial): Steps<void> {
    const rules = yield* system.rulesFor(name);
    for (const rule of rules) system.outdated(rule);
    if (initial) for (const rule of rules) engine.touchRule(rule, 'low');
    else concerned.add(rules);
    system.recount();
    if (!there) system.forgetNamespace(name);
  });
  engine.addReconciler(system);
  const isRelevant = ({ annotations }: { readonly annotations?: Readonly<Record<string, string>> }): boolean =>
    isAnnotated(names, annotations);
  for (const kind of kinds) cluster.watchAll(kind, isRelevant);
  const timer = startResync(options, kinds, system);
  const concerned = new Bursts<RuleKey>(options.clock ?? systemClock, NAMESPACES_REST_MS, (rule) => {
    engine.touchRule(rule);
  });
  return {
    namespaceChanged: (...change) => news.add(...change),
    objectChanged: (key, before, after, initial) => {
      const rule = system.ruleOf(key);
      if (rule === undefined) return;
      const priority = initial ? 'low' : 'normal';
      const was = before && system.versionOf(before);
      const is = after && system.versionOf(after);
      if (was !== is) engine.touchRule(rule, priority);
      const wasMarkedBy = before && system.ownerOf(before, key);
      if (wasMarkedBy !== undefined && system.isBroken(wasMarkedBy)) engine.touchRule(wasMarkedBy, priority);
    },
    stop: () => {
      timer?.cancel();
      news.stop();
      concerned.stop();
    },
  };
}

/** Looks at everything again from time to time. Nothing should come of it: it is what the original promises. */
function startResync(
  { engine, cluster, config, clock = systemClock }: ReplicatorControllerOptions,
  kinds: readonly Kind[],
  system: ReplicatorReconciler,
): { cancel(): void } | undefined {
  if (config.resyncPeriodMs <= 0) return undefined;
  let timer: { cancel(): void } | undefined;
  const arm = (): void => {
    timer = clock.setTimeout(
      () => {
        for (const kind of kinds) {
          for (const key of cluster.store(kind).index.keys()) {
            const rule = system.ruleOf(key);
            const { namespace, name } = parseResourceKey(key);
            const observed = cluster.store(kind).index.get(namespace, name);
            if (rule !== undefined && observed !== undefined && system.versionOf(observed) !== undefined)
              engine.touchRule(rule, 'low');
            if (engine.book.isClaimed(key)) engine.touchTarget(key, 'low');
          }
        }
        arm();
      },
      config.resyncPeriodMs,
      { unref: true },
    );
  };
  arm();
  return { cancel: () => timer?.cancel() };
}
