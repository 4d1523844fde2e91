/** The CustomResourceDefinition of SyncSecret. `kubectl get` shows the same columns as with the original's CRD. */
import { SYNC_SECRET, SYNC_SECRET_GROUP, SYNC_SECRET_VERSION } from '../../src/controllers/syncsecret/api.ts';
import { customResourceDefinition } from './definition.ts';
import { syncSecret } from './sync-secret.ts';

export const syncSecretDefinition = customResourceDefinition({
  group: SYNC_SECRET_GROUP,
  kind: SYNC_SECRET.kind,
  plural: SYNC_SECRET.plural,
  singular: 'syncsecret',
  versions: [
    {
      name: SYNC_SECRET_VERSION,
      storage: true,
      schema: syncSecret,
      columns: [
        { name: 'Type', type: 'string', jsonPath: '.type' },
        { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
        { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
      ],
    },
  ],
});
