/** A controller whose rules are annotated objects: its store, its watches, and which change enqueues which rule. */
import type { Cluster } from '../../../copy/cluster/cluster.ts';
import type { OnObjectChange } from '../../../copy/engine/backend.ts';
import type { Controller, Report, RuleFacts } from '../../../copy/engine/controller.ts';
import type { KeptRules, RuleObject } from '../../../copy/engine/life/rule-store.ts';
import { controllerOf, type RuleKey } from '../../../copy/model/keys.ts';
import { observe, type Observed } from '../../../copy/model/observed.ts';
import type { RuleSet } from '../../../copy/model/rule-set.ts';
import type { ControllerContext } from '../context.ts';
import { NamespaceChanges, type RulesInNamespaces } from '../namespaces/namespace-changes.ts';
import type { AnnotatedObjects, FindObject } from './objects.ts';

export interface AnnotatedRules extends RuleSet, RulesInNamespaces {
  readonly objects: AnnotatedObjects;
  /**
   * Whether an object with these annotations is kept: a rule, or an object with a mark. Called for every object in the
   * cluster, so it must be fast.
   */
  isKept(annotations: Readonly<Record<string, string>> | undefined): boolean;
  /** A text that changes when the rule must be evaluated again; `undefined`: the object is no rule. */
  versionOf(observed: Observed): string | undefined;
  /** The keys of the labels of namespaces that a rule reads. Default: none. */
  labelKeysOf?(rule: RuleKey): readonly string[];
  /** The annotations of a source that decide for the rules that pull from it, as text. Default: none do. */
  userText?(annotations: Observed['annotations']): string;
}

/** Finds the objects that the cluster's watches have brought. */
export function watchedObjects(cluster: Pick<Cluster, 'store'>): FindObject {
  return (kind, namespace, name) => cluster.store(kind).index.get(namespace, name);
}

/** @param report what is told of a rule: its object has no status, so these are events */
export function annotatedController(
  context: ControllerContext,
  rules: AnnotatedRules,
  report: (facts: RuleFacts) => Report | undefined,
): Controller {
  const { engine, cluster } = context;
  const { objects } = rules;
  const changes = new NamespaceChanges(context, rules);
  const objectChanged: OnObjectChange = (key, before, after, initial) => {
    const rule = objects.ruleOf(key);
    if (rule === undefined) return;
    const [was, is] = [before && rules.versionOf(before), after && rules.versionOf(after)];
    const priority = initial ? 'low' : 'normal';
    // All label keys are registered before the first evaluation, so that one list brings the labels for all rules.
    const labelKeys = rules.labelKeysOf?.(rule) ?? [];
    if (labelKeys.length > 0) cluster.namespaces.keep(labelKeys);
    if (was !== is) engine.enqueueRule(rule, priority);
    if (rules.userText === undefined) return;
    if (before && after && rules.userText(before.annotations) === rules.userText(after.annotations)) return;
    // Which labels of their namespaces decide for those that pull from the object, it may say in another way now.
    for (const one of engine.book.rulesOn(key)) if (controllerOf(one) === rules.name) engine.enqueueRule(one, priority);
  };
  return {
    rules,
    store: annotatedStore(rules),
    kindOf: (rule) => objects.of(rule).kind,
    isOutdated: changes.isOutdated,
    open: (signal) => {
      signal.addEventListener('abort', () => changes.stop());
      engine.onObjects({ objectChanged });
      cluster.watchNamespaces(changes.add);
      for (const kind of objects.kinds) cluster.watchAll(kind, ({ annotations }) => rules.isKept(annotations));
    },
    listed: async (rule, signal) => {
      await cluster.namespaceReads.labelsKnown(rules.labelKeysOf?.(rule) ?? [], signal);
    },
    report: (facts) => (facts.rule === undefined ? undefined : report(facts)),
  };
}

/** The rules as the engine sees them. */
export function annotatedStore(rules: Pick<AnnotatedRules, 'objects' | 'versionOf'>): KeptRules {
  const version = (rule: RuleKey): string | undefined => {
    const { observed } = rules.objects.of(rule);
    return observed && rules.versionOf(observed);
  };
  const get = (rule: RuleKey): RuleObject | undefined => {
    const { place, observed } = rules.objects.of(rule);
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
