/** Runs the operator: connects, serves metrics and probes, opens the watches, leads if elected, and stops in order. */
import { readFile } from 'node:fs/promises';
import type { Config } from '../config/config.ts';
import { limitsInForce } from '../config/flags/limit-flags.ts';
import { type FollowedKubeconfigOptions, followKubeconfig } from '../kube/auth/followed-kubeconfig.ts';
import { loadKubeconfig } from '../kube/auth/kubeconfig.ts';
import { parseKubeconfig, readKubeconfig } from '../kube/auth/kubeconfig-file.ts';
import type { KubeApi } from '../kube/api.ts';
import type { Connection } from '../kube/connection.ts';
import { isForbidden, isNotFound } from '../kube/errors.ts';
import { HttpKubeApi, type HttpKubeApiOptions } from '../kube/http.ts';
import { LeaderElector } from '../kube/leader-election/elector.ts';
import { type Checks, isOk, metricsRoutes, probeRoutes } from '../observe/routes.ts';
import { errorFields } from '../observe/error-fields.ts';
import { createLog, type Log } from '../observe/log.ts';
import { createMetrics, type Metrics } from '../observe/metrics/metrics.ts';
import { StatusServer } from '../observe/status-server.ts';
import { anySignal } from '../runtime/abort.ts';
import { Operator } from './operator.ts';
import { onStopSignal } from './stop-signals.ts';
import { VERSION } from '../config/version.ts';

/** The process exits within this time after a signal, ms. */
const STOP_LIMIT_MS = 4500;

/** After an etcd restore, the caches are wrong. The process exits, and a new process starts with empty caches. */
class RollbackError extends Error {
  override readonly name = 'RollbackError';

  constructor(detail: string) {
    super(`the API server returned an older state than before (${detail}), as after an etcd restore`);
  }
}

/**
 * Runs until `SIGTERM`, `SIGINT` or `SIGHUP`.
 * @returns the exit code: 0 after a signal, else 1
 */
export async function run(config: Config, env: NodeJS.ProcessEnv): Promise<number> {
  const log = createLog({
    level: config.logLevel,
    format: config.logFormat ?? (process.stderr.isTTY ? 'text' : 'json'),
  });
  const stop = new AbortController();
  const onSignal = (signal: NodeJS.Signals): void => {
    log.info('stopping', { signal });
    stop.abort(new Error(`stopped by ${signal}`));
    setTimeout(() => {
      log.error('did not stop in time');
      process.exit(1);
    }, STOP_LIMIT_MS).unref();
  };
  // Not left to Node, which would print all fields of the error: one may be an HTTP body with Secret values.
  const onCrash = (error: unknown): void => {
    log.error('crashed', { error });
    process.stderr.write(`${errorFields(error, true).stack ?? ''}\n`);
    process.exit(1);
  };
  // Without a handler, Node would exit at once and not release the Lease.
  const ignoreSignals = onStopSignal(onSignal);
  process.once('uncaughtException', onCrash);
  log.info('starting', {
    version: VERSION,
    node: process.versions.node,
    pid: process.pid,
    controller: config.controllers.join(','),
    limits: limitsInForce(config.limits),
  });
  for (const note of config.notes) log.warn(note);
  try {
    await runUntil(config, env, log, stop.signal);
    return 0;
  } catch (error) {
    if (stop.signal.aborted) return 0;
    log.error('exited with error', { error });
    return 1;
  } finally {
    ignoreSignals();
    process.off('uncaughtException', onCrash);
  }
}

