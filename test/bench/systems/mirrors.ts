/** SecretMirrors: one for each source, beside it. */
import { sourceNames, sourceSecret, SOURCE_NAMESPACE, TARGET_PATTERN } from '../workload.ts';
import { ROWS } from '../rows.ts';
import type { BenchSystem } from '../system.ts';

const MIRRORS_PATH = `/apis/mirrors.kts.studio/v1alpha2/namespaces/${SOURCE_NAMESPACE}/secretmirrors`;

export const mirrorsSystem = (): BenchSystem => ({
  name: 'mirrors',
  rows: ROWS,
  args: ['run', '--controllers', 'mirrors'],
  install: async (api, crds) => {
    await api.apply(crds);
  },
  createSources: async (api, generation) => {
    await api.createMany(sourceNames().map((name) => sourceSecret(name, SOURCE_NAMESPACE, generation)));
    await api.createMany(
      sourceNames().map((name) => ({
        apiVersion: 'mirrors.kts.studio/v1alpha2',
        kind: 'SecretMirror',
        metadata: { name, namespace: SOURCE_NAMESPACE },
        spec: { source: { name }, destination: { namespaces: [TARGET_PATTERN] } },
      })),
    );
  },
  removeOwners: async (api) => {
    await Promise.all(sourceNames().map(async (name) => await api.delete(`${MIRRORS_PATH}/${name}`)));
  },
});
