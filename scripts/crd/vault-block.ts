/** Schema and validation rules of the field `vault` in the source and the destination of a SecretMirror. */
import { z } from 'zod';
import { NAME_OR_EMPTY, NAMESPACE_OR_EMPTY, rules } from './rules.ts';
import type { Rule } from './rules.ts';

const text = (description: string) => z.string().meta({ description });

const vaultNamespace = (description: string) =>
  z
    .string()
    .max(1024)
    .regex(/^[!-~]*$/)
    .meta({ description })
    .exactOptional();

const secretRef = z
  .object({
    name: z
      .string()
      .max(253)
      .meta({ description: 'Name of the Secret.', ...rules(NAME_OR_EMPTY) })
      .exactOptional(),
    namespace: z
      .string()
      .max(63)
      .meta({
        description:
          'Namespace of the Secret. Default: the namespace of the mirror. Other namespaces require the flag --allow-cross-namespace-auth of the operator.',
        ...rules(NAMESPACE_OR_EMPTY),
      })
      .exactOptional(),
  })
  .meta({ description: 'The Secret with the credentials.' });

const approle = z
  .object({
    secretRef: secretRef.exactOptional(),
    appRolePath: text('Mount path of the auth method. Default: approle.').exactOptional(),
    roleIDKey: text('Key of the role ID in the Secret. Default: role-id.').exactOptional(),
    secretIDKey: text('Key of the secret ID in the Secret. Default: secret-id.').exactOptional(),
  })
  .meta({ description: 'Logs in with an AppRole.' });

const token = z
  .object({
    secretRef: secretRef.exactOptional(),
    tokenKey: text('Key of the token in the Secret. Default: token.').exactOptional(),
  })
  .meta({ description: 'Uses a token directly. An AppRole is safer, because its tokens are short-lived.' });

const kubernetes = z
  .object({
    role: z.string().min(1).meta({ description: "Role of Vault's Kubernetes auth method." }),
    mountPath: text('Mount path of the auth method. Default: kubernetes.').exactOptional(),
    serviceAccountRef: z
      .object({
        name: z
          .string()
          .min(1)
          .max(253)
          .meta({ description: 'Name of the ServiceAccount.', ...rules(NAME_OR_EMPTY) }),
        audiences: z
          .array(z.string().min(1))
          .max(16)
          .meta({
            description:
              'Audiences of the token for Vault. Required unless --vault-addresses includes the server. Default: the audiences of the API server.',
          })
          .exactOptional(),
      })
      .meta({ description: 'The ServiceAccount for the login, in the namespace of the mirror.' }),
  })
  .meta({ description: 'Logs in with a new, short-lived token of a ServiceAccount.' });

export const vaultBlock = z.object({
  addr: z
    .string()
    .max(2048)
    .meta({ description: 'URL of the Vault server, with http:// or https://.' })
    .exactOptional(),
  path: z
    .string()
    .max(4096)
    .meta({ description: 'Path of the secret. For KV version 2 with or without data/ after the mount.' })
    .exactOptional(),
  auth: z
    .object({
      approle: approle.exactOptional(),
      token: token.exactOptional(),
      kubernetes: kubernetes.exactOptional(),
      namespace: vaultNamespace('Vault namespace of the login. Default: the namespace of the entry.'),
    })
    .meta({ description: 'Login method. The first complete one is used, in the order approle, token, kubernetes.' })
    .exactOptional(),
  encoding: z
    .enum(['plain', 'base64'])
    .meta({ description: 'Encoding of values in Vault: plain UTF-8 text or base64. Default: plain.' })
    .exactOptional(),
  caBundle: z
    .string()
    .max(1_048_576)
    .meta({
      description:
        'PEM certificates of the CAs for the server certificate, or that certificate itself, instead of the public CAs.',
      ...rules({
        rule: "self == '' || self.contains('-----BEGIN CERTIFICATE-----')",
        message: 'must hold PEM certificates (-----BEGIN CERTIFICATE-----)',
      }),
    })
    .exactOptional(),
  tlsServerName: z
    .string()
    .max(253)
    .meta({ description: 'Expected name in the server certificate, if it is not the host of addr.' })
    .exactOptional(),
  namespace: vaultNamespace('Vault namespace of the entry (Vault Enterprise, OpenBao).'),
});

/**
 * Rules for the object that has the fields `type` and `vault`. They apply only if the type is `vault`: otherwise nobody
 * reads the field `vault`, so it may be incomplete.
 */
export function vaultRules(side: 'source' | 'destination'): readonly Rule[] {
  const unused = "self.type != 'vault'";
  const noBlock = `${unused} || !has(self.vault)`;
  const noAuth = `${noBlock} || !has(self.vault.auth)`;
  const has = (method: string): string => `has(self.vault.auth.${method})`;
  const named = (method: string): string => `self.vault.auth.?${method}.?secretRef.?name.orValue('') != ''`;
  const required = (field: string, rule: string): Rule => ({
    rule,
    message: `${side}.${field} must be specified`,
    fieldPath: `.${field}`,
    reason: 'FieldValueRequired',
  });
  const addrText = `${side}.vault.addr must be a URL with http:// or https://`;
  return [
    required('vault', `${unused} || has(self.vault)`),
    required('vault.addr', `${noBlock} || self.vault.?addr.orValue('') != ''`),
    {
      rule:
        `${noBlock} || self.vault.?addr.orValue('') == '' || ` +
        "(isURL(self.vault.addr) && url(self.vault.addr).getScheme() in ['http', 'https'] && url(self.vault.addr).getHostname() != '')",
      message: addrText,
      messageExpression: `'${addrText}, not "' + self.vault.addr + '"'`,
      fieldPath: '.vault.addr',
    },
    required('vault.path', `${noBlock} || self.vault.?path.orValue('') != ''`),
    {
      rule: `${noBlock} || (has(self.vault.auth) && (${has('approle')} || ${has('token')} || ${has('kubernetes')}))`,
      message: `${side}.vault.auth must specify one of approle, token or kubernetes`,
      fieldPath: '.vault.auth',
      reason: 'FieldValueRequired',
    },
    required(
      'vault.auth.approle.secretRef.name',
      `${noAuth} || !${has('approle')} || ${named('approle')} || ${has('token')} || ${has('kubernetes')}`,
    ),
    required(
      'vault.auth.token.secretRef.name',
      `${noAuth} || !${has('token')} || ${named('token')} || ${named('approle')} || ${has('kubernetes')}`,
    ),
  ];
}
