/** A controller whose rules are annotated objects: its store, its watches, and which change enqueues which rule. */
import type { Cluster } from '../../../copy/cluster/cluster.ts';
import type { OnObjectChange } from '../../../copy/engine/backend.ts';
import type { Controller } from '../../../copy/engine/controller.ts';
import type { KeptRules, RuleObject } from '../../../copy/engine/life/rule-store.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import { observe } from '../../../copy/model/observed.ts';
import type { ControllerContext } from '../context.ts';
import { type Left, removalWarnings, reportOf } from './report.ts';
import type { AnnotatedRules, FindObject } from './rules.ts';

/** Finds the objects that the cluster's watches have brought. */
export function watchedObjects(cluster: Pick<Cluster, 'store'>): FindObject {
  return (kind, namespace, name) => cluster.store(kind).index.get(namespace, name);
}

export function annotatedController(context: ControllerContext, rules: AnnotatedRules): Controller {
  const { engine, cluster, namespaceChanges } = context;
  /** What the rules that went in this process leave, until it is told. */
  const left = new Map<RuleKey, Left>();
  const objectChanged: OnObjectChange = (key, before, after) => {
    const rule = rules.ruleOf(key);
    if (rule === undefined) return;
    const [was, is] = [before && rules.versionOf(before), after && rules.versionOf(after)];
    if (is !== undefined) left.delete(rule);
    else if (before !== undefined && was !== undefined && engine.claims.versionOf(rule) !== undefined)
      left.set(rule, { before, copies: [...engine.claims.ownedBy(rule)] });
    if (was !== is) engine.enqueueRule(rule);
  };
  return {
    rules,
    store: annotatedStore(rules),
    kindOf: (rule) => rules.objectOf(rule).kind,
    open: () => {
      engine.onObjects({ objectChanged });
      namespaceChanges.serve(rules.targets);
      for (const kind of rules.kinds) cluster.watchAll(kind, ({ annotations }) => rules.isKept(annotations));
      return undefined;
    },
    report: (facts) => {
      if (facts.rule !== undefined) return reportOf(rules, facts);
      // Before it is evaluated as gone, its copies still look wanted. Another report follows.
      const gone = engine.claims.versionOf(facts.key) === undefined ? left.get(facts.key) : undefined;
      const written = (): undefined => {
        if (left.get(facts.key) === gone) left.delete(facts.key);
      };
      return gone && { remarks: removalWarnings(rules, gone, engine.book), written };
    },
  };
}

/** The rules as the engine sees them. */
export function annotatedStore(rules: Pick<AnnotatedRules, 'objectOf' | 'versionOf'>): KeptRules {
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
