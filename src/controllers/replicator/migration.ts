/** The programs whose copies the replicator can take over. olli-ai/k8s-replicator has the annotations of Keyferry. */
import type { ProgramFindings, MigrationContext, ProgramReader } from '../common/migration.ts';
import { annotationNames, isAnnotated } from './rules/annotations.ts';
import { configSyncer } from './foreign/config-syncer.ts';
import { foreignReader } from './foreign/foreign.ts';
import { kubernetesReplicator, mittwald } from './foreign/kubernetes-replicator.ts';
import { reflector } from './foreign/reflector.ts';
import type { Foreign } from './foreign/requests.ts';
import { REPLICATOR_CONTROLLER } from './rules/rule-set.ts';

/** Programs whose annotations `keyferry migrate` translates into annotations of the replicator. */
export const FOREIGN: readonly Foreign[] = [reflector, mittwald, configSyncer];

const k8sReplicator: ProgramReader = {
  program: 'k8s-replicator',
  image: /^k8s-replicator$/,
  mustBeStopped: false,
  controller: REPLICATOR_CONTROLLER,
  find: (context) => Promise.resolve(found(context)),
};

export const REPLICATOR_PROGRAMS: readonly ProgramReader[] = [
  k8sReplicator,
  foreignReader(reflector),
  kubernetesReplicator,
  foreignReader(configSyncer),
];

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
