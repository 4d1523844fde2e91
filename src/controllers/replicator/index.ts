/** The replicator controller: its kinds and annotations, and the `/healthz` of the original. */
import type { Controller } from '../../copy/engine/controller.ts';
import { jsonReply, type Reply } from '../../observe/routes.ts';
import { annotatedController, watchedObjects } from '../common/annotated/controller.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { REPLICATED_KINDS, ReplicatorRules } from './rules.ts';
import { annotationNames, isReplicatorAnnotation } from './words.ts';

export const replicator: ControllerEntry = {
  name: 'replicator',
  component: 'k8s-replicator',
  get kinds() {
    return Object.values(REPLICATED_KINDS);
  },
  annotationReader: (config) => {
    const names = annotationNames(config.replicator.annotationsPrefix);
    return (annotation) => isReplicatorAnnotation(names, annotation);
  },
  create,
  // A kind is ready when its objects and the namespaces were listed once, or when all watches of the cluster were.
  healthz: ({ cluster, config }, stuck) => {
    const synced = new Set(cluster.watches.filter((watch) => watch.synced).map(({ name }) => name));
    const unsynced = config.replicator.runReplicators.filter((kind) => {
      return !cluster.isListed && (!synced.has('namespaces') || !synced.has(`${kind}s/all`));
    });
    return replicatorHealth(unsynced, stuck);
  },
};

/** The name in the original's `/healthz` for both replicators: one Go type serves Secrets and ConfigMaps. */
const COMPONENT = '*replicate.ObjectReplicator';

/**
 * The answer to `/healthz` in the form of the original.
 * @param unsynced the kinds whose first list is not complete
 * @param stuck names of failing liveness checks. They are in a field that the original does not have
 */
export function replicatorHealth(unsynced: readonly string[], stuck: readonly string[] = []): Reply {
  const ok = unsynced.length === 0 && stuck.length === 0;
  return jsonReply(ok ? 200 : 503, {
    notReady: unsynced.map(() => COMPONENT),
    ...(stuck.length === 0 ? {} : { stuck }),
  });
}

function create(context: ControllerContext): Controller {
  const { createWithLabels, sourceGraceMs } = context.config.replicator;
  const options = { createWithLabels, graceMs: sourceGraceMs };
  return annotatedController(context, new ReplicatorRules(context.scope, watchedObjects(context.cluster), options));
}
