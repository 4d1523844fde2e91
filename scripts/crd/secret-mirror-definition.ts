/**
 * The CustomResourceDefinition of SecretMirror. `kubectl get` shows the same columns in the same order as with the
 * original operator, and the new column Ready after them.
 */
import { MIRRORS_GROUP, MIRRORS_VERSION, SECRET_MIRROR } from '../../src/controllers/mirrors/api.ts';
import { customResourceDefinition } from './definition.ts';
import type { PrinterColumn } from './definition.ts';
import { secretMirror } from './secret-mirror.ts';
import { secretMirrorV1alpha1 } from './secret-mirror-v1alpha1.ts';

const SOURCE_NAME: PrinterColumn = { name: 'Source Name', type: 'string', jsonPath: '.spec.source.name' };

const LAST_COLUMNS: readonly PrinterColumn[] = [
  { name: 'Poll Period', type: 'integer', jsonPath: '.spec.pollPeriodSeconds' },
  { name: 'Mirror Status', type: 'string', jsonPath: '.status.mirrorStatus' },
  { name: 'Last Sync Time', type: 'string', jsonPath: '.status.lastSyncTime' },
  { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
];

export const secretMirrorDefinition = customResourceDefinition({
  group: MIRRORS_GROUP,
  kind: SECRET_MIRROR.kind,
  plural: SECRET_MIRROR.plural,
  singular: 'secretmirror',
  // The original has none.
  shortNames: ['sm'],
  versions: [
    {
      name: 'v1alpha1',
      storage: false,
      schema: secretMirrorV1alpha1,
      deprecationWarning:
        'mirrors.kts.studio/v1alpha1 SecretMirror is not converted: use v1alpha2, because a write with v1alpha1 drops its fields',
      columns: [
        SOURCE_NAME,
        { name: 'Dest Namespace', type: 'string', jsonPath: '.spec.destination.namespace' },
        { name: 'Dest Namespace Regex', type: 'string', jsonPath: '.spec.destination.namespaceRegex' },
        ...LAST_COLUMNS,
      ],
    },
    {
      name: MIRRORS_VERSION,
      storage: true,
      schema: secretMirror,
      columns: [
        { name: 'Source Type', type: 'string', jsonPath: '.spec.source.type' },
        SOURCE_NAME,
        { name: 'Destination Type', type: 'string', jsonPath: '.spec.destination.type' },
        { name: 'Delete Policy', type: 'string', jsonPath: '.spec.deletePolicy' },
        ...LAST_COLUMNS,
        // The original has no such column. It is the last one, so that scripts which count columns still find the
        // others.
        { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
      ],
    },
  ],
});
