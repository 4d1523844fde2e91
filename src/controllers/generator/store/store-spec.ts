/** Reads an ESO store as ESO does: the address of Vault, the login, and the entry that each key names. Pure. */
import type { Fault } from '../../../copy/model/cause.ts';
import type { VaultEnvironment } from '../../../config/vault-environment.ts';
import type { VaultAuthRef, VaultSecretKey } from '../../../copy/vault/locations.ts';
import type { VaultServerOptions } from '../../../vault/client/server.ts';
import { readSelector } from '../../../runtime/text/label-selector.ts';
import { getOrCreate } from '../../../runtime/maps.ts';
import { normalizePath, VaultPathError } from '../../../vault/path.ts';
import type { SecretKeySelector, SecretStore, StoreCondition, VaultProvider } from '../api.ts';
import { type Problem, type ProblemReason, type StoreRef, userProblem, type WantedValue } from '../request/requests.ts';
import type { WantedEntry } from '../run/entry.ts';

/** The object and key with the CA certificates for the Vault server. */
export interface CaReference {
  readonly kind: 'Secret' | 'ConfigMap';
  readonly namespace: string;
  readonly name: string;
  readonly key: string;
}

/** The secrets engine of a store: its mount and its KV version. */
export interface StoreMount {
  /** The mount of the engine, from `spec.provider.vault.path`; `undefined`: each key begins with the mount. */
  readonly mount: string | undefined;
  /** The KV version; `undefined`: without a store, Vault tells the version, as for `vault kv put`. */
  readonly version: 'v1' | 'v2' | undefined;
}

/** A store as the ExternalSecrets of one namespace use it. Each of its references has a namespace. */
export interface VaultStore extends StoreMount {
  /** For example `SecretStore/vault-backend`. `environment` replaces all stores if Keyferry cannot list them. */
  readonly name: string;
  readonly server: VaultServerOptions;
  readonly ca: CaReference | undefined;
  readonly auth: VaultAuthRef;
}

export type StoreProblemReason = Extract<
  ProblemReason,
  'UnsupportedProvider' | 'UnsupportedAuth' | 'InvalidStore' | 'StoreNotAllowed' | 'StoreNotFound'
>;

/** A store cannot be used. The message names the wrong field. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly reason: StoreProblemReason;
  readonly fault: Fault;

  /** @param fault who must act. Default: the author of the store or of the ExternalSecret */
  constructor(reason: StoreProblemReason, message: string, fault: Fault = 'user') {
    super(message);
    this.reason = reason;
    this.fault = fault;
  }
}

/** The part of a store's spec that stays in memory. */
export type StoreSpec = NonNullable<SecretStore['spec']>;

/** A namespace whose ExternalSecrets use a store. */
export interface StoreUser {
  readonly namespace: string;
  /** Labels of the namespace. */
  readonly labels: Readonly<Record<string, string>>;
  /** Whether a text matches a regular expression in RE2 syntax. */
  readonly matches: (expression: string, text: string) => boolean;
  /** Whether a Vault server may receive a ServiceAccount token that the API server also accepts. */
  readonly mayGetApiTokens: (addr: string) => boolean;
}

const FIELD = 'spec.provider.vault';

/** Makes a store from the environment variables of the process. @throws StoreError: $VAULT_ADDR is not set */
export function environmentStore({
  address: addr,
  caBundle,
  tlsServerName,
  insecureSkipVerify,
  namespace,
}: Pick<VaultEnvironment, 'address' | 'caBundle' | 'tlsServerName' | 'insecureSkipVerify' | 'namespace'>): VaultStore {
  if (addr === undefined) {
    throw new StoreError('InvalidStore', 'cannot be read, and $VAULT_ADDR is not set', 'operator');
  }
  const server = { addr, caBundle, tlsServerName, insecureSkipVerify, namespace };
  const auth = { method: 'environment' } as const;
  return { name: 'environment', server, ca: undefined, auth, mount: undefined, version: undefined };
}

