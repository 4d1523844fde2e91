/** Makes the backend of one cluster, and connects it with log and metrics. */
import type { Config } from '../config/config.ts';
import { ClusterBackend } from '../copy/cluster/backend.ts';
import type { ClusterOptions, WatchTrouble } from '../copy/cluster/cluster.ts';
import type { Manager } from '../copy/engine/manager.ts';
import { parseResourceKey } from '../copy/model/keys.ts';
import type { Kind } from '../copy/model/kind.ts';
import type { KubeApi } from '../kube/api.ts';
import { ApiError } from '../kube/errors.ts';
import type { Log } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics/metrics.ts';
import { systemClock } from '../runtime/clock.ts';
import { readAnnotations } from './read-annotations.ts';

export interface ClusterBackendContext {
  readonly api: KubeApi;
  /** This process runs in the cluster. */
  readonly isHome: boolean;
  readonly manager: Manager;
  readonly kinds: readonly Kind[];
  readonly config: Config;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly onRollback: ClusterOptions['onRollback'];
}

export function clusterBackend(context: ClusterBackendContext): ClusterBackend {
  const { api, isHome, manager, kinds, config, log, metrics, onRollback } = context;
  return new ClusterBackend({
    api,
    isHome,
    served: isHome && config.kube.namespaces.length > 0 ? config.kube.namespaces : undefined,
    engine: manager.engine,
    events: manager,
    kinds,
    concurrency: config.kube.maxConcurrentWrites,
    clock: systemClock,
    idleLimitMs: config.kube.watchIdleMs,
    isRead: readAnnotations(config),
    onRollback,
    onTrouble: (trouble) => {
      watchFailed(context, trouble);
    },
    onWrite: (target, verb, ok, claim) => {
      const { cluster, kind, namespace, name } = parseResourceKey(target);
      metrics.writes.inc({ cluster, kind, verb, result: ok ? 'ok' : 'error' });
      if (!ok) return;
      const where = isHome ? {} : { cluster };
      const rule = claim === undefined ? {} : { rule: claim.owner.key };
      log.info(`${verb}d`, { ...where, kind, namespace, name, ...rule });
    },
  });
}

function watchFailed({ api: { cluster }, log, metrics }: ClusterBackendContext, trouble: WatchTrouble): void {
  const { watch, error, retryInMs, advice, isKnown } = trouble;
  const reason = error instanceof ApiError ? error.reason : error instanceof Error ? error.name : 'unknown';
  // Without the name of a single object: users choose it, and a series is never removed.
  const [kind = watch] = watch.split('/', 1);
  metrics.watchRestarts.inc({ cluster, kind, reason });
  const fields = { cluster, watch, error, retryInMs };
  if (isKnown) log.debug('watch failed, retrying', fields);
  else log.warn('watch failed, retrying', { ...fields, ...(advice === undefined ? {} : { advice }) });
}
