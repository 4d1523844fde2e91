/** The config-syncer controller: its rules are objects with annotations of config-syncer (kubed). */
import { isForbidden, isNotFound } from '../../kube/errors.ts';
import { orAborted } from '../../runtime/abort.ts';
import type { Controller } from '../../copy/engine/controller.ts';
import { awaitClusterUid } from '../../kube/cluster-identity.ts';
import { type Cause, sameCause } from '../../copy/model/cause.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import type { Cluster } from '../../copy/cluster/cluster.ts';
import { annotatedController, watchedObjects } from '../common/annotated/controller.ts';
import type { ControllerContext, ControllerEntry, OtherCluster } from '../common/context.ts';
import { watchCopies } from '../common/watch-copies.ts';
import type { Clusters } from './other-clusters.ts';
import { ConfigSyncerRules } from './rules.ts';
import { isReadAnnotation, isReplaced, notIdentified } from './words.ts';

export const configSyncer: ControllerEntry = {
  name: 'config-syncer',
  component: 'config-syncer',
  annotationReader: () => isReadAnnotation,
  create,
};

function create(context: ControllerContext): Controller {
  const { engine, cluster, others, log } = context;
  const uids = new Map<string, string | Cause>();
  const backends = new Map<string, string>();
  const clusters: Clusters = {
    others: new Map(
      others.map(({ context: name, namespace, cluster: { name: backend } }) => [name, { cluster: backend, namespace }]),
    ),
    uidOf: (name) => uids.get(name),
    backendOf: (uid) => backends.get(uid),
  };
  const rules = new ConfigSyncerRules(context.scope, watchedObjects(cluster), clusters);
  /** The rules that name other clusters, also those whose first evaluation still runs. */
  const far = new Set<RuleKey>();
  /** These rules are evaluated again. */
  const identified = ({ name }: Cluster, uid: string | Cause): void => {
    const before = uids.get(name);
    if (typeof before === 'object' && typeof uid === 'object' && sameCause(before, uid)) return;
    uids.set(name, uid);
    for (const rule of far) engine.enqueueRule(rule);
  };
  const identify = async (one: Cluster, signal: AbortSignal): Promise<string> => {
    return await awaitClusterUid(one.api, signal, (error) =>
      identified(one, notIdentified(one.name, isForbidden(error) || isNotFound(error))),
    );
  };
  /** A cluster is watched by one backend, and not if it is this cluster: else two would decide on one copy. */
  const openOthers = async (signal: AbortSignal): Promise<void> => {
    const home = await homeUid(cluster, signal);
    identified(cluster, home);
    const openOther = async ({ cluster: other }: OtherCluster): Promise<void> => {
      const uid = await identify(other, signal);
      if (uid !== home && !backends.has(uid)) {
        backends.set(uid, other.name);
        other.onReplaced = () => identified(other, isReplaced(other.name));
        for (const kind of rules.kinds) watchCopies(other, kind, 'copies', rules.name, 'some rules');
      }
      identified(other, uid);
    };
    await Promise.all(others.map(openOther));
  };
  const controller = annotatedController(context, rules);
  return {
    ...controller,
    open: (signal) => {
      if (others.length === 0) return controller.open(signal);
      engine.onObjects({
        objectChanged: (key) => {
          const rule = rules.ruleOf(key);
          if (rule === undefined) return;
          if (rules.isFar(rule)) far.add(rule);
          else far.delete(rule);
        },
      });
      const listed = controller.open(signal);
      openOthers(signal).catch((error: unknown) => {
        if (!signal.aborted) log.error('the other clusters cannot be opened', { error });
      });
      return listed;
    },
  };
}

/** The uid of this cluster. The watch of namespaces brings it, without a permission of its own. */
async function homeUid(cluster: Cluster, signal: AbortSignal): Promise<string> {
  if (cluster.served !== undefined) return await awaitClusterUid(cluster.api, signal, () => undefined);
  const found = new Promise<string>((resolve) => {
    cluster.watchNamespaces(() => {
      const uid = cluster.namespaces.uidOf('kube-system');
      if (uid !== undefined) resolve(uid);
    });
  });
  return await orAborted(found, signal, 'waiting for the namespace kube-system');
}
