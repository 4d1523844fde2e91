/**
 * The controllers that the fault tests test. Each gets five rules, which copy `default/source-<n>` into every namespace
 * `team-<number>`.
 */
import type { FaultScene } from './scene.ts';

/** How many rules a controller gets. */
export const RULES = 5;

export interface FaultController {
  readonly name: string;
  /** The key of a label that every copy has. */
  readonly copyLabel: string;
  /** The key of the annotation on a copy that names its owner (the mark). */
  readonly mark: string;
  /** How many watches the operator has open after its start. */
  readonly watches: number;
  /** Creates source `n`, and its rule. */
  make(scene: FaultScene, n: number): Promise<void>;
  /** Removes rule `n`: the mirror, or the annotation on the source. The source stays. */
  drop(scene: FaultScene, n: number): Promise<void>;
  /** Adds rule `n` again after `drop`. */
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
  // One watch each for mirrors, namespaces and copies, and one for each source.
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
  // One watch each for namespaces, Secrets and ConfigMaps.
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
