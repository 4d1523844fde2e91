/** Schema of SecretMirror (`mirrors.kts.studio`) in version `v1alpha2`. The API server stores this version. */
import { z } from 'zod';
import { MIRROR_DEFAULTS, NAMESPACES_ONLY } from '../../src/controllers/mirrors/api.ts';
import { FORBIDDEN_TYPES } from '../../src/copy/model/kind.ts';
import { condition } from './condition.ts';
import { secretKeys, labelSelector, addedMetadata } from './mirror-choices.ts';
import { NAME_OR_EMPTY, rules, type Rule } from './rules.ts';
import { vaultBlock, vaultRules } from './vault-block.ts';

/*
 * Each validation rule is as deep in the schema as possible. In an update, the API server does not validate fields that
 * have not changed ("ratcheting"). So an object that an older, more permissive schema accepted can still be edited, get
 * a status, and lose its finalizer.
 *
 * Maximum lengths are far above normal use. Without them, the API server would reject the rules for their estimated
 * cost.
 */

/**
 * Schema of a list of regular expressions for namespaces.
 * @param what what the message calls one of them, for example `a destination namespace`
 */
function patterns(what: string, description: string, maxLength = 4096, maxItems = 1000) {
  return z
    .array(z.string().max(maxLength))
    .max(maxItems)
    .meta({
      description,
      ...rules({
        // If a pattern does not compile, matches() fails with an error. Inside `type()`, the error makes the rule fail,
        // and the API server adds the compiler's text to the message; `||` would hide the error. Ratcheting accepts an
        // unchanged value if its rule is false, but not if the rule fails with an error. So the rule itself compares
        // the list with the stored list. (`oldSelf` exists for the list, but not for its items.)
        rule: "(oldSelf.hasValue() && oldSelf.value() == self) || self.all(pattern, type(''.matches(pattern)) == bool)",
        optionalOldSelf: true,
        message: `${what} has a problem compiling: each must be a regular expression as RE2 knows them`,
      }),
    });
}

/** Rule for a string: copies may have this type of Secret. */
const ALLOWED_TYPE: Rule = {
  rule: `!(self in [${FORBIDDEN_TYPES.map((type) => `'${type}'`).join(', ')}])`,
  message: `must not be ${FORBIDDEN_TYPES.join(' or ')}`,
};