/** Reads a store for the namespace of `user`. @param spec `undefined`: the store does not exist @throws StoreError */
export function vaultStoreOf({ kind, name }: StoreRef, spec: StoreSpec | undefined, user: StoreUser): VaultStore {
  if (spec === undefined) throw new StoreError('StoreNotFound', 'does not exist');
  const vault = spec.provider?.vault;
  if (vault === undefined) {
    const provider = Object.keys(spec.provider ?? {})[0] ?? 'none';
    throw new StoreError('UnsupportedProvider', `spec.provider: values are made in Vault only, not in ${provider}`);
  }
  if (kind === 'ClusterSecretStore' && !isAllowed(spec.conditions ?? [], user)) {
    throw new StoreError('StoreNotAllowed', `spec.conditions: the namespace ${user.namespace} may not use the store`);
  }
  const unsupported = (['tls', 'headers'] as const).find((field) => Object.keys(vault[field] ?? {}).length > 0);
  if (unsupported !== undefined) {
    throw new StoreError('UnsupportedProvider', `${FIELD}.${unsupported} is not supported, so no value is made`);
  }
  // In a SecretStore, ESO ignores the namespaces of references.
  const home = (namespace: string | undefined): string =>
    (kind === 'ClusterSecretStore' && namespace) || user.namespace;
  if (vault.path !== undefined && /^\/*$/.test(vault.path)) {
    throw new StoreError('InvalidStore', `${FIELD}.path must not be empty`);
  }
  return {
    name: `${kind}/${name}`,
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
  // ESO prefers `caBundle` to `caProvider`.
  if (caBundle || caProvider === undefined) return undefined;
  const { type, name, namespace, key } = caProvider;
  if ((type !== 'Secret' && type !== 'ConfigMap') || !name || !key) {
    throw new StoreError('InvalidStore', `${FIELD}.caProvider must have type (Secret or ConfigMap), name and key`);
  }
  // As in ESO. Otherwise each user of the store could choose the CA certificates that the store trusts.
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
  // If a store has several logins, ESO uses the first one in this order.
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
  const method = Object.keys(auth).find((name) => name !== 'namespace');
  if (method === undefined) throw new StoreError('InvalidStore', `${field} must name a login`);
  throw new StoreError('UnsupportedAuth', `${field}.${method}: this login is not supported, so no value is made`);
}

/** Whether a namespace may use the store, as in ESO: there are no conditions, or one of them selects the namespace. */
function isAllowed(conditions: readonly StoreCondition[], { namespace, labels, matches }: StoreUser): boolean {
  return (
    conditions.length === 0 ||
    conditions.some(
      ({ namespaces = [], namespaceRegexes = [], namespaceSelector }) =>
        namespaces.includes(namespace) ||
        namespaceRegexes.some((expression) => matches(expression, namespace)) ||
        // An invalid selector selects no namespace.
        (namespaceSelector !== undefined && readSelector(namespaceSelector, '', [])?.matches(labels) === true),
    )
  );
}

/** A key does not name an entry. The message quotes the key, or gives its length. */
export class EntryPathError extends Error {
  override readonly name = 'EntryPathError';
}

/** Maximum length of a key, characters. Vault's storage has limits of about this size for paths. */
const MAX_KEY = 512;

/**
 * The path in Vault's API at which ESO reads a key (`buildPath` of its Vault provider). For KV 2 it has `data/` after
 * the mount.
 * @throws EntryPathError: the key is empty or too long, or has a segment `.` or `..`, with which Vault would read a
 * different path
 */
export function entryPathOf(key: string, { mount, version }: StoreMount): string {
  if (key.length > MAX_KEY)
    throw new EntryPathError(`has ${key.length} characters, and at most ${MAX_KEY} are allowed`);
  // ESO's Vault client also removes empty segments (`a//b`).
  const path = normalized(withMount(key, mount, version));
  if (path === undefined) throw new EntryPathError(`${JSON.stringify(key)} is not the path of an entry`);
  const root = mount === undefined ? path.split('/', 1)[0] : normalized(mount);
  const entry = path.slice((root?.length ?? 0) + 1);
  if (entry === '' || (version === 'v2' && entry === 'data')) {
    throw new EntryPathError(`${JSON.stringify(key)} names a mount, not an entry in it`);
  }
  return path;
}

function withMount(key: string, mount: string | undefined, version: StoreMount['version']): string {
  if (mount === undefined) {
    if (version !== 'v2' || key.includes('/data/')) return key;
    const [first = '', ...rest] = key.split('/');
    return [first, 'data', ...rest].join('/');
  }
  const inMount = key.startsWith(`${mount}/`) ? key.slice(mount.length + 1) : undefined;
  const isPrefixed = inMount?.startsWith('data/') === true && version === 'v2';
  const entry = isPrefixed ? inMount.slice('data/'.length) : (inMount ?? key);
  return version === 'v2' ? `${mount}/data/${entry}` : `${mount}/${entry}`;
}

function normalized(path: string): string | undefined {
  try {
    return normalizePath(path);
  } catch (error) {
    if (!(error instanceof VaultPathError)) throw error;
    return undefined;
  }
}

/** A store, and the entries that an ExternalSecret reads from it, by path. */
export interface Place {
  readonly store: VaultStore;
  readonly entries: ReadonlyMap<string, WantedEntry>;
}

export interface Places {
  readonly places: readonly Place[];
  readonly problems: readonly Problem[];
}

/** Groups the values of an ExternalSecret by store and entry. @param storeOf throws StoreError */
export function placesOf(wanted: readonly WantedValue[], storeOf: (ref: StoreRef) => VaultStore): Places {
  type Entries = Map<string, WantedEntry & { values: WantedValue[] }>;
  const places = new Map<string, Place & { readonly entries: Entries }>();
  const problems: Problem[] = [];
  for (const value of wanted) {
    const { field, key, store: ref } = value;
    try {
      const store = storeOf(ref);
      const path = entryPathOf(key, store);
      const { entries } = getOrCreate(places, store.name, () => ({ store, entries: new Map() }));
      getOrCreate(entries, path, () => ({ path, version: store.version, values: [] })).values.push(value);
    } catch (error) {
      if (error instanceof EntryPathError) {
        problems.push(userProblem('ErrorCreating', `${field}.remoteRef.key`, error.message));
      } else if (error instanceof StoreError) {
        const { reason, message, fault } = error;
        problems.push({ reason, field: `${ref.kind} ${ref.name}`, message, fault });
      } else throw error;
    }
  }
  return { places: [...places.values()], problems: once(problems) };
}

/** Removes repeated problems, because a store that cannot be used is a problem for each of its values. */
function once(problems: readonly Problem[]): Problem[] {
  return [...new Map(problems.map((problem) => [`${problem.field} ${problem.message}`, problem])).values()];
}
