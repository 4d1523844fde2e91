/** The config-syncer controller: its rules are objects with annotations of config-syncer (kubed). */
import type { OnObjectChange } from '../../copy/engine/backend.ts';
import type { Controller } from '../../copy/engine/controller.ts';
import { annotatedController, watchedObjects } from '../common/annotated/controller.ts';
import { reportOf } from '../common/annotated/report.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { ConfigSyncerRules } from './rules.ts';
import { isReadAnnotation } from './words.ts';

export const configSyncer: ControllerEntry = {
  name: 'config-syncer',
  component: 'config-syncer',
  annotationReader: () => isReadAnnotation,
  create,
};

function create(context: ControllerContext): Controller {
  const { engine, cluster } = context;
  const rules = new ConfigSyncerRules(context.scope, watchedObjects(cluster));
  const controller = annotatedController(context, rules, (facts) =>
    reportOf(rules, { ...facts, claims: rules.named(facts.claims) }),
  );
  // All label keys are registered before the first evaluation, so that one list brings the labels for all rules.
  const objectChanged: OnObjectChange = (key) => {
    const rule = rules.objects.ruleOf(key);
    if (rule !== undefined) cluster.namespaces.keep(rules.labelKeysOf(rule));
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
