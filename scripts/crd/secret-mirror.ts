/** SecretMirror, `mirrors.kts.studio`: schema of `v1alpha2`, the version that is stored. */
import { z } from 'zod';
import { FORBIDDEN_SECRET_TYPES, MIRROR_DEFAULTS } from '../../src/controllers/mirrors/api.ts';
import { condition } from './condition.ts';
import { NAME_OR_EMPTY, rules } from './rules.ts';
import { vaultBlock, vaultRules } from './vault-block.ts';

/*
 * Rules stand as deep as they can. The API server forgives an update what it does not change (ratcheting), so an object
 * that was stored under a more permissive schema can still be edited elsewhere, get its status, and lose its finalizer.
 *
 * Limits of lengths are there because the API server refuses rules that could cost too much; they are far above any use.
 */

const namespacePatterns = z
  .array(z.string().max(4096))
  .max(1000)
  .meta({
    description: 'Regular expressions (RE2) of the names of the namespaces to copy to, for type namespaces.',
    ...rules({
      // The value of matches() is of no interest: it fails on a pattern that does not compile, and `type()` passes that on,
      // where `||` would swallow it. The API server's message then holds the compiler's own words before ours. It forgives a
      // rule that answers false, not one that fails: hence the look at the old list, which only the list has, not its items.
      rule: "(oldSelf.hasValue() && oldSelf.value() == self) || self.all(pattern, type(''.matches(pattern)) == bool)",
      optionalOldSelf: true,
      message: 'a destination namespace has a problem compiling: each must be a regular expression as RE2 knows them',
    }),
  });

const source = z
  .object({
    type: z
      .enum(['secret', 'vault'])
      .meta({ description: 'Where the source is: a Kubernetes Secret or Vault.', default: MIRROR_DEFAULTS.sourceType })
      .exactOptional(),
    name: z
      .string()
      .max(253)
      .meta({
        description:
          "Name of the source Secret, which is in the mirror's own namespace, and of every copy. Default: the mirror's name.",
        ...rules(NAME_OR_EMPTY),
      })
      .exactOptional(),
    vault: vaultBlock.meta({ description: 'The secret in Vault, for type vault.' }).exactOptional(),
  })
  .meta({ description: 'What to copy.', ...rules(...vaultRules('source')) });

const destination = z
  .object({
    type: z
      .enum(['namespaces', 'vault'])
      .meta({ description: 'Where copies go: namespaces or Vault.', default: MIRROR_DEFAULTS.destinationType })
      .exactOptional(),
    namespaces: namespacePatterns.exactOptional(),
    vault: vaultBlock.meta({ description: 'Where in Vault to write to, for type vault.' }).exactOptional(),
    secretType: z
      .string()
      .max(1024)
      .meta({
        description:
          'Type of the copies of a Vault source, kubernetes.io/tls for example. Default: Opaque. Copies of a Secret have its type.',
        ...rules({
          rule: `!(self in [${FORBIDDEN_SECRET_TYPES.map((type) => `'${type}'`).join(', ')}])`,
          message: `must not be ${FORBIDDEN_SECRET_TYPES.join(' or ')}`,
        }),
      })
      .exactOptional(),
  })
  .meta({
    description: 'Where to copy to.',
    ...rules(
      {
        rule: "self.type != 'namespaces' || (has(self.namespaces) && size(self.namespaces) > 0)",
        message: 'destination namespaces are empty',
        fieldPath: '.namespaces',
        reason: 'FieldValueRequired',
      },
      {
        rule: "self.type != 'namespaces' || !has(self.namespaces) || !('' in self.namespaces)",
        message: 'a destination namespace is empty',
        // format(), for string() counts as unbounded in the estimate of what the rule may cost.
        messageExpression: "'destination namespace #%d is empty'.format([self.namespaces.indexOf('')])",
        fieldPath: '.namespaces',
        reason: 'FieldValueRequired',
      },
      ...vaultRules('destination'),
    ),
  });

export const secretMirrorSpec = z
  .object({
    source: source.exactOptional(),
    destination: destination.exactOptional(),
    deletePolicy: z
      .enum(['delete', 'retain'])
      .meta({
        description:
          'What becomes of the copies when the mirror is deleted or no longer wants them. Default: delete; always retain for a destination of type vault.',
      })
      .exactOptional(),
    pollPeriodSeconds: z
      .int()
      .min(0)
      .meta({
        description: 'How often, in seconds, to look at what cannot be watched (Vault). 0 means the default, 180.',
        format: 'int64',
      })
      .exactOptional(),
  })
  .meta({
    description: 'What to copy, and where to.',
    ...rules({
      rule: 'has(self.destination)',
      message: 'destination namespaces are empty',
      fieldPath: '.destination.namespaces',
      reason: 'FieldValueRequired',
    }),
  });

export const secretMirrorStatus = z
  .object({
    mirrorStatus: z
      .enum(['Pending', 'Active', 'Error'])
      .meta({ description: 'How the mirror fares, in one word.', default: 'Pending' })
      .exactOptional(),
    lastSyncTime: z
      .string()
      .meta({
        description: 'When everything was last found or put in sync; 1970-01-01T00:00:00Z: never yet.',
        format: 'date-time',
      })
      .exactOptional(),
    observedGeneration: z
      .int()
      .meta({ description: 'The metadata.generation that this status speaks of.', format: 'int64' })
      .exactOptional(),
    conditions: z
      .array(condition)
      .meta({
        description: 'Ready says whether every copy is as it should be, and if not, why.',
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['type'],
      })
      .exactOptional(),
    vaultSource: z
      .object({
        leaseID: z.string().meta({ description: "The lease's ID." }).exactOptional(),
        leaseDuration: z
          .int()
          .meta({ description: "The lease's duration in seconds, as Vault last gave it.", format: 'int64' })
          .exactOptional(),
        tokenExpirationTime: z
          .string()
          .meta({
            description:
              'When the token that the lease hangs on ends if it is not renewed; absent if it does not end, or was given.',
            format: 'date-time',
          })
          .exactOptional(),
      })
      .meta({ description: 'The lease of dynamic credentials; absent for other sources.' })
      .exactOptional(),
    vaultLeases: z
      .array(
        z.object({
          leaseID: z.string().meta({ description: "The lease's ID." }),
          vault: z.looseObject({}).meta({ description: 'The spec.source.vault with which it was granted.' }),
          destinationVersion: z
            .string()
            .meta({ description: 'Which version of the destination in Vault holds its credentials.' })
            .exactOptional(),
          expirationTime: z
            .string()
            .meta({
              description: 'When it is over at the latest; there if it was replaced and is to be revoked.',
              format: 'date-time',
            })
            .exactOptional(),
        }),
      )
      .meta({
        description: 'Leases of dynamic credentials: the present one, and replaced ones that are still to be revoked.',
        'x-kubernetes-list-type': 'atomic',
      })
      .exactOptional(),
  })
  .meta({ description: 'What became of it.' });

export const secretMirror = z
  .object({ spec: secretMirrorSpec.exactOptional(), status: secretMirrorStatus.exactOptional() })
  .meta({
    description: 'Copies a Secret, or a secret in Vault, to namespaces or to Vault, and keeps the copies right.',
    ...rules({
      // Not `required`: metadata is part of this level, so every update changes it and nothing would be forgiven.
      rule: 'has(self.spec) || (oldSelf.hasValue() && !has(oldSelf.value().spec))',
      optionalOldSelf: true,
      message: 'spec must be specified',
      fieldPath: '.spec',
      reason: 'FieldValueRequired',
    }),
  });
