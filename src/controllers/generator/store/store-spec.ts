/** Reads a SecretStore or ClusterSecretStore of ESO: where its Vault is, and how to log in. Pure. */
import type { Fault } from '../../../copy/model/cause.ts';
import type { VaultAuthRef, VaultSecretKey } from '../../../copy/vault/locations.ts';
import type { VaultServerOptions } from '../../../vault/client/server.ts';
import type { SecretKeySelector, SecretStore, StoreCondition, VaultProvider } from '../api.ts';
import type { StoreMount } from '../request/entry-path.ts';
import type { ProblemReason } from '../reasons.ts';
import type { StoreRef } from '../request/requests.ts';

/** Where the certificates of the server's issuer are. */
export interface CaReference {
  readonly kind: 'Secret' | 'ConfigMap';
  readonly namespace: string;
  readonly name: string;
  readonly key: string;
}

/** A store, as one namespace may use it. */
export interface VaultStore extends StoreMount {
  readonly server: VaultServerOptions;
  readonly ca: CaReference | undefined;
  readonly auth: VaultAuthRef;
}

export type StoreProblemReason = Extract<
  ProblemReason,
  'UnsupportedProvider' | 'UnsupportedAuth' | 'InvalidStore' | 'StoreNotAllowed' | 'StoreNotFound'
>;

/** The store cannot be used. The message names the field. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly reason: StoreProblemReason;
  readonly fault: Fault;

  /** @param fault default: the author of the store or of its user */
  constructor(reason: StoreProblemReason, message: string, fault: Fault = 'user') {
    super(message);
    this.reason = reason;
    this.fault = fault;
  }
}

/** What is kept of a store. */
export type StoreSpec = NonNullable<SecretStore['spec']>;

/** A namespace that wants to use a store. */
export interface StoreUser {
  readonly namespace: string;
  /** Labels of the namespace. */
  readonly labels: Readonly<Record<string, string>>;
  /** Whether a text matches an expression of RE2. */
  readonly matches: (expression: string, text: string) => boolean;
  /** Whether a server may get a token of a ServiceAccount that the API server accepts, too. */
  readonly mayGetApiTokens: (addr: string) => boolean;
}

const FIELD = 'spec.provider.vault';
/** Fields of `auth` that are no login. */
const NO_LOGIN: ReadonlySet<string> = new Set(['namespace']);

/**
 * The Vault of a store.
 * @throws StoreError
 */