async function runUntil(config: Config, env: NodeJS.ProcessEnv, log: Log, signal: AbortSignal): Promise<void> {
  const metrics = createMetrics(VERSION);
  const connection = await loadKubeconfig({ path: config.kubeconfig, context: config.context, env });
  const other = await managementConnection(config, env, log);
  const { leaderElect } = config;
  // The Lease has a client of its own: the Retry-After of another request must not delay its renewal.
  await using leaseApi = new HttpKubeApi(connection, { maxSockets: 2, maxWaitMs: leaderElect.retryPeriodMs });
  const namespace = leaderElect.namespace ?? connection.namespace;
  const elector = leaderElect.enabled ? newElector({ ...leaderElect, namespace }, leaseApi, log) : undefined;
  // The only Lease is in the home cluster. It fences the writes to both clusters. `isLeader` reads the clock: after a
  // pause of the process (SIGSTOP), an answer can arrive before the overdue timers fire.
  const fence = elector && (() => (elector.isLeader ? undefined : 'another replica may be leading'));
  await using api = openApi(connection, config, metrics, fence);
  await using management = other && openApi(other, config, metrics, fence);
  await using opened = new AsyncDisposableStack();
  const others = (await otherConnections(config, env, log)).map(({ connection: one, context, namespace }) => {
    return { context, namespace, api: opened.use(openApi(one, config, metrics, fence)) };
  });
  const rollback = new AbortController();
  const onRollback = (detail: string): void => {
    rollback.abort(new RollbackError(detail));
  };
  const operator = new Operator({
    config,
    api,
    namespace: connection.namespace,
    management,
    others,
    log,
    metrics,
    onRollback,
  });
  const ended = new AbortController();
  using until = anySignal(signal, rollback.signal, ended.signal);
  await using server = new StatusServer(log);
  const lease: Checks = () => {
    const message = adviceFor(elector?.failure, namespace);
    return message === undefined ? [] : [{ name: 'lease', ok: false, message }];
  };
  try {
    await listen(server, config, metrics, operator, lease);
    await operator.open(until.signal);
    if (elector === undefined) await workUntil(operator, until.signal);
    else {
      const onStartedLeading = async (leading: AbortSignal): Promise<void> => {
        try {
          await workUntil(operator, leading);
        } finally {
          // The writes must end before the Lease is released.
          await operator.stop();
        }
      };
      await elector.run({ signal: until.signal, onStartedLeading });
    }
  } finally {
    // A controller may still wait for its API to be installed, which would keep the process alive.
    ended.abort(new Error('the operator has stopped'));
    await operator.stop();
    log.info('stopped');
  }
  rollback.signal.throwIfAborted();
}

interface OtherConnection {
  readonly context: string;
  readonly namespace: string | undefined;
  readonly connection: Connection;
}

/** The connections to the clusters of --config-syncer-kubeconfig-file. @throws KubeconfigError, with flag and file */
async function otherConnections(
  { configSyncer }: Config,
  env: NodeJS.ProcessEnv,
  log: Log,
): Promise<readonly OtherConnection[]> {
  const { kubeconfigFile: path } = configSyncer;
  if (path === undefined) return [];
  const flag = '--kubeconfig-file';
  const { contexts } = await parseKubeconfig(await readKubeconfig(path, `${flag}: ${path}`), path);
  return await Promise.all(
    Array.from(contexts, async ([context, mapping]) => {
      // A context may have any name, but in the key of an object a colon ends the name of the cluster.
      const named = { cluster: `context-${encodeURIComponent(context)}`, flag, context };
      const connection = await follow(path, named, env, log);
      return { context, namespace: mapping.string('namespace'), connection };
    }),
  );
}

/** The connection to the management cluster; `undefined`: there is none. @throws KubeconfigError, with flag and file */
async function managementConnection(
  { management }: Config,
  env: NodeJS.ProcessEnv,
  log: Log,
): Promise<Connection | undefined> {
  if (management === undefined) return undefined;
  const { kubeconfig, flag } = management;
  return await follow(kubeconfig, { flag, cluster: 'management' }, env, log);
}

async function follow(
  path: string,
  named: Pick<FollowedKubeconfigOptions, 'cluster' | 'context' | 'flag'>,
  env: NodeJS.ProcessEnv,
  log: Log,
): Promise<Connection> {
  const { flag } = named;
  return await followKubeconfig({
    ...named,
    path,
    env,
    onReplaced: () => log.info('the kubeconfig has changed, using the new connection', { flag, file: path }),
    onProblem: (error) => {
      log.warn('cannot use the changed kubeconfig, keeping the connection', { flag, file: path, error });
    },
  });
}

