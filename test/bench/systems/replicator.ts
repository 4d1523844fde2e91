/** Measures the replicator. Annotations on each source name the namespaces for its copies. */
import { FLEET, secretsPath, sourceNames, sourceSecret, SOURCE_NAMESPACE } from '../workload.ts';
import { ROWS } from '../rows.ts';
import type { BenchSystem } from '../system.ts';
import { WIDE_ROW } from '../wide-row.ts';

export const replicatorSystem = (): BenchSystem => ({
  name: 'replicator',
  rows: [...ROWS, WIDE_ROW],
  // Without the grace, the row of the deletion shows the time of the work alone.
  args: ['run', '--controllers', 'replicator', '--source-grace=0'],
  install: async () => {
    // Nothing to install: the replicator has no CRD.
  },
  createSources: async (api, generation, { sourceNamespace, pattern } = FLEET) => {
    const annotations = { 'k8s-replicator/replicate-to-namespaces': pattern };
    await api.createMany(sourceNames().map((name) => sourceSecret(name, sourceNamespace, generation, annotations)));
  },
  removeOwners: async (api) => {
    await Promise.all(sourceNames().map(async (name) => await api.delete(`${secretsPath(SOURCE_NAMESPACE)}/${name}`)));
  },
});
