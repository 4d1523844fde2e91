/** SyncSecrets as a kind of content: a custom resource that describes a Secret. */
import type { Kind } from '../../../copy/model/kind.ts';
import { SYNC_SECRET_API_PATH, SYNC_SECRET_API_VERSION, SYNC_SECRET_KIND, SYNC_SECRET_PLURAL } from '../api.ts';

export const SYNC_SECRET: Kind = {
  kind: SYNC_SECRET_KIND,
  apiVersion: SYNC_SECRET_API_VERSION,
  groupPath: SYNC_SECRET_API_PATH,
  plural: SYNC_SECRET_PLURAL,
  fields: [{ name: 'data', encoding: 'base64' }],
  overlay: 'stringData',
  typed: true,
  defaultType: 'Opaque',
  isCustom: true,
  minimal: () => ({ data: {} }),
};
