/**
 * The controllers in the fault tests. Each has five rules, which copy `default/source-<n>` into every namespace
 * `team-<number>`.
 */
import type { FaultScene } from './scene.ts';

/** The number of rules. */
export const RULES = 5;

export interface FaultController {
  readonly name: string;
  /** The key of a label that every copy has. */
  readonly copyLabel: string;
  /** The key of the annotation that names the owner of a copy. */
  readonly mark: string;
  /** The number of watches that an operator has open once it is settled. */
  readonly watches: number;
  /** Creates source and rule number `n`. */
  make(scene: FaultScene, n: number): Promise<void>;
  /** Removes rule number `n`, or its annotation. The source stays. */
  drop(scene: FaultScene, n: number): Promise<void>;
  /** Adds again what `drop` removed. */
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
  // Watches of mirrors, namespaces and copies, and one of each source.
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
  // Watches of namespaces, Secrets and ConfigMaps.
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
