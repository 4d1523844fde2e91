/** Measures reflector. Annotations on each source select the namespaces of its automatic mirrors. */
import { FLEET, secretsPath, sourceNames, sourceSecret, SOURCE_NAMESPACE } from '../workload.ts';
import { ROWS } from '../rows.ts';
import type { BenchSystem } from '../system.ts';
import { WIDE_ROW } from '../wide-row.ts';

const PREFIX = 'reflector.v1.k8s.emberstack.com/reflection-';

export const reflectorSystem = (): BenchSystem => ({
  name: 'reflector',
  rows: [...ROWS, WIDE_ROW],
  args: ['run', '--controllers', 'reflector'],
  install: async () => {
    // Nothing to install: reflector has no CRD.
  },
  createSources: async (api, generation, { sourceNamespace, pattern } = FLEET) => {
    const annotations = {
      [`${PREFIX}allowed`]: 'true',
      [`${PREFIX}auto-enabled`]: 'true',
      [`${PREFIX}auto-namespaces`]: pattern,
    };
    await api.createMany(sourceNames().map((name) => sourceSecret(name, sourceNamespace, generation, annotations)));
  },
  removeOwners: async (api) => {
    await Promise.all(sourceNames().map(async (name) => await api.delete(`${secretsPath(SOURCE_NAMESPACE)}/${name}`)));
  },
});