export function vaultStoreOf(kind: StoreRef['kind'], spec: StoreSpec | undefined, user: StoreUser): VaultStore {
  const vault = spec?.provider?.vault;
  if (vault === undefined) {
    const provider = Object.keys(spec?.provider ?? {})[0] ?? 'none';
    throw new StoreError('UnsupportedProvider', `spec.provider: values are made in Vault only, not in ${provider}`);
  }
  if (kind === 'ClusterSecretStore' && !isAllowed(spec?.conditions ?? [], user)) {
    throw new StoreError('StoreNotAllowed', `spec.conditions: the namespace ${user.namespace} may not use the store`);
  }
  const unsupported = (['tls', 'headers'] as const).find((field) => Object.keys(vault[field] ?? {}).length > 0);
  if (unsupported !== undefined) {
    throw new StoreError('UnsupportedProvider', `${FIELD}.${unsupported} is not supported, so no value is made`);
  }
  // In a SecretStore ESO ignores namespaces of references.
  const home = (namespace: string | undefined): string =>
    (kind === 'ClusterSecretStore' && namespace) || user.namespace;
  if (vault.path !== undefined && /^\/*$/.test(vault.path)) {
    throw new StoreError('InvalidStore', `${FIELD}.path must not be empty`);
  }
  return {
    server: serverOf(vault),
    ca: caOf(kind, vault, home),
    auth: authOf(vault, home, user.mayGetApiTokens),
    mount: vault.path,
    version: vault.version === 'v1' ? 'v1' : 'v2',
  };
}

function serverOf({ server, namespace, caBundle }: VaultProvider): VaultServerOptions {
  const addr = server?.trim() ?? '';
  if (!/^https?:\/\//i.test(addr)) {
    throw new StoreError('InvalidStore', `${FIELD}.server must begin with http:// or https://`);
  }
  const pem = caBundle ? Buffer.from(caBundle, 'base64').toString('utf8') : undefined;
  return { addr, ...(namespace && { namespace }), ...(pem !== undefined && { caBundle: pem }) };
}

function caOf(
  kind: StoreRef['kind'],
  { caBundle, caProvider }: VaultProvider,
  home: (namespace?: string) => string,
): CaReference | undefined {
  // ESO prefers the bundle.
  if (caBundle || caProvider === undefined) return undefined;
  const { type, name, namespace, key } = caProvider;
  if ((type !== 'Secret' && type !== 'ConfigMap') || !name || !key) {
    throw new StoreError('InvalidStore', `${FIELD}.caProvider must have type (Secret or ConfigMap), name and key`);
  }
  // As in ESO: else the users of the store would choose whom it trusts.
  if (kind === 'ClusterSecretStore' && !namespace) {
    throw new StoreError('InvalidStore', `${FIELD}.caProvider.namespace must be specified in a ClusterSecretStore`);
  }
  return { kind: type, namespace: home(namespace), name, key };
}

function authOf(
  { auth = {}, server = '' }: VaultProvider,
  home: (namespace?: string) => string,
  mayGetApiTokens: StoreUser['mayGetApiTokens'],
): VaultAuthRef {
  const field = `${FIELD}.auth`;
  const { namespace, tokenSecretRef, appRole, kubernetes } = auth;
  const login = namespace ? { loginNamespace: namespace } : {};
  const key = (path: string, ref: SecretKeySelector | undefined): VaultSecretKey => {
    if (!ref?.name || !ref.key) throw new StoreError('InvalidStore', `${field}.${path} must have name and key`);
    return { namespace: home(ref.namespace), name: ref.name, key: ref.key };
  };
  // The order in which ESO looks.
  if (tokenSecretRef !== undefined) return { method: 'token', token: key('tokenSecretRef', tokenSecretRef), ...login };
  if (appRole !== undefined) {
    const { roleId, roleRef, secretRef, path } = appRole;
    const text = roleId?.trim();
    return {
      method: 'approle',
      mount: path || 'approle',
      roleId: text ? { text } : key('appRole.roleRef', roleRef),
      secretId: key('appRole.secretRef', secretRef),
      ...login,
    };
  }
  if (kubernetes !== undefined) {
    const { role, mountPath, serviceAccountRef: account } = kubernetes;
    if (!role) throw new StoreError('InvalidStore', `${field}.kubernetes.role must be specified`);
    if (!account?.name) {
      const message = `${field}.kubernetes: only serviceAccountRef is supported, so no value is made`;
      throw new StoreError('UnsupportedAuth', message);
    }
    const audiences = (account.audiences ?? []).filter((audience) => audience !== '');
    const apiTokens = mayGetApiTokens(server.trim());
    if (audiences.length === 0 && !apiTokens) {
      const message =
        `${field}.kubernetes.serviceAccountRef.audiences must be specified, as the audience of the Vault role. ` +
        'The API server accepts a token without an audience, so such a token is only sent to servers in --vault-addresses';
      throw new StoreError('InvalidStore', message);
    }
    return {
      method: 'kubernetes',
      mount: mountPath || 'kubernetes',
      role,
      serviceAccount: { namespace: home(account.namespace), name: account.name },
      audiences,
      apiTokens,
      ...login,
    };
  }
  const method = Object.keys(auth).find((name) => !NO_LOGIN.has(name));
  if (method === undefined) throw new StoreError('InvalidStore', `${field} must name a login`);
  throw new StoreError('UnsupportedAuth', `${field}.${method}: this login is not supported, so no value is made`);
}

/** As ESO decides it: one entry that selects the namespace is enough, and no entries allow every namespace. */
function isAllowed(conditions: readonly StoreCondition[], { namespace, labels, matches }: StoreUser): boolean {
  return (
    conditions.length === 0 ||
    conditions.some(
      ({ namespaces = [], namespaceRegexes = [], namespaceSelector }) =>
        namespaces.includes(namespace) ||
        namespaceRegexes.some((expression) => matches(expression, namespace)) ||
        (namespaceSelector !== undefined && isSelected(namespaceSelector, labels)),
    )
  );
}

/** `metav1.LabelSelector`. An empty one selects all; one that is not valid selects nothing. */
function isSelected(
  { matchLabels = {}, matchExpressions = [] }: NonNullable<StoreCondition['namespaceSelector']>,
  labels: Readonly<Record<string, string>>,
): boolean {
  const has = (key: string): boolean => Object.hasOwn(labels, key);
  return (
    Object.entries(matchLabels).every(([key, value]) => has(key) && labels[key] === value) &&
    matchExpressions.every(({ key = '', operator, values = [] }) => {
      if (operator === 'Exists') return values.length === 0 && has(key);
      if (operator === 'DoesNotExist') return values.length === 0 && !has(key);
      const isIn = has(key) && values.includes(labels[key] ?? '');
      return values.length > 0 && ((operator === 'In' && isIn) || (operator === 'NotIn' && !isIn));
    })
  );
}
