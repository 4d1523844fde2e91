/**
 * Schema of SyncSecret, `kubelb.k8c.io/v1alpha1`. It accepts exactly the objects that the original's schema accepts. So
 * either CRD can replace the other, and all stored objects stay valid. For this reason no field is required, the
 * conditions are not a list map, and there are no validation rules.
 */
import { z } from 'zod';
import { condition } from './condition.ts';

export const syncSecretStatus = z
  .object({
    observedGeneration: z
      .int()
      .meta({ description: 'The metadata.generation that this status is based on.', format: 'int64' })
      .exactOptional(),
    phase: z
      .string()
      .meta({ description: 'Status of the SyncSecret in one word: Pending, Synced, Failed or Terminating.' })
      .exactOptional(),
    conditions: z
      .array(condition)
      .meta({
        description: 'The condition Synced is True if the Secret is up to date. Otherwise it contains the reason.',
      })
      .exactOptional(),
  })
  .meta({ description: 'Observed state of the Secret in the management cluster.' });

export const syncSecret = z
  .object({
    data: z
      .record(z.string(), z.string().meta({ format: 'byte' }))
      .meta({ description: 'Values of the Secret, encoded with base64.' })
      .exactOptional(),
    stringData: z
      .record(z.string(), z.string())
      .meta({
        description:
          'Values of the Secret as text. They take precedence over data, and stay in this object as they are written.',
      })
      .exactOptional(),
    type: z
      .string()
      .meta({ description: 'Type of the Secret, for example kubernetes.io/tls. Default: Opaque.' })
      .exactOptional(),
    immutable: z
      .boolean()
      .meta({ description: 'If true, the values of the Secret do not change while it is true.' })
      .exactOptional(),
    status: syncSecretStatus.exactOptional(),
  })
  .meta({
    description:
      'A Secret for the management cluster: written in a tenant cluster, and copied to the management cluster.',
  });