const source = z
  .object({
    type: z
      .enum(['secret', 'vault', 'configmap'])
      .meta({
        description: 'Type of the source: a Secret, Vault, or a ConfigMap, whose copies are ConfigMaps.',
        default: MIRROR_DEFAULTS.sourceType,
      })
      .exactOptional(),
    name: z
      .string()
      .max(253)
      .meta({
        description:
          'Name of the source in the namespace of the mirror, and of every copy without destination.name. Default: the name of the mirror.',
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
    namespaces: patterns(
      'a destination namespace',
      'Regular expressions (RE2) for the names of destination namespaces, for type namespaces.',
    ).exactOptional(),
    namespaceSelector: labelSelector
      .meta({
        description:
          'Selects destination namespaces by their labels. With namespaces, both must match. An empty selector selects every namespace.',
      })
      .exactOptional(),
    excludedNamespaces: patterns(
      'an excluded namespace',
      'Regular expressions (RE2) for the names of namespaces that get no copy, whatever selects them.',
    ).exactOptional(),
    name: z
      .string()
      .max(253)
      .meta({ description: 'Name of every copy. Default: source.name.', ...rules(NAME_OR_EMPTY) })
      .exactOptional(),
    keys: secretKeys.exactOptional(),
    vault: vaultBlock.meta({ description: 'Location in Vault, for type vault.' }).exactOptional(),
    secretType: z
      .string()
      .max(1024)
      .meta({
        description:
          'Type of the copies, for example kubernetes.io/tls. Default: the type of the source Secret; Opaque from Vault.',
        ...rules(ALLOWED_TYPE),
      })
      .exactOptional(),
    labels: addedMetadata('label', 63)
      .meta({ description: 'Labels of every copy, in addition to those of the source. They win over them.' })
      .exactOptional(),
    annotations: addedMetadata('annotation', 4096)
      .meta({ description: 'Annotations of every copy, in addition to those of the source. They win over them.' })
      .exactOptional(),
    copyLabels: patterns(
      'a pattern in copyLabels',
      'Regular expressions (RE2) for the keys of the labels that travel from the source. Default: all, without those that programs obey.',
      256,
      100,
    ).exactOptional(),
    copyAnnotations: patterns(
      'a pattern in copyAnnotations',
      'Regular expressions (RE2) for the keys of the annotations that travel from the source. Default: all, without those that programs obey.',
      256,
      100,
    ).exactOptional(),
  })
  .meta({
    description: 'Destination of the copies.',
    ...rules(
      {
        rule: "self.type != 'namespaces' || has(self.namespaceSelector) || (has(self.namespaces) && size(self.namespaces) > 0)",
        message: 'destination namespaces are empty',
        fieldPath: '.namespaces',
        reason: 'FieldValueRequired',
      },
      {
        rule: "self.type != 'namespaces' || !has(self.namespaces) || !('' in self.namespaces)",
        message: 'a destination namespace is empty',
        // string() would do the same as format(), but its estimated cost has no bound.
        messageExpression: "'destination namespace #%d is empty'.format([self.namespaces.indexOf('')])",
        fieldPath: '.namespaces',
        reason: 'FieldValueRequired',
      },
      {
        rule: "!has(self.excludedNamespaces) || !('' in self.excludedNamespaces)",
        message: 'an excluded namespace is empty',
        fieldPath: '.excludedNamespaces',
      },
      ...NAMESPACES_ONLY.map((field) => ({
        rule: `self.type != 'vault' || !has(self.${field})`,
        message: `destination.${field} is only for a destination of type namespaces`,
        fieldPath: `.${field}`,
      })),
      ...vaultRules('destination'),
    ),
  });

const SOURCE_TYPE = `self.?source.?type.orValue('${MIRROR_DEFAULTS.sourceType}')`;

/**
 * Rule: `destination` may have this field only if the source has one of some types.
 * @param types how CEL compares the type of the source: `!= 'vault'`
 */
function forSources(field: string, types: string, message: string): Rule {
  const rule = `!has(self.destination) || !has(self.destination.${field}) || ${SOURCE_TYPE} ${types}`;
  return { rule, message, fieldPath: `.destination.${field}` };
}

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
    suspend: z
      .boolean()
      .meta({
        description:
          'While true, Keyferry neither writes nor deletes a copy of this mirror. The deletion of the mirror still follows deletePolicy.',
      })
      .exactOptional(),
  })
  .meta({
    description: 'Source and destination of the copies.',
    ...rules(
      {
        rule: 'has(self.destination)',
        message: 'destination namespaces are empty',
        fieldPath: '.destination.namespaces',
        reason: 'FieldValueRequired',
      },
      {
        rule: `!has(self.destination) || ${SOURCE_TYPE} != 'configmap' || self.destination.type != 'vault'`,
        message: 'a ConfigMap can only be copied to namespaces',
        fieldPath: '.destination.type',
      },
      ...(['copyLabels', 'copyAnnotations'] as const).map((field) =>
        forSources(field, "!= 'vault'", `destination.${field} is not for Vault, because its entries have no metadata`),
      ),
      forSources('secretType', "!= 'configmap'", 'destination.secretType is not for ConfigMaps, which have no type'),
    ),
  });

/** The status fields that the original operator has, too, in both versions of the API. */
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
        }),
      )
      .meta({
        description: 'What Keyferry needs to resume or revoke the lease of dynamic credentials after a restart.',
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
      // `required` is not used: the API server validates it in every update, because metadata at the same level change.
      rule: 'has(self.spec) || (oldSelf.hasValue() && !has(oldSelf.value().spec))',
      optionalOldSelf: true,
      message: 'spec must be specified',
      fieldPath: '.spec',
      reason: 'FieldValueRequired',
    }),
  });
