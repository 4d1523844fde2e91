/** Annotated sources: each names the namespaces that it is to be pushed into. */
import { secretsPath, sourceNames, sourceSecret, SOURCE_NAMESPACE, TARGET_PATTERN } from '../workload.ts';
import { ROWS } from '../rows.ts';
import type { BenchSystem } from '../system.ts';

export const replicatorSystem = (): BenchSystem => ({
  name: 'replicator',
  rows: ROWS,
  args: ['run', '--controllers', 'replicator'],
  install: async () => {
    // Secrets alone: no API of its own.
  },
  createSources: async (api, generation) => {
    const annotations = { 'k8s-replicator/replicate-to-namespaces': TARGET_PATTERN };
    await api.createMany(sourceNames().map((name) => sourceSecret(name, SOURCE_NAMESPACE, generation, annotations)));
  },
  removeOwners: async (api) => {
    await Promise.all(sourceNames().map(async (name) => await api.delete(`${secretsPath(SOURCE_NAMESPACE)}/${name}`)));
  },
});
