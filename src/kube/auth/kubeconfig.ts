/**
 * Makes a `Connection` from a kubeconfig: `--kubeconfig`, else the list in `$KUBECONFIG`, else `~/.kube/config`, else
 * the Pod's own service account.
 *
 * If kubectl would refuse a kubeconfig, Keyferry refuses it when it is read, before the first call. Tokens and
 * certificates in other files are read, and plugins run, at the first call, and are renewed from then on.
 */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { type Clock, systemClock } from '../../runtime/clock.ts';
import { codeOf } from '../errors.ts';
import type { Connection, AuthHeaders } from '../connection.ts';
import { RenewingCredentials, type CredentialParts, FileValue } from './credentials.ts';
import { Mapping, type Kubeconfig, KubeconfigError, readKubeconfigs } from './kubeconfig-file.ts';
import { ExecPlugin, type ExecSpec } from './exec-credential.ts';

export interface KubeconfigOptions {
  /** `--kubeconfig`: the path of one file, which must exist. */
  readonly path?: string | undefined;
  /** `--context`. Default: the `current-context` of the file. */
  readonly context?: string | undefined;
  /** The environment, for `KUBECONFIG`, `HOME`, `KUBERNETES_SERVICE_HOST` and for exec plugins. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The cluster's name in logs and metrics. Default `local`. */
  readonly cluster?: string;
  readonly clock?: Clock;
}

/**
 * Finds and reads the configuration of the cluster.
 * @throws KubeconfigError that names file and field, or else all places where no configuration was found
 */
export async function loadKubeconfig(options: KubeconfigOptions): Promise<Connection> {
  const config = await findKubeconfig(options);
  if (config !== undefined) return connectionOf(config, options);
  const inCluster = await inClusterConnection(options);
  if (inCluster === undefined) {
    throw new KubeconfigError(
      'no cluster',
      `there is no --kubeconfig, $KUBECONFIG is not set, ${homeConfig(options.env)} does not exist, and this process does not run in a Pod (KUBERNETES_SERVICE_HOST is not set)`,
    );
  }
  if (options.context !== undefined && options.context !== '') {
    throw new KubeconfigError('--context', `${JSON.stringify(options.context)} needs a kubeconfig`);
  }
  return inCluster;
}

/** The names of the contexts, for completion. @throws KubeconfigError that names file and field */
export async function contextNames(options: KubeconfigOptions): Promise<string[]> {
  return [...((await findKubeconfig(options))?.contexts.keys() ?? [])];
}

/** @returns `undefined`: there is no kubeconfig @throws KubeconfigError that names file and field */
async function findKubeconfig({ env, path = '' }: KubeconfigOptions): Promise<Kubeconfig | undefined> {
  if (path !== '') return await readKubeconfigs([resolve(path)], false);
  const list = env['KUBECONFIG'] ?? '';
  if (list === '') {
    const home = homeConfig(env);
    return existsSync(home) ? await readKubeconfigs([home], false) : undefined;
  }
  const paths = list.split(delimiter).filter((item) => item !== '');
  const config = await readKubeconfigs(
    Array.from(paths, (one) => resolve(one)),
    true,
  );
  if (config.files.length === 0) throw new KubeconfigError('$KUBECONFIG', `no such file: ${list}`);
  return config;
}

function homeConfig(env: KubeconfigOptions['env']): string {
  return join(env['HOME'] ?? homedir(), '.kube', 'config');
}

/**
 * Makes the connection of one context.
 * @throws KubeconfigError that names file and field
 */
export function connectionOf(config: Kubeconfig, options: KubeconfigOptions): Connection {
  const files = config.files.join(delimiter);
  const wanted = options.context === undefined || options.context === '' ? config.currentContext : options.context;
  const names = [...config.contexts.keys()].map((name) => JSON.stringify(name));
  const known = names.length === 0 ? 'there are none' : `there are: ${names.join(', ')}`;
  if (wanted === undefined) {
    throw new KubeconfigError(`${files}: current-context`, `is not set and no --context was given (${known})`);
  }
  const context = config.contexts.get(wanted);
  if (context === undefined) {
    throw new KubeconfigError(`${files}: contexts`, `no such context ${JSON.stringify(wanted)} (${known})`);
  }
  const cluster = lookUp(config.clusters, context, 'cluster');
  const user = context.has('user') ? lookUp(config.users, context, 'user') : new Mapping(context.file, 'users', {});
  const clock = options.clock ?? systemClock;
  const proxy = proxyOf(cluster);
  const ca = cluster.bytesOrFile('certificate-authority', clock);
  const insecure = cluster.boolean('insecure-skip-tls-verify');
  if (insecure && ca !== undefined) {
    throw cluster.error('insecure-skip-tls-verify', 'must not be true where there is a certificate-authority');
  }
  const parts = userParts(user, { cluster, ca, env: options.env, clock });
  const server = serverOf(cluster, ca !== undefined || insecure || parts.cert !== undefined);
  return {
    cluster: options.cluster ?? 'local',
    server,
    credentials: new RenewingCredentials({ ...parts, ca, servername: cluster.string('tls-server-name'), insecure }),
    proxy,
    namespace: context.string('namespace') ?? 'default',
    origin: `${context.file}, context ${JSON.stringify(wanted)}`,
  };
}

