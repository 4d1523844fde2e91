/** Measures SecretMirrors. Each source has one, in the same namespace. */
import { FLEET, sourceNames, sourceSecret, SOURCE_NAMESPACE } from '../workload.ts';
import { ROWS } from '../rows.ts';
import type { BenchSystem } from '../system.ts';
import { TOGETHER_ROW } from '../together-row.ts';
import { WIDE_ROW, WIDEST_ROW } from '../wide-row.ts';

const MIRRORS_PATH = `/apis/mirrors.kts.studio/v1alpha2/namespaces/${SOURCE_NAMESPACE}/secretmirrors`;

export const mirrorsSystem = (): BenchSystem => ({
  name: 'mirrors',
  rows: [...ROWS, WIDE_ROW, WIDEST_ROW, TOGETHER_ROW],
  args: ['run', '--controllers', 'mirrors'],
  install: async ({ plane, crds }) => {
    await plane.api.apply(crds);
  },
  copier: {
    createSources: async (api, generation, { sourceNamespace, pattern, names = sourceNames() } = FLEET) => {
      await api.createMany(names.map((name) => sourceSecret(name, sourceNamespace, generation)));
      await api.createMany(
        names.map((name) => ({
          apiVersion: 'mirrors.kts.studio/v1alpha2',
          kind: 'SecretMirror',
          metadata: { name, namespace: sourceNamespace },
          spec: { source: { name }, destination: { namespaces: [pattern] } },
        })),
      );
    },
    removeOwners: async (api) => {
      await Promise.all(sourceNames().map(async (name) => await api.delete(`${MIRRORS_PATH}/${name}`)));
    },
  },
});
