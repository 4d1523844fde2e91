/** For `migrate`: the objects of olli-ai/k8s-replicator, which has the annotations of Keyferry. */
import type { ProgramFindings, MigrationContext, ProgramReader } from '../program.ts';
import { annotationNames, isAnnotated } from '../../../controllers/replicator/rules/annotations.ts';
import { REPLICATOR_CONTROLLER } from '../../../controllers/replicator/rules/rule-set.ts';

export const k8sReplicator: ProgramReader = {
  program: 'k8s-replicator',
  image: /^k8s-replicator$/,
  mustBeStopped: false,
  controller: REPLICATOR_CONTROLLER,
  find: (context) => Promise.resolve(found(context)),
};

/** Only counts rules and copies. For all programs, `migrate` itself reports each copy that Keyferry would change. */
function found({ objects, config }: MigrationContext): ProgramFindings {
  const names = annotationNames(config.replicator.annotationsPrefix);
  let rules = 0;
  let copies = 0;
  for (const { annotations } of objects.values()) {
    if (!isAnnotated(names, annotations)) continue;
    if (names.by in annotations) copies += 1;
    else rules += 1;
  }
  return { rules, copies, findings: [], changes: [] };
}
