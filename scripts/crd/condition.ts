/** Schema of `metav1.Condition`, with the same limits as in the API of Kubernetes. */
import { z } from 'zod';

export const condition = z.object({
  type: z
    .string()
    .max(316)
    .regex(
      /^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$/,
    )
    .meta({ description: 'Type of the condition.' }),
  status: z.enum(['True', 'False', 'Unknown']).meta({ description: 'Status of the condition.' }),
  observedGeneration: z
    .int()
    .min(0)
    .meta({ description: 'The metadata.generation that the condition is based on.', format: 'int64' })
    .exactOptional(),
  lastTransitionTime: z.string().meta({ description: 'Time of the last change of the status.', format: 'date-time' }),
  reason: z
    .string()
    .min(1)
    .max(1024)
    .regex(/^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/)
    .meta({ description: 'Machine-readable reason in one word.' }),
  message: z.string().max(32_768).meta({ description: 'Human-readable message.' }),
});
