/** The programs whose objects `migrate` reads, in the order of its report. */
import type { ProgramReader } from './program.ts';
import { configSyncer } from './programs/config-syncer.ts';
import { foreignReader } from './programs/foreign.ts';
import { k8sReplicator } from './programs/k8s-replicator.ts';
import { kubelbMigration } from './programs/kubelb.ts';
import { kubernetesReplicator, mittwald } from './programs/kubernetes-replicator.ts';
import { mirrorsMigration } from './programs/mirrors.ts';
import { reflector } from './programs/reflector.ts';
import type { Foreign } from './programs/requests.ts';

/** Programs whose annotations `keyferry migrate` translates into annotations of the replicator. */
export const FOREIGN: readonly Foreign[] = [reflector, mittwald, configSyncer];

export const PROGRAMS: readonly ProgramReader[] = [
  mirrorsMigration,
  k8sReplicator,
  kubelbMigration,
  foreignReader(reflector),
  kubernetesReplicator,
  foreignReader(configSyncer),
];
