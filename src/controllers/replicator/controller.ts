/** The replicator controller: watches annotated objects of its kinds, and reconciles all of them periodically. */
import type { Controller } from '../../copy/engine/controller.ts';
import { type ResourceKey, parseResourceKey } from '../../copy/model/keys.ts';
import type { Kind } from '../../copy/model/kind.ts';
import type { Observed } from '../../copy/model/observed.ts';
import { jsonReply, type Reply } from '../../observe/routes.ts';
import type { Timer } from '../../runtime/clock.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { NamespaceChanges } from '../common/namespaces/namespace-changes.ts';
import { PatternCache } from '../../runtime/text/name-patterns.ts';
import { RuleLimits } from '../common/rules/rule-limits.ts';
import { annotationNames, isAnnotated, isReplicatorAnnotation, SUSPEND_ANNOTATION } from './rules/annotations.ts';
import { ReplicatorReconciler } from './reconciler.ts';
import { REPLICATED_KINDS, ReplicatorRules } from './rules/rule-set.ts';

export const replicator: ControllerEntry = {
  name: 'replicator',
  annotationReader: (config) => {
    const names = annotationNames(config.replicator.annotationsPrefix);
    return (annotation) => annotation === SUSPEND_ANNOTATION || isReplicatorAnnotation(names, annotation);
  },
  create: (context) => new ReplicatorController(context),
  // A kind is ready when the first lists of its objects and of the namespaces are complete.
  healthz: ({ cluster, config }, stuck) => {
    const synced = new Set(cluster.watches.filter((watch) => watch.synced).map(({ name }) => name));
    const unsynced = config.replicator.runReplicators.filter((kind) => {
      return !synced.has('namespaces') || !synced.has(`${kind}s/all`);
    });
    return replicatorHealth(unsynced, stuck);
  },
  reader: async () => (await import('./reader.ts')).replicatorReader,
  programs: async () => (await import('./migration.ts')).REPLICATOR_PROGRAMS,
};

/** The original's name of a replicator: one Go type serves Secrets and ConfigMaps. */
const COMPONENT = '*replicate.ObjectReplicator';

/**
 * `/healthz` in the format of the original.
 * @param unsynced the kinds whose first list is not complete
 * @param stuck problems that a restart may solve; in a field that the original does not have
 */
export function replicatorHealth(unsynced: readonly string[], stuck: readonly string[] = []): Reply {
  const ok = unsynced.length === 0 && stuck.length === 0;
  return jsonReply(ok ? 200 : 503, {
    notReady: unsynced.map(() => COMPONENT),
    ...(stuck.length === 0 ? {} : { stuck }),
  });
}

/** The source component of its events. */
const EVENT_COMPONENT = 'k8s-replicator';

class ReplicatorController implements Controller {
  readonly reconciler: ReplicatorReconciler;
  readonly #rules: ReplicatorRules;
  readonly #context: ControllerContext;
  readonly #kinds: readonly Kind[];
  readonly #changes: NamespaceChanges;
  #resync: Timer | undefined;

  constructor(context: ControllerContext) {
    this.#context = context;
    const { engine, cluster, clock, extraKinds, recordEvent } = context;
    const config = context.config.replicator;
    this.#kinds = [...config.runReplicators.map((name) => REPLICATED_KINDS[name]), ...extraKinds];
    const limits = new RuleLimits({
      namespaces: () => cluster.namespaces.size,
      onChange: (rule) => engine.enqueueRule(rule, 'low'),
    });
    const rules = (this.#rules = new ReplicatorRules({
      cluster: cluster.api.cluster,
      settings: { ...config, names: annotationNames(config.annotationsPrefix), patterns: new PatternCache('full') },
      kinds: this.#kinds,
      namespaces: cluster.namespaces,
      served: cluster.served,
      observed: (kind, namespace, name) => cluster.store(kind).index.get(namespace, name),
      limits,
      reach: context.reach,
      push: context.config.limits.replicatorPush,
    }));
    this.reconciler = new ReplicatorReconciler({
      api: cluster.api,
      rules,
      recordEvent: ({ kind: { apiVersion, kind }, namespace, name, uid }, event) => {
        const subject = { apiVersion, kind, namespace, name, uid };
        recordEvent(EVENT_COMPONENT, { subject, ...event, isState: true });
      },
      isNamespacePending: (...copy) => this.#changes.isPending(...copy),
    });
    this.#changes = new NamespaceChanges({ engine, clock, rules, limits });
  }

  open(): void {
    const { cluster, config, onObjectChange } = this.#context;
    const names = annotationNames(config.replicator.annotationsPrefix);
    onObjectChange((key, before, after, initial) => {
      this.#objectChanged(key, before, after, initial);
    });
    cluster.watchNamespaces((...change) => this.#changes.add(...change));
    for (const kind of this.#kinds) cluster.watchAll(kind, ({ annotations }) => isAnnotated(names, annotations));
    this.#armResync();
  }

  #objectChanged(key: ResourceKey, before: Observed | undefined, after: Observed | undefined, initial: boolean): void {
    const { engine } = this.#context;
    const rule = this.#rules.ruleOf(key);
    if (rule === undefined) return;
    const was = before && this.#rules.versionOf(before);
    const is = after && this.#rules.versionOf(after);
    if (was !== is) engine.enqueueRule(rule, initial ? 'low' : 'normal');
  }

  stop(): void {
    this.#resync?.cancel();
    this.#changes.stop();
  }

  /** Enqueues all rules and targets periodically, as the original does. In a settled cluster this causes no write. */
  #armResync(): void {
    const { clock, config, cluster, engine } = this.#context;
    const { resyncPeriodMs } = config.replicator;
    if (resyncPeriodMs <= 0) return;
    const resync = (): void => {
      for (const kind of this.#kinds) {
        const { index } = cluster.store(kind);
        for (const key of index.keys()) {
          const rule = this.#rules.ruleOf(key);
          const { namespace, name } = parseResourceKey(key);
          const observed = index.get(namespace, name);
          const isRule = observed !== undefined && this.#rules.versionOf(observed) !== undefined;
          if (rule !== undefined && isRule) engine.enqueueRule(rule, 'low');
          if (engine.book.isClaimed(key)) engine.enqueueTarget(key, 'low');
        }
      }
      this.#armResync();
    };
    this.#resync = clock.setTimeout(resync, resyncPeriodMs, { unref: true });
  }
}
