/** SecretMirror, `mirrors.kts.studio`: schema of `v1alpha2`, the version that is stored. */
import { z } from 'zod';
import { MIRROR_DEFAULTS } from '../../src/controllers/mirrors/api.ts';
import { FORBIDDEN_TYPES } from '../../src/copy/model/kind.ts';
import { condition } from './condition.ts';
import { NAME_OR_EMPTY, rules } from './rules.ts';
import { vaultBlock, vaultRules } from './vault-block.ts';

/*
 * Rules are placed as deep in the schema as possible. The API server does not validate unchanged fields in an update (ratcheting), so
 * an object from an older, more permissive schema can still be edited, get a status, and lose its finalizer.
 *
 * Maximum lengths are set because the API server rejects rules with a high estimated cost. They are far above normal use.
 */

const namespacePatterns = z
  .array(z.string().max(4096))
  .max(1000)
  .meta({
    description: 'Regular expressions (RE2) for the names of destination namespaces, for type namespaces.',
    ...rules({
      // matches() fails for a pattern that does not compile. `type()` passes this error on, while `||` would hide it, and the API server
      // adds the compiler's message to the message of the rule. Ratcheting applies to rules that return false, not to rules that fail. So the rule
      // compares with the old list, which is available for the list but not for its items.
      rule: "(oldSelf.hasValue() && oldSelf.value() == self) || self.all(pattern, type(''.matches(pattern)) == bool)",
      optionalOldSelf: true,
      message: 'a destination namespace has a problem compiling: each must be a regular expression as RE2 knows them',
    }),
  });

const source = z
  .object({
    type: z
      .enum(['secret', 'vault'])
      .meta({ description: 'Type of the source: a Kubernetes Secret or Vault.', default: MIRROR_DEFAULTS.sourceType })
      .exactOptional(),
    name: z
      .string()
      .max(253)
      .meta({
        description:
          'Name of every copy, and of the source Secret in the namespace of the mirror. Default: the name of the mirror.',
        ...rules(NAME_OR_EMPTY),
      })
      .exactOptional(),
    vault: vaultBlock.meta({ description: 'Location of the secret in Vault, for type vault.' }).exactOptional(),
  })
  .meta({ description: 'Source of the copies.', ...rules(...vaultRules('source')) });

const destination = z
  .object({
    type: z
      .enum(['namespaces', 'vault'])
      .meta({ description: 'Type of the destination: namespaces or Vault.', default: MIRROR_DEFAULTS.destinationType })
      .exactOptional(),
    namespaces: namespacePatterns.exactOptional(),
    vault: vaultBlock.meta({ description: 'Location in Vault, for type vault.' }).exactOptional(),
    secretType: z
      .string()
      .max(1024)
      .meta({
        description:
          'Type of copies from Vault, for example kubernetes.io/tls. Default: Opaque. Copies of a Secret have the type of the Secret.',
        ...rules({
          rule: `!(self in [${FORBIDDEN_TYPES.map((type) => `'${type}'`).join(', ')}])`,
          message: `must not be ${FORBIDDEN_TYPES.join(' or ')}`,
        }),
      })
      .exactOptional(),
  })
  .meta({
    description: 'Destination of the copies.',
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
        // format(), because the cost estimate of string() is unbounded.
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
          'Policy for copies whose mirror is deleted or no longer selects their namespace. Default: delete; always retain for a destination of type vault.',
      })
      .exactOptional(),
    pollPeriodSeconds: z
      .int()
      .min(0)
      .meta({
        description: 'Interval in seconds for polling Vault, which cannot be watched. 0 means the default, 180.',
        format: 'int64',
      })
      .exactOptional(),
  })
  .meta({
    description: 'Source and destination of the copies.',
    ...rules({
      rule: 'has(self.destination)',
      message: 'destination namespaces are empty',
      fieldPath: '.destination.namespaces',
      reason: 'FieldValueRequired',
    }),
  });

/** The status fields of the original, in both versions of the API. */
export const originalStatus = {
  mirrorStatus: z
    .enum(['Pending', 'Active', 'Error'])
    .meta({ description: 'Status of the mirror in one word.', default: 'Pending' })
    .exactOptional(),
  lastSyncTime: z
    .string()
    .meta({
      description: 'Time of the last successful sync; 1970-01-01T00:00:00Z if there was none.',
      format: 'date-time',
    })
    .exactOptional(),
};

export const secretMirrorStatus = z
  .object({
    ...originalStatus,
    observedGeneration: z
      .int()
      .meta({ description: 'The metadata.generation that this status is based on.', format: 'int64' })
      .exactOptional(),
    conditions: z
      .array(condition)
      .meta({
        description: 'The condition Ready is True if all copies are up to date. Otherwise it contains the reason.',
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['type'],
      })
      .exactOptional(),
    vaultSource: z
      .object({
        leaseID: z.string().meta({ description: 'ID of the lease.' }).exactOptional(),
        leaseDuration: z
          .int()
          .meta({ description: 'Duration of the lease in seconds, from the last response of Vault.', format: 'int64' })
          .exactOptional(),
        tokenExpirationTime: z
          .string()
          .meta({
            description:
              'Expiration time of the Vault token that owns the lease; absent if the token does not expire or comes from a Secret.',
            format: 'date-time',
          })
          .exactOptional(),
      })
      .meta({ description: 'The lease of dynamic credentials; absent for other sources.' })
      .exactOptional(),
    vaultLeases: z
      .array(
        z.object({
          leaseID: z.string().meta({ description: 'ID of the lease.' }),
          vault: z.looseObject({}).meta({ description: 'The spec.source.vault at the time of the lease.' }),
          destinationVersion: z
            .string()
            .meta({ description: 'Version of the destination in Vault that contains the credentials of the lease.' })
            .exactOptional(),
          expirationTime: z
            .string()
            .meta({
              description: 'Latest end of a replaced lease that will be revoked; absent for the current lease.',
              format: 'date-time',
            })
            .exactOptional(),
        }),
      )
      .meta({
        description: 'Leases of dynamic credentials: the current one, and replaced ones that are not revoked yet.',
        'x-kubernetes-list-type': 'atomic',
      })
      .exactOptional(),
  })
  .meta({ description: 'Observed state of the mirror.' });

export const secretMirror = z
  .object({ spec: secretMirrorSpec.exactOptional(), status: secretMirrorStatus.exactOptional() })
  .meta({
    description: 'Copies a Secret, or a secret in Vault, to namespaces or to Vault, and keeps the copies up to date.',
    ...rules({
      // Not `required`: metadata is at the same level, so every update changes this level and ratcheting would never apply.
      rule: 'has(self.spec) || (oldSelf.hasValue() && !has(oldSelf.value().spec))',
      optionalOldSelf: true,
      message: 'spec must be specified',
      fieldPath: '.spec',
      reason: 'FieldValueRequired',
    }),
  });