function lookUp(entries: ReadonlyMap<string, Mapping>, context: Mapping, name: 'cluster' | 'user'): Mapping {
  const wanted = context.required(name);
  const found = entries.get(wanted);
  if (found === undefined) throw context.error(name, `no such ${name} ${JSON.stringify(wanted)}`);
  return found;
}

function serverOf(cluster: Mapping, usesTls: boolean): URL {
  const text = cluster.required('server');
  // As kubectl does, adds the scheme if the server has none.
  const whole = text.includes('://') ? text : `${usesTls ? 'https' : 'http'}://${text}`;
  const server = URL.parse(whole);
  if (server === null) throw cluster.error('server', 'is not a URL');
  if (server.protocol !== 'https:' && server.protocol !== 'http:') {
    throw cluster.error('server', `must be https or http, is ${server.protocol}//`);
  }
  if (server.username !== '' || server.password !== '') {
    throw cluster.error('server', 'must not hold a user or password; they belong in users');
  }
  return server;
}

function proxyOf(cluster: Mapping): URL | undefined {
  const text = cluster.string('proxy-url');
  if (text === undefined) return undefined;
  const proxy = URL.parse(text);
  // The message does not quote the value, which may hold a password.
  if (proxy === null) throw cluster.error('proxy-url', 'is not a URL');
  if (['http:', 'https:', 'socks5:'].includes(proxy.protocol)) return proxy;
  throw cluster.error('proxy-url', `${proxy.protocol}// is not supported, only http, https and socks5 proxies are`);
}

interface UserContext {
  readonly cluster: Mapping;
  readonly ca: Buffer | FileValue | undefined;
  readonly env: KubeconfigOptions['env'];
  readonly clock: Clock;
}

const EXEC_API_VERSIONS = ['client.authentication.k8s.io/v1', 'client.authentication.k8s.io/v1beta1'];
/** The extension of a cluster entry that holds the configuration for exec plugins. */
const EXEC_EXTENSION = 'client.authentication.k8s.io/exec';

/** The parts of a user's credentials. @throws KubeconfigError for what kubectl refuses or Keyferry does not support */
function userParts(user: Mapping, context: UserContext): CredentialParts {
  const { clock } = context;
  if (user.has('auth-provider')) {
    throw user.error('auth-provider', 'is no longer supported, as in kubectl since 1.26; use an exec plugin instead');
  }
  const token = user.string('token');
  if (token !== undefined && !/^[\x21-\x7e]+$/u.test(token)) {
    throw user.error('token', 'has characters that are not allowed in a token');
  }
  const tokenFile = user.fileValue('tokenFile', clock);
  for (const name of ['username', 'password'])
    if (user.has(name))
      throw user.error(name, 'is no longer supported, as in Kubernetes since 1.19; use a token instead');
  const cert = user.bytesOrFile('client-certificate', clock);
  const key = user.bytesOrFile('client-key', clock);
  if ((cert === undefined) !== (key === undefined)) {
    const missing = cert === undefined ? 'client-certificate' : 'client-key';
    throw user.error(missing, 'is missing: a client certificate needs its key');
  }
  const exec = user.has('exec') ? execSpec(user.fields('exec'), context) : undefined;
  return {
    headers: impersonation(user),
    token,
    tokenFile,
    cert,
    key,
    plugin: exec && new ExecPlugin(exec, clock),
  };
}

function impersonation(user: Mapping): AuthHeaders {
  const as = user.string('as');
  const uid = user.string('as-uid');
  const groups = user.strings('as-groups');
  // Without them Keyferry would have other rights than the author of the file expects.
  if (user.has('as-user-extra')) throw user.error('as-user-extra', 'is not supported; use as, as-uid and as-groups');
  if (as === undefined) {
    if (uid === undefined && groups.length === 0) return {};
    throw user.error('as', 'is missing: groups and uid cannot be impersonated without a user');
  }
  return {
    'Impersonate-User': as,
    ...(uid === undefined ? {} : { 'Impersonate-Uid': uid }),
    ...(groups.length === 0 ? {} : { 'Impersonate-Group': groups }),
  };
}

