/**
 * Schemas for fields of a SecretMirror: its selector of namespaces, and its choices for the copies (keys, labels and
 * annotations).
 */
import { z } from 'zod';
import { MARK_PATTERN } from '../../src/controllers/common/excluded-metadata.ts';
import { rules } from './rules.ts';

const NAME = '[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?';
/** A regular expression for the key of a label or annotation. It allows the same characters as the API server. */
const METADATA_KEY = `^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?${NAME}$`;
const LABEL_VALUE = `^(${NAME})?$`;

/** Schema of `metav1.LabelSelector`. */
export const labelSelector = z.object({
  matchLabels: z
    .record(z.string(), z.string().max(63).regex(new RegExp(LABEL_VALUE)))
    .meta({
      description: 'Labels with their values. All must match.',
      maxProperties: 50,
      ...rules({
        rule: `self.all(key, key.size() <= 317 && key.matches('${METADATA_KEY}'))`,
        message: 'each must be a valid key of a label',
      }),
    })
    .exactOptional(),
  matchExpressions: z
    .array(
      z
        .object({
          key: z.string().max(317).regex(new RegExp(METADATA_KEY)).meta({ description: 'Key of the label.' }),
          operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']).meta({ description: 'How to compare.' }),
          values: z
            .array(z.string().max(63).regex(new RegExp(LABEL_VALUE)))
            .max(100)
            .meta({ description: 'Values for In and NotIn.' })
            .exactOptional(),
        })
        .meta({
          ...rules({
            rule: "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
            message: 'In and NotIn need values; Exists and DoesNotExist have none',
            fieldPath: '.values',
          }),
        }),
    )
    .max(50)
    .meta({ description: 'Requirements on labels. All must match.' })
    .exactOptional(),
});

const DATA_KEY = /^[-._a-zA-Z0-9]+$/;

export const secretKeys = z
  .array(
    z.object({
      from: z.string().min(1).max(253).meta({ description: 'Key in the source.' }),
      to: z
        .string()
        .min(1)
        .max(253)
        .regex(DATA_KEY)
        .meta({ description: 'Key in the copies. Default: the same key.' })
        .exactOptional(),
      optional: z
        .boolean()
        .meta({ description: 'Whether the source may lack the key. Otherwise nothing is written without the key.' })
        .exactOptional(),
    }),
  )
  .min(1)
  .max(100)
  .meta({
    description: 'The only keys of the copies, with the names that they get there. Default: all keys.',
    ...rules({
      rule: 'self.all(a, self.exists_one(b, (has(a.to) ? a.to : a.from) == (has(b.to) ? b.to : b.from)))',
      message: 'two of the keys have the same name in the copies',
    }),
  });

/** Schema of labels or annotations that a mirror adds to its copies. */
export function addedMetadata(what: 'label' | 'annotation', maxLength: number) {
  const value = z.string().max(maxLength);
  return z.record(z.string(), what === 'label' ? value.regex(new RegExp(LABEL_VALUE)) : value).meta({
    maxProperties: 50,
    ...rules(
      {
        rule: `self.all(key, key.size() <= 317 && key.matches('${METADATA_KEY}'))`,
        message: `each must be a valid key of a ${what}`.replace('a a', 'an a'),
      },
      {
        rule: `self.all(key, !key.matches('${MARK_PATTERN}'))`,
        message: `a ${what} of Keyferry or of another copier cannot be set`.replace('a a', 'an a'),
      },
    ),
  });
}
