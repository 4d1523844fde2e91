/** `metav1.Condition` as a schema: the same limits as in Kubernetes' own API. */
import { z } from 'zod';

export const condition = z.object({
  type: z
    .string()
    .max(316)
    .regex(
      /^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$/,
    )
    .meta({ description: 'What the condition is about.' }),
  status: z.enum(['True', 'False', 'Unknown']).meta({ description: 'Whether it holds.' }),
  observedGeneration: z
    .int()
    .min(0)
    .meta({ description: 'The metadata.generation that the condition speaks of.', format: 'int64' })
    .exactOptional(),
  lastTransitionTime: z.string().meta({ description: 'When the status last changed.', format: 'date-time' }),
  reason: z
    .string()
    .min(1)
    .max(1024)
    .regex(/^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/)
    .meta({ description: 'Why, in one word for programs.' }),
  message: z.string().max(32_768).meta({ description: 'Why, for people.' }),
});
