/** The CustomResourceDefinition of SyncSecret, with the columns of the original. */
import { customResourceDefinition } from './definition.ts';
import { syncSecret } from './sync-secret.ts';

export const syncSecretDefinition = customResourceDefinition({
  group: 'kubelb.k8c.io',
  kind: 'SyncSecret',
  plural: 'syncsecrets',
  singular: 'syncsecret',
  versions: [
    {
      name: 'v1alpha1',
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
