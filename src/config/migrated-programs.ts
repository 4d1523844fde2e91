/** The programs whose objects `keyferry migrate` reads, by the names that `--from` takes. */
export const MIGRATED_PROGRAMS = [
  'mirrors',
  'k8s-replicator',
  'kubelb',
  'reflector',
  'kubernetes-replicator',
  'config-syncer',
] as const;

export type MigratedProgram = (typeof MIGRATED_PROGRAMS)[number];
