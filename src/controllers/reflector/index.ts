/** The reflector controller: its rules are objects with annotations of emberstack/kubernetes-reflector. */
import type { OnObjectChange } from '../../copy/engine/backend.ts';
import type { Controller } from '../../copy/engine/controller.ts';
import { controllerOf } from '../../copy/model/keys.ts';
import { annotatedController, watchedObjects } from '../common/annotated/controller.ts';
import { reportOf, SUSPEND_ANNOTATION } from '../common/annotated/report.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { REFLECTOR_CONTROLLER, ReflectorRules } from './rules.ts';
import { isReadAnnotation, userText } from './words.ts';

export const reflector: ControllerEntry = {
  name: 'reflector',
  component: 'reflector',
  annotationReader: () => (annotation) => annotation === SUSPEND_ANNOTATION || isReadAnnotation(annotation),
  create,
};

function create(context: ControllerContext): Controller {
  const { engine, cluster } = context;
  const rules = new ReflectorRules(context.scope, watchedObjects(cluster));
  const controller = annotatedController(context, rules, (facts) => reportOf(rules, facts));
  const objectChanged: OnObjectChange = (key, before, after, initial) => {
    const rule = rules.objects.ruleOf(key);
    if (rule === undefined) return;
    // All label keys are registered before the first evaluation, so that one list brings the labels for all rules.
    cluster.namespaces.keep(rules.labelKeysOf(rule));
    if (before && after && userText(before.annotations) === userText(after.annotations)) return;
    // Which labels of their namespaces decide for those that pull from the object, it may say in another way now.
    for (const one of engine.book.rulesOn(key))
      if (controllerOf(one) === REFLECTOR_CONTROLLER) engine.enqueueRule(one, initial ? 'low' : 'normal');
  };
  return {
    ...controller,
    open: (signal) => {
      engine.onObjects({ objectChanged });
      controller.open(signal);
    },
    listed: async (rule, signal) => {
      await cluster.namespaceReads.labelsKnown(rules.labelKeysOf(rule), signal);
    },
  };
}
