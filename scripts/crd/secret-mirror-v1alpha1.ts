/**
 * SecretMirror `v1alpha1`: the shape of the first version of the API. Served so that this CRD can take the place of the
 * original's, never stored, and not converted: it has no counterpart for most of `v1alpha2`.
 */
import { z } from 'zod';

export const secretMirrorV1alpha1 = z
  .object({
    spec: z
      .object({
        source: z
          .object({ name: z.string().meta({ description: 'Name of the source Secret.' }).exactOptional() })
          .meta({ description: 'What to copy.' })
          .exactOptional(),
        destination: z
          .object({
            namespace: z.string().meta({ description: 'Name of a namespace.' }).exactOptional(),
            namespaceRegex: z.string().meta({ description: 'Regular expression of namespace names.' }).exactOptional(),
          })
          .meta({ description: 'Where to copy to.' })
          .exactOptional(),
        pollPeriodSeconds: z
          .int()
          .meta({ description: 'How often to look, in seconds.', format: 'int64' })
          .exactOptional(),
      })
      .meta({ description: 'What to copy, and where to.' })
      .exactOptional(),
    status: z
      .object({
        mirrorStatus: z
          .enum(['Pending', 'Active', 'Error'])
          .meta({ description: 'How the mirror fares, in one word.', default: 'Pending' })
          .exactOptional(),
        lastSyncTime: z
          .string()
          .meta({ description: 'When everything was last in sync.', format: 'date-time' })
          .exactOptional(),
      })
      .meta({ description: 'What became of it.' })
      .exactOptional(),
  })
  .meta({ description: 'The first version of SecretMirror. Use v1alpha2.' });