function openApi(
  connection: Connection,
  { kube }: Config,
  metrics: Metrics,
  fence: HttpKubeApiOptions['fence'],
): HttpKubeApi {
  // Sockets for the longest runs of all queues (`runtime/queue/turns.ts`), so that hanging calls cannot take them all.
  const maxSockets = 4 * Math.max(8, kube.maxConcurrentWrites);
  const { cluster } = connection;
  return new HttpKubeApi(connection, {
    maxSockets,
    fence,
    onRequest: ({ method, status, durationMs }) => {
      metrics.kubeRequests.inc({ cluster, method, code: status === undefined ? 'error' : String(status) });
      metrics.kubeRequestSeconds.observe({ cluster, method }, durationMs / 1000);
    },
  });
}

async function workUntil(operator: Operator, signal: AbortSignal): Promise<void> {
  await operator.work(signal);
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}

/** Advice if the Lease cannot be read or written. The usual mistake: its permissions are in another namespace. */
function adviceFor(failure: unknown, namespace: string): string | undefined {
  if (!isForbidden(failure) && !isNotFound(failure)) return undefined;
  return `nothing is copied until the Lease can be read and written: namespace ${namespace} must exist, and Keyferry needs permission to get, create and update Leases in it; to use another namespace, set --leader-elect-namespace`;
}

function newElector(config: Config['leaderElect'] & { namespace: string }, api: KubeApi, log: Log): LeaderElector {
  const { namespace } = config;
  return new LeaderElector({
    ...config,
    api,
    name: config.leaseName,
    retryMs: config.retryPeriodMs,
    onError: (error) => {
      log.warn('cannot read or write the Lease, retrying', { error, advice: adviceFor(error, namespace) });
    },
    onLeader: (leader) => {
      if (leader === undefined) log.info('released leadership');
      else log.info('new leader', { leader });
    },
  });
}

/** @param lease fails if this process cannot read or write its Lease, so that it copies nothing */
async function listen(
  server: StatusServer,
  config: Config,
  metrics: Metrics,
  operator: Operator,
  lease: Checks,
): Promise<void> {
  const liveness: Checks = () => [{ name: 'workers', ...operator.manager.liveness() }];
  const readiness: Checks = () => [
    ...lease(),
    ...Array.from(operator.manager.readiness(), (result, index) => ({ name: `watch-${index}`, ...result })),
    ...operator.manager.otherWatches.map(({ backend, ...result }, index) => {
      return { name: `${backend}/watch-${index}`, ...result, isInformational: true };
    }),
  ];
  const [all, forMetrics, forProbes] = [config.statusAddress, config.metricsAddress, config.healthAddress];
  const { healthz, readyz } = operator.originalProbes;
  const probes = {
    ...probeRoutes(liveness, readiness),
    ...(healthz === undefined ? {} : { '/healthz': () => healthz(failed(liveness)) }),
    ...(readyz === undefined ? {} : { '/readyz': () => readyz(isOk(readiness)) }),
  };
  if (all !== undefined) await server.listen({ ...all, routes: { ...metricsRoutes(metrics), ...probes } });
  if (forMetrics !== undefined) await server.listen({ ...forMetrics, routes: metricsRoutes(metrics) });
  if (forProbes !== undefined) await server.listen({ ...forProbes, routes: probes });
  if (config.secureAddress === undefined) return;
  const { certificateFile, keyFile, ...secure } = config.secureAddress;
  const [cert, key] = [await readFile(certificateFile), await readFile(keyFile)];
  await server.listen({ ...secure, routes: probes, certificate: { cert, key } });
}

function failed(checks: Checks): string[] {
  return checks()
    .filter(({ ok }) => !ok)
    .map(({ name, message }) => (message === undefined ? name : `${name}: ${message}`));
}
