/** The controllers in the fault tests: each has five rules that copy `default/source-<n>` into every `team-<number>`. */
import type { FaultScene } from './scene.ts';

/** The number of rules. */
export const RULES = 5;

export interface FaultController {
  readonly name: string;
  /** Key of a label that every copy has. */
  readonly copyLabel: string;
  /** Key of the annotation that names the owner of a copy. */
  readonly mark: string;
  /** The number of open watches of a settled operator. */
  readonly watches: number;
  /** Creates the source and the rule. */
  make(scene: FaultScene, n: number): Promise<void>;
  /** Removes the rule or its annotation; the source stays. */
  drop(scene: FaultScene, n: number): Promise<void>;
  /** Undoes `drop`. */
  restore(scene: FaultScene, n: number): Promise<void>;
}

const PATTERN = 'team-[0-9]+';
const PUSH = 'k8s-replicator/replicate-to-namespaces';

export const mirrorPath = (n: number): string =>
  `/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/mirror-${n}`;

export const MIRRORING: FaultController = {
  name: 'mirrors',
  copyLabel: 'keyferry.dev/copy',
  mark: 'mirrors.kts.studio/owned-by',
  // Mirrors, namespaces, copies, and each source.
  watches: 3 + RULES,
  make: async (scene, n) => {
    await scene.source(n);
    await scene.mirror(n, [PATTERN]);
  },
  drop: async (scene, n) => {
    await scene.api.delete(mirrorPath(n));
  },
  restore: async (scene, n) => {
    await scene.mirror(n, [PATTERN]);
  },
};

export const REPLICATING: FaultController = {
  name: 'replicator',
  copyLabel: 'app.kubernetes.io/managed-by',
  mark: 'k8s-replicator/replicated-by',
  // Namespaces, Secrets, ConfigMaps.
  watches: 3,
  make: async (scene, n) => {
    await scene.source(n, { [PUSH]: PATTERN });
  },
  drop: async (scene, n) => {
    await push(scene, n, null);
  },
  restore: async (scene, n) => {
    await push(scene, n, PATTERN);
  },
};

export const CONTROLLERS: readonly FaultController[] = [MIRRORING, REPLICATING];

async function push(scene: FaultScene, n: number, pattern: string | null): Promise<void> {
  const metadata = { annotations: { [PUSH]: pattern } };
  await scene.api.patch(`/api/v1/namespaces/default/secrets/source-${n}`, { metadata });
}
