/** Makes the backend of one cluster, and connects it with log and metrics. */
import type { Config } from '../config/config.ts';
import { ClusterBackend } from '../copy/cluster/backend.ts';
import type { ClusterOptions, WatchTrouble } from '../copy/cluster/cluster.ts';
import type { Engine } from '../copy/engine/engine.ts';
import { parseResourceKey } from '../copy/model/keys.ts';
import type { Kind } from '../copy/model/kind.ts';
import type { KubeApi } from '../kube/api.ts';
import { ApiError } from '../kube/errors.ts';
import type { Log } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics/metrics.ts';
import { systemClock } from '../runtime/clock.ts';

import { CONTROLLER_LIST } from '../controllers/list.ts';
import type { IsRead } from '../copy/model/observed.ts';
import { OVERWRITTEN_MARK } from '../copy/plan/plan-write.ts';
import { PLACE_ANNOTATION } from '../copy/plan/marks.ts';
export interface ClusterBackendContext {
  readonly api: KubeApi;
  /** This process runs in the cluster. */
  readonly isHome: boolean;
  readonly engine: Engine;
  readonly kinds: readonly Kind[];
  readonly config: Config;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly onRollback: ClusterOptions['onRollback'];
}

export function clusterBackend(context: ClusterBackendContext): ClusterBackend {
  const { api, isHome, engine, kinds, config, log, metrics, onRollback } = context;
  return new ClusterBackend({
    api,
    isHome,
    served: isHome && config.kube.namespaces.length > 0 ? config.kube.namespaces : undefined,
    engine,
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

/**
 * The annotations that this process keeps of objects at any length: those that a controller reads, whether it runs here or not: another process may have made the object. But a tenant may give any number of
 * objects such annotations, so a process that serves only tenants keeps those of its own controllers.
 */
export function readAnnotations(config: Config): IsRead {
  const running = CONTROLLER_LIST.filter(({ name }) => config.controllers.includes(name));
  const isForTenants = running.every(({ hasTenants }) => hasTenants === true);
  const readers = (isForTenants ? running : CONTROLLER_LIST).map((entry) => entry.annotationReader(config));
  return (annotation) => {
    if (annotation === PLACE_ANNOTATION || annotation === OVERWRITTEN_MARK) return true;
    for (const isRead of readers) {
      const read = isRead(annotation);
      if (read !== false) return read;
    }
    return false;
  };
}
