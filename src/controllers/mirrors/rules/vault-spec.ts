/** Turns a `vault` block of a SecretMirror into a location with a login. A block with a problem gives no location. */
import {
  parseServer,
  type VaultAddresses,
  type VaultServer,
  VaultServerError,
  type VaultServerOptions,
} from '../../../vault/client/server.ts';
import { normalizePath, VaultPathError } from '../../../vault/path.ts';
import {
  type ObjectRef,
  type VaultAuthRef,
  type VaultLocation,
  vaultSourceKey,
  vaultTargetKey,
} from '../../../copy/vault/locations.ts';
import type { EntryKey, RuleKey } from '../../../copy/model/keys.ts';
import { isDnsLabel, nameProblems } from '../../../runtime/text/dns-names.ts';
import { MIRROR_DEFAULTS, type SecretReference, type VaultBlock } from '../api.ts';

/** Vault settings from the environment of the process, for fields that a block does not set. */
export type VaultDefaults = Omit<VaultServerOptions, 'addr'>;

export interface BlockContext {
  /** The path of the block, for messages: `spec.source.vault` or `spec.destination.vault`. */
  readonly field: string;
  /** The mirror's namespace. */
  readonly home: string;
  /** Type of the copies; `undefined`: the keys in the entry need not be valid for a Secret. */
  readonly secretType: string | undefined;
  /** Whether the login may use a Secret of another namespace. */
  readonly crossNamespaceAuth: boolean;
  /** `undefined`: every address is allowed. */
  readonly vaultAddresses: VaultAddresses | undefined;
  readonly vaultDefaults: VaultDefaults;
}

/** The location in a block; `undefined`: it has problems. @param problems gets these, each with its field */
export function vaultLocation(
  block: VaultBlock | undefined,
  context: BlockContext,
  problems: string[],
): VaultLocation | undefined {
  const { field, secretType } = context;
  if (block === undefined) {
    problems.push(`${field}: must be specified for type vault`);
    return undefined;
  }
  const found: string[] = [];
  const { addr = '', path = '' } = block;
  const server = serverOf({ addr, ...withDefaults(block, context.vaultDefaults) }, context, found);
  if (path === '') found.push(`${field}.path: must be specified`);
  else found.push(...pathProblems(field, path));
  const encoding = block.encoding ?? MIRROR_DEFAULTS.encoding;
  if (encoding !== 'plain' && encoding !== 'base64') {
    found.push(`${field}.encoding: must be plain or base64, not ${JSON.stringify(encoding)}`);
  }
  const auth = authOf(block, context, found);
  problems.push(...found);
  return found.length > 0 || auth === undefined || server === undefined
    ? undefined
    : { server, auth, path, encoding, secretType };
}

/** Adds the settings of the environment to a block. With a `caBundle` the server's certificate is always verified. */
function withDefaults(block: VaultBlock, defaults: VaultDefaults): VaultDefaults {
  const caBundle = block.caBundle || undefined;
  return {
    caBundle: caBundle ?? defaults.caBundle,
    tlsServerName: block.tlsServerName || defaults.tlsServerName,
    namespace: block.namespace || defaults.namespace,
    insecureSkipVerify: caBundle === undefined && defaults.insecureSkipVerify === true,
  };
}

/** The key of the entry at a location. */
export function entryAt(location: VaultLocation | undefined): EntryKey | undefined {
  return location && vaultTargetKey(location);
}

/** The key of the entry at a location as the source of a rule. */
export function sourceEntryAt(location: VaultLocation | undefined, rule: RuleKey): EntryKey | undefined {
  return location && vaultSourceKey(location, rule);
}

function serverOf(
  options: VaultServerOptions,
  { field, vaultAddresses }: BlockContext,
  problems: string[],
): VaultServer | undefined {
  if (options.addr === '') {
    problems.push(`${field}.addr: must be specified`);
    return undefined;
  }
  try {
    const server = parseServer(options);
    const problem = vaultAddresses?.problem(server.url);
    if (problem !== undefined) problems.push(`${field}.addr: ${problem}`);
    return server;
  } catch (error) {
    if (!(error instanceof VaultServerError)) throw error;
    problems.push(`${field}.${error.field}: ${error.problem}`);
    return undefined;
  }
}

