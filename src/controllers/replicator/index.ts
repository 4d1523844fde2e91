/** The replicator controller: constructs its parts, opens its watches, and enqueues the rules of changed objects. */
import type { OnObjectChange } from '../../copy/engine/backend.ts';
import type { Controller, GoneRule, Report, RuleFacts } from '../../copy/engine/controller.ts';
import type { KeptRules, RuleObject } from '../../copy/engine/life/rule-store.ts';
import { undeletedWarnings } from '../../copy/engine/life/warnings.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import { observe } from '../../copy/model/observed.ts';
import { jsonReply, type Reply } from '../../observe/routes.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { NamespaceChanges } from '../common/namespaces/namespace-changes.ts';
import { annotationNames, isAnnotated, isReplicatorAnnotation, SUSPEND_ANNOTATION } from './rules/annotations.ts';
import { eventsOf } from './rules/rule-events.ts';
import { REPLICATED_KINDS, ReplicatorRules } from './rules/rule-set.ts';

export const replicator: ControllerEntry = {
  name: 'replicator',
  get kinds() {
    return Object.values(REPLICATED_KINDS);
  },
  annotationReader: (config) => {
    const names = annotationNames(config.replicator.annotationsPrefix);
    return (annotation) => annotation === SUSPEND_ANNOTATION || isReplicatorAnnotation(names, annotation);
  },
  create,
  // A kind is ready when its objects and the namespaces were listed once, or when all watches of the cluster were.
  healthz: ({ cluster, config }, stuck) => {
    const synced = new Set(cluster.watches.filter((watch) => watch.synced).map(({ name }) => name));
    const unsynced = config.replicator.runReplicators.filter((kind) => {
      return !cluster.isListed && (!synced.has('namespaces') || !synced.has(`${kind}s/all`));
    });
    return replicatorHealth(unsynced, stuck);
  },
};

/** The name in the original's `/healthz` for both replicators: one Go type serves Secrets and ConfigMaps. */
const COMPONENT = '*replicate.ObjectReplicator';

/**
 * The answer to `/healthz` in the form of the original.
 * @param unsynced the kinds whose first list is not complete
 * @param stuck names of failing liveness checks. They are in a field that the original does not have
 */
export function replicatorHealth(unsynced: readonly string[], stuck: readonly string[] = []): Reply {
  const ok = unsynced.length === 0 && stuck.length === 0;
  return jsonReply(ok ? 200 : 503, {
    notReady: unsynced.map(() => COMPONENT),
    ...(stuck.length === 0 ? {} : { stuck }),
  });
}

function create(context: ControllerContext): Controller {
  const { engine, cluster } = context;
  const { createWithLabels, sourceGraceMs } = context.config.replicator;
  const rules = new ReplicatorRules(context.scope, {
    createWithLabels,
    graceMs: sourceGraceMs,
    observed: (kind, namespace, name) => cluster.store(kind).index.get(namespace, name),
  });
  const changes = new NamespaceChanges(context, rules);
  /** After a change of an object, enqueues its rule if the version of the rule is another one. */
  const objectChanged: OnObjectChange = (key, before, after, initial) => {
    const rule = rules.ruleOf(key);
    if (rule === undefined) return;
    const [was, is] = [before && rules.versionOf(before), after && rules.versionOf(after)];
    if (was !== is) engine.enqueueRule(rule, initial ? 'low' : 'normal');
  };
  return {
    rules,
    store: annotatedObjects(rules),
    kindOf: (rule) => rules.objectOf(rule).kind,
    component: 'k8s-replicator',
    isOutdated: changes.isOutdated,
    open: (signal) => {
      signal.addEventListener('abort', () => changes.stop());
      engine.onObjects({ objectChanged });
      cluster.watchNamespaces(changes.add);
      for (const kind of rules.kinds)
        cluster.watchAll(kind, ({ annotations }) => isAnnotated(rules.settings.names, annotations));
    },
    report: (facts) => reportOf(rules, facts),
  };
}

/** The annotated objects as rules. Their objects are in the index of the cluster, so they are stored only once. */
export function annotatedObjects(rules: ReplicatorRules): KeptRules {
  const version = (rule: RuleKey): string | undefined => {
    const { observed } = rules.objectOf(rule);
    return observed && rules.versionOf(observed);
  };
  const get = (rule: RuleKey): RuleObject | undefined => {
    const { place, observed } = rules.objectOf(rule);
    if (observed === undefined || version(rule) === undefined) return undefined;
    const { uid, resourceVersion, created: creationTimestamp } = observed;
    return { metadata: { ...place, uid, resourceVersion, creationTimestamp } };
  };
  const nothing = (): void => undefined;
  return {
    get,
    version,
    versionOf: ({ metadata }) => rules.versionOf(observe(metadata)),
    // The objects of annotations have no status and no finalizer, so nothing of the following happens to them.
    storeResponse: nothing,
    end: nothing,
    onSameVersion: nothing,
  };
}

/** Only warnings are told: Normal events about one user's rules would displace warnings about those of others. */
export function reportOf(rules: ReplicatorRules, facts: RuleFacts<RuleObject, object> | GoneRule): Report | undefined {
  if (facts.rule === undefined) return undefined;
  const { key, claims, refusal, outOfReach, undeleted } = facts;
  const found = eventsOf(refusal, claims);
  const warnings = rules.warningsOf(key, outOfReach).filter(({ type }) => type === 'Warning');
  return found && { remarks: [...found, ...undeletedWarnings(undeleted), ...warnings] };
}
