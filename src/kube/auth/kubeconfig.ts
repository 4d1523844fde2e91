/**
 * Makes a `Connection` from a kubeconfig: `--kubeconfig`, else the list in `$KUBECONFIG`, else `~/.kube/config`, else the Pod's
 * own service account.
 *
 * A kubeconfig that kubectl refuses is refused when it is read, and not with the first call. Files that it names (tokens,
 * certificates) and plugins are read with the first call, and renewed from then on.
 */
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { type Clock, systemClock } from '../../runtime/clock.ts';
import type { Connection } from '../connection.ts';
import { RenewingCredentials } from './credentials.ts';
import { inClusterConnection } from './in-cluster.ts';
import { Fields, KubeconfigError } from './kubeconfig-fields.ts';
import { bytesOrFile } from './kubeconfig-files.ts';
import { type Kubeconfig, readKubeconfigs } from './kubeconfig-merge.ts';
import { type Environment, userParts } from './kubeconfig-user.ts';

export interface KubeconfigOptions {
  /** `--kubeconfig`: one file, which must exist. */
  readonly path?: string | undefined;
  /** `--context`; default is the file's `current-context`. */
  readonly context?: string | undefined;
  /** `KUBECONFIG`, `HOME`, `KUBERNETES_SERVICE_HOST`, … and the environment of exec plugins. */
  readonly env: Environment;
  /** The cluster's name in logs and metrics. Default `local`. */
  readonly cluster?: string;
  readonly clock?: Clock;
}

/**
 * Finds and reads the configuration.
 * @throws KubeconfigError naming file and field, or all places where nothing was found
 */
export async function loadKubeconfig(options: KubeconfigOptions): Promise<Connection> {
  const { env, path } = options;
  if (path !== undefined && path !== '') {
    return connectionOf(await readKubeconfigs([resolve(path)], false), options);
  }
  const list = env['KUBECONFIG'] ?? '';
  if (list !== '') {
    const paths = list.split(delimiter).filter((item) => item !== '');
    const config = await readKubeconfigs(
      paths.map((item) => resolve(item)),
      true,
    );
    if (config.files.length === 0) throw new KubeconfigError('$KUBECONFIG', `no such file: ${list}`);
    return connectionOf(config, options);
  }
  const home = join(env['HOME'] ?? homedir(), '.kube', 'config');
  if (existsSync(home)) return connectionOf(await readKubeconfigs([home], false), options);
  const inCluster = await inClusterConnection(options);
  if (inCluster === undefined) {
    throw new KubeconfigError(
      'no cluster',
      `there is no --kubeconfig, $KUBECONFIG is not set, ${home} does not exist, and this process does not run in a Pod (KUBERNETES_SERVICE_HOST is not set)`,
    );
  }
  if (options.context !== undefined && options.context !== '') {
    throw new KubeconfigError('--context', `${JSON.stringify(options.context)} needs a kubeconfig`);
  }
  return inCluster;
}

/**
 * The connection of one context.
 * @throws KubeconfigError naming file and field
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
  const user = context.has('user') ? lookUp(config.users, context, 'user') : new Fields(context.file, 'users', {});
  const clock = options.clock ?? systemClock;
  const proxy = proxyOf(cluster);
  const ca = bytesOrFile(cluster, 'certificate-authority', clock);
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

function lookUp(entries: ReadonlyMap<string, Fields>, context: Fields, name: 'cluster' | 'user'): Fields {
  const wanted = context.required(name);
  const found = entries.get(wanted);
  if (found === undefined) throw context.error(name, `no such ${name} ${JSON.stringify(wanted)}`);
  return found;
}

function serverOf(cluster: Fields, usesTls: boolean): URL {
  const text = cluster.required('server');
  // As kubectl reads a server without a scheme.
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

function proxyOf(cluster: Fields): URL | undefined {
  const text = cluster.string('proxy-url');
  if (text === undefined) return undefined;
  const proxy = URL.parse(text);
  // The value may hold a password.
  if (proxy === null) throw cluster.error('proxy-url', 'is not a URL');
  if (proxy.protocol === 'http:' || proxy.protocol === 'https:') return proxy;
  throw cluster.error('proxy-url', `${proxy.protocol}// is not supported, only http and https proxies are`);
}