function pathProblems(field: string, path: string): string[] {
  try {
    normalizePath(path);
    return [];
  } catch (error) {
    if (!(error instanceof VaultPathError)) throw error;
    return [`${field}.path: ${error.message}`];
  }
}

/** The login in a block: AppRole if it names a Secret, else token, else Kubernetes, in the order of the original. */
function authOf(block: VaultBlock, context: BlockContext, problems: string[]): VaultAuthRef | undefined {
  const { approle, token, kubernetes, namespace: loginNamespace } = block.auth ?? {};
  const login = loginNamespace ? { loginNamespace } : {};
  const field = `${context.field}.auth`;
  if (approle?.secretRef?.name) {
    const secret = secretRefOf(`${field}.approle`, approle?.secretRef, context, problems);
    return secret === undefined
      ? undefined
      : {
          method: 'approle',
          mount: approle?.appRolePath || MIRROR_DEFAULTS.appRolePath,
          roleId: { ...secret, key: approle?.roleIDKey || MIRROR_DEFAULTS.roleIDKey },
          secretId: { ...secret, key: approle?.secretIDKey || MIRROR_DEFAULTS.secretIDKey },
          ...login,
        };
  }
  if (token !== undefined) {
    const secret = secretRefOf(`${field}.token`, token.secretRef, context, problems);
    const key = token.tokenKey || MIRROR_DEFAULTS.tokenKey;
    return secret === undefined ? undefined : { method: 'token', token: { ...secret, key }, ...login };
  }
  if (kubernetes !== undefined) {
    const { role, mountPath, serviceAccountRef } = kubernetes;
    const name = serviceAccountRef?.name || undefined;
    if (!role) problems.push(`${field}.kubernetes.role: must be specified`);
    problems.push(...nameProblems(`${field}.kubernetes.serviceAccountRef.name`, name));
    const audiences = (serviceAccountRef?.audiences ?? []).filter((audience) => audience !== '');
    const apiTokens = mayGetApiTokens(block, context);
    if (audiences.length === 0 && !apiTokens) {
      problems.push(
        `${field}.kubernetes.serviceAccountRef.audiences: must be specified, as the audience of the Vault role (for example vault). ` +
          'The API server accepts a token without an audience, so such a token is only sent to servers in --vault-addresses',
      );
    }
    return {
      method: 'kubernetes',
      mount: mountPath || MIRROR_DEFAULTS.kubernetesMountPath,
      role,
      serviceAccount: { namespace: context.home, name: name ?? '' },
      audiences,
      apiTokens,
      ...login,
    };
  }
  problems.push(
    approle === undefined
      ? `${field}: must specify one of approle, token or kubernetes`
      : `${field}.approle.secretRef.name: must be specified`,
  );
  return undefined;
}

/** Whether the Vault server may get a ServiceAccount token that the API server accepts, too. */
function mayGetApiTokens({ addr = '' }: VaultBlock, { vaultAddresses }: BlockContext): boolean {
  return vaultAddresses === undefined || vaultAddresses.isNamedAddress(addr);
}

function secretRefOf(
  field: string,
  ref: SecretReference | undefined,
  { home, crossNamespaceAuth }: BlockContext,
  problems: string[],
): ObjectRef | undefined {
  const name = ref?.name || undefined;
  const bad = nameProblems(`${field}.secretRef.name`, name);
  problems.push(...bad);
  if (name === undefined || bad.length > 0) return undefined;
  const namespace = ref?.namespace || home;
  if (namespace !== home && !crossNamespaceAuth) {
    problems.push(
      `${field}.secretRef.namespace: ${JSON.stringify(namespace)} is not the namespace of the SecretMirror; ` +
        'other namespaces require the flag --allow-cross-namespace-auth',
    );
    return undefined;
  }
  if (!isDnsLabel(namespace)) {
    problems.push(
      `${field}.secretRef.namespace: ${JSON.stringify(namespace.slice(0, 63))} is not a valid namespace name`,
    );
    return undefined;
  }
  return { namespace, name };
}
