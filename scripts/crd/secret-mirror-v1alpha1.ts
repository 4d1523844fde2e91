/**
 * Schema of SecretMirror `v1alpha1`, the first version of the API. The CRD serves this version because the CRD of the
 * original does. It is neither stored nor converted, because it lacks most fields of `v1alpha2`.
 */
import { z } from 'zod';
import { originalStatus } from './secret-mirror.ts';

export const secretMirrorV1alpha1 = z
  .object({
    spec: z
      .object({
        source: z
          .object({ name: z.string().meta({ description: 'Name of the source Secret.' }).exactOptional() })
          .meta({ description: 'Source of the copies.' })
          .exactOptional(),
        destination: z
          .object({
            namespace: z.string().meta({ description: 'Name of a namespace.' }).exactOptional(),
            namespaceRegex: z.string().meta({ description: 'Regular expression of namespace names.' }).exactOptional(),
          })
          .meta({ description: 'Destination of the copies.' })
          .exactOptional(),
        pollPeriodSeconds: z.int().meta({ description: 'Poll interval in seconds.', format: 'int64' }).exactOptional(),
      })
      .meta({ description: 'Source and destination of the copies.' })
      .exactOptional(),
    status: z.object(originalStatus).meta({ description: 'Observed state of the mirror.' }).exactOptional(),
  })
  .meta({ description: 'The first version of SecretMirror. Use v1alpha2.' });
