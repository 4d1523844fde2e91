/** The mittwald controller: its rules are objects with annotations of mittwald/kubernetes-replicator. */
import { jsonReply, textReply } from '../../observe/routes.ts';
import { annotatedController, watchedObjects } from '../common/annotated/controller.ts';
import { reportOf, SUSPEND_ANNOTATION } from '../common/annotated/report.ts';
import type { ControllerEntry } from '../common/context.ts';
import { MittwaldRules } from './rules.ts';
import { isReadAnnotation } from './words.ts';

export const mittwald: ControllerEntry = {
  name: 'mittwald',
  component: 'kubernetes-replicator',
  annotationReader: () => (annotation) => annotation === SUSPEND_ANNOTATION || isReadAnnotation(annotation),
  create: (context) => {
    const grace = context.config.replicator.sourceGraceMs;
    const rules = new MittwaldRules(context.scope, watchedObjects(context.cluster), grace);
    return annotatedController(context, rules, (facts) => reportOf(rules, facts));
  },
  // As in the original, the process is alive while it answers. A check that is stuck must still restart it.
  healthz: (_context, stuck) => textReply(stuck.length === 0 ? 200 : 503, stuck.join('\n')),
  readyz: ({ config }, isReady) => {
    const { replicateSecrets, replicateConfigMaps } = config.mittwald;
    const components = [
      ...(replicateSecrets ? ['*secret.Replicator'] : []),
      ...(replicateConfigMaps ? ['*configmap.Replicator'] : []),
    ];
    return jsonReply(isReady ? 200 : 503, { notReady: isReady ? [] : components });
  },
};
