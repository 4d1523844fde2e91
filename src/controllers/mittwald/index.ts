/** The mittwald controller: its rules are objects with annotations of mittwald/kubernetes-replicator. */
import { because } from '../../copy/model/cause.ts';
import type { OwnWork } from '../../copy/engine/controller.ts';
import { warning } from '../../copy/engine/life/warnings.ts';
import type { WatchSink } from '../../kube/watch/watcher.ts';
import { jsonReply, textReply } from '../../observe/routes.ts';
import { annotatedController, watchedObjects } from '../common/annotated/controller.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { MittwaldRules } from './rules.ts';
import { isReadAnnotation, isRule } from './words.ts';

const RBAC = 'rbac.authorization.k8s.io/v1';
/**
 * The original copies these kinds, Keyferry never does: a user who copies permissions into a namespace can take it over. No
 * part of the engine knows these kinds, so nothing can write them.
 */
const UNSUPPORTED = [
  { flag: 'replicateRoles', kind: 'Role', apiVersion: RBAC, path: `/apis/${RBAC}/roles` },
  { flag: 'replicateRoleBindings', kind: 'RoleBinding', apiVersion: RBAC, path: `/apis/${RBAC}/rolebindings` },
  { flag: 'replicateServiceAccounts', kind: 'ServiceAccount', apiVersion: 'v1', path: '/api/v1/serviceaccounts' },
] as const;

export const mittwald: ControllerEntry = {
  name: 'mittwald',
  component: 'kubernetes-replicator',
  annotationReader: () => isReadAnnotation,
  create: (context) => {
    const grace = context.config.replicator.sourceGraceMs;
    const rules = new MittwaldRules(context.scope, watchedObjects(context.cluster), grace);
    return { ...annotatedController(context, rules), work: unsupportedWatches(context) };
  },
  // As in the original, the process is alive while it answers. A check that is stuck must still restart it.
  healthz: (_context, stuck) => textReply(stuck.length === 0 ? 200 : 503, stuck.join('\n')),
  readyz: ({ config }, isReady) => {
    const { replicateSecrets, replicateConfigMaps } = config.mittwald;
    const components = [
      ...(replicateSecrets ? ['*secret.Replicator'] : []),
      ...(replicateConfigMaps ? ['*configmap.Replicator'] : []),
    ];
    return jsonReply(isReady ? 200 : 503, { notReady: isReady ? [] : components });
  },
};

/** Watches the kinds that are not copied, where the permissions allow it, and warns of each annotated object once. */
function unsupportedWatches({ cluster, config, recordEvent }: ControllerContext): OwnWork {
  const sinkOf = ({ kind, apiVersion }: (typeof UNSUPPORTED)[number]): WatchSink => {
    const told = new Map<string, string>();
    return {
      upsert: ({ metadata: { namespace = '', name, uid, annotations = {} } }) => {
        const key = `${namespace}/${name}`;
        if (!isRule(annotations)) {
          told.delete(key);
          return false;
        }
        if (told.get(key) !== uid) {
          told.set(key, uid);
          const event = warning(because('Unsupported', `Keyferry does not copy ${kind}s: its annotations are ignored`));
          recordEvent({ ...event, subject: { apiVersion, kind, namespace, name, uid } });
        }
        return true;
      },
      remove: ({ metadata: { namespace = '', name } }) => void told.delete(`${namespace}/${name}`),
      prune: (keys, _version, namespace) => {
        for (const key of told.keys()) {
          if (!keys.has(key) && (namespace === undefined || key.startsWith(`${namespace}/`))) told.delete(key);
        }
      },
    };
  };
  return {
    start: () => {
      for (const one of UNSUPPORTED.filter(({ flag }) => config.mittwald[flag])) {
        const collection = one.path.slice(one.path.lastIndexOf('/') + 1);
        const target = { collection, path: one.path, metadataOnly: true };
        cluster.watch(target, sinkOf(one), { neededBy: 'nobody' }, cluster.served);
      }
    },
    drain: async () => {
      // The cluster closes the watches.
    },
    queues: [],
  };
}
