/** Measures the controllers of annotations. Annotations on each source select the namespaces of its copies. */
import { FLEET, type Fleet, secretsPath, sourceNames, sourceSecret, SOURCE_NAMESPACE } from '../workload.ts';
import { BYSTANDER_ROW } from '../bystander-row.ts';
import { ROWS } from '../rows.ts';
import type { BenchSystem } from '../system.ts';
import { WIDE_ROW } from '../wide-row.ts';

type AnnotatedName = 'config-syncer' | 'mittwald' | 'reflector' | 'replicator';

const REFLECTION = 'reflector.v1.k8s.emberstack.com/reflection-';

const ANNOTATIONS: Readonly<Record<AnnotatedName, (fleet: Fleet) => Record<string, string>>> = {
  'config-syncer': ({ selector }) => ({ 'kubed.appscode.com/sync': selector }),
  mittwald: ({ pattern }) => ({ 'replicator.v1.mittwald.de/replicate-to': pattern }),
  reflector: ({ pattern }) => ({
    [`${REFLECTION}allowed`]: 'true',
    [`${REFLECTION}auto-enabled`]: 'true',
    [`${REFLECTION}auto-namespaces`]: pattern,
  }),
  replicator: ({ pattern }) => ({ 'k8s-replicator/replicate-to-namespaces': pattern }),
};

export const annotatedSystem = (name: AnnotatedName): BenchSystem => ({
  name,
  rows: [...ROWS, WIDE_ROW, BYSTANDER_ROW],
  // Without the grace, the row of the deletion shows the time of the work alone.
  args: ['run', '--controllers', name, '--source-grace=0'],
  install: async () => {
    // Nothing to install: these controllers have no CRD.
  },
  copier: {
    createSources: async (api, generation, fleet = FLEET) => {
      const annotations = ANNOTATIONS[name](fleet);
      const { sourceNamespace, names = sourceNames() } = fleet;
      await api.createMany(names.map((source) => sourceSecret(source, sourceNamespace, generation, annotations)));
    },
    removeOwners: async (api) => {
      await Promise.all(
        sourceNames().map(async (source) => await api.delete(`${secretsPath(SOURCE_NAMESPACE)}/${source}`)),
      );
    },
  },
});