function execSpec(exec: Mapping, { cluster, ca, env }: UserContext): ExecSpec {
  const apiVersion = exec.required('apiVersion');
  if (!EXEC_API_VERSIONS.includes(apiVersion)) {
    const known = EXEC_API_VERSIONS.join(' or ');
    throw exec.error('apiVersion', `must be ${known}, is ${JSON.stringify(apiVersion)}`);
  }
  const mode = exec.string('interactiveMode');
  if (mode === undefined ? apiVersion.endsWith('/v1') : !['Never', 'IfAvailable', 'Always'].includes(mode)) {
    throw exec.error(
      'interactiveMode',
      `must be Never or IfAvailable, is ${mode === undefined ? 'missing' : JSON.stringify(mode)}`,
    );
  }
  if (mode === 'Always') throw exec.error('interactiveMode', 'is Always, but there is no terminal for the plugin');
  const command = exec.required('command');
  const given = exec.list('env').map((value, index) => {
    const entry = new Mapping(exec.file, exec.at(`env[${index}]`), value);
    return [entry.required('name'), entry.string('value') ?? ''] as const;
  });
  return {
    field: `${exec.file}: ${exec.path}`,
    apiVersion,
    // A command without a slash is looked up in PATH; else it is a path relative to the kubeconfig's folder.
    command: command.includes('/') ? exec.resolve(command) : command,
    args: exec.strings('args'),
    env: { ...env, ...Object.fromEntries(given) },
    installHint: exec.string('installHint'),
    clusterInfo: exec.boolean('provideClusterInfo') ? () => clusterInfo(cluster, ca) : undefined,
  };
}

async function clusterInfo(cluster: Mapping, ca: Buffer | FileValue | undefined): Promise<Record<string, unknown>> {
  const bytes = ca === undefined || Buffer.isBuffer(ca) ? ca : await ca.get();
  const extensions = cluster.list('extensions').map((value, index) => {
    return new Mapping(cluster.file, cluster.at(`extensions[${index}]`), value);
  });
  const config = extensions.find((entry) => entry.string('name') === EXEC_EXTENSION)?.raw('extension');
  return {
    server: cluster.required('server'),
    'tls-server-name': cluster.string('tls-server-name'),
    'insecure-skip-tls-verify': cluster.boolean('insecure-skip-tls-verify') || undefined,
    'certificate-authority-data': bytes?.toString('base64'),
    'proxy-url': cluster.string('proxy-url'),
    config,
  };
}

const SERVICE_ACCOUNT_DIR = '/var/run/secrets/kubernetes.io/serviceaccount';

/**
 * The connection of a Pod to its own cluster: the service account's token and CA, which the kubelet renews.
 * @returns `undefined` outside of a Pod (no `KUBERNETES_SERVICE_HOST`)
 */
export async function inClusterConnection(
  options: Pick<KubeconfigOptions, 'env' | 'cluster' | 'clock'> & { readonly dir?: string },
): Promise<Connection | undefined> {
  const host = options.env['KUBERNETES_SERVICE_HOST'];
  const port = options.env['KUBERNETES_SERVICE_PORT'];
  if (host === undefined || host === '' || port === undefined || port === '') return undefined;
  const dir = options.dir ?? SERVICE_ACCOUNT_DIR;
  const clock = options.clock ?? systemClock;
  return {
    cluster: options.cluster ?? 'local',
    server: new URL(`https://${host.includes(':') ? `[${host}]` : host}:${port}`),
    credentials: new RenewingCredentials({
      tokenFile: new FileValue(join(dir, 'token'), 'in-cluster token', clock),
      ca: new FileValue(join(dir, 'ca.crt'), 'in-cluster CA', clock),
    }),
    namespace: await namespaceIn(dir),
    origin: 'in-cluster',
  };
}

async function namespaceIn(dir: string): Promise<string> {
  try {
    const name = (await readFile(join(dir, 'namespace'), 'utf8')).trim();
    return name === '' ? 'default' : name;
  } catch (error) {
    // A projected volume may lack this file. The user can then set a namespace with a flag.
    if (codeOf(error) === 'ENOENT') return 'default';
    throw error;
  }
}
