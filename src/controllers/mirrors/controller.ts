/** The controller of SecretMirrors: constructs its parts, opens its watches, and says what each event enqueues. */
import type { Controller } from '../../copy/engine/controller.ts';
import { CONFIG_MAP, SECRET } from '../../copy/model/kind.ts';
import type { WatchGroup } from '../../kube/watch/watch-group.ts';
import type { WatchSink } from '../../kube/watch/watcher.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { AwaitedWatches, watchCopies } from '../common/awaited-watches.ts';
import { apiInstalled } from '../common/custom-api.ts';
import { NamespaceChanges } from '../common/namespaces/namespace-changes.ts';
import { MIRRORS_CONTROLLER, MIRRORS_CRD_ADVICE, MIRRORS_EVENT_COMPONENT, SECRET_MIRROR } from './api.ts';
import { type MirrorParts, MirrorVault } from './duties/mirror-vault.ts';
import { MirrorReconciler } from './duties/reconciler.ts';
import { MirrorMetrics } from './metrics.ts';
import { createMirrorStore, type MirrorStore } from './rules/mirror-store.ts';
import { MirrorRules } from './rules/rule-set.ts';
import { isReadOfCopies } from './rules/shape.ts';

export const mirrors: ControllerEntry = {
  name: 'mirrors',
  annotationReader: () => isReadOfCopies,
  create,
};

function create(context: ControllerContext): Controller {
  const { engine, cluster, config, log, vault: backend } = context;
  const { api, namespaces } = cluster;
  const specOptions = {
    crossNamespaceAuth: config.mirrors.allowCrossNamespaceAuth,
    vaultAddresses: backend.addresses,
    vaultDefaults: config.vault.environment,
  };
  const mirrors: MirrorStore = createMirrorStore((rule, initial) => {
    // Called for each changed SecretMirror. Its source is announced first: at the start all sources share one list.
    if (mirrors.get(rule)?.spec?.source?.type === 'configmap') watchConfigMaps();
    engine.expectSources(rule, rules.sourcesOf(rule));
    // All label keys are registered before the first evaluation, so that one list brings the labels for all mirrors.
    namespaces.keep(rules.labelKeysOf(rule));
    engine.enqueueRule(rule, initial ? 'low' : 'normal');
  });
  const parts: MirrorParts = {
    mirrors,
    specOptions,
    metrics: new MirrorMetrics(context.metrics.registry),
    recordEvent: ({ metadata }, event) => {
      const { name, namespace = '', uid } = metadata;
      const { apiVersion, kind } = SECRET_MIRROR;
      const subject = { apiVersion, kind, namespace, name, uid };
      context.recordEvent(MIRRORS_EVENT_COMPONENT, { subject, ...event }, { mirror: `${namespace}/${name}` });
    },
  };
  const vault = new MirrorVault(context, parts);
  const rules = new MirrorRules(context.scope, {
    mirrors,
    specOptions,
    viewOf: (source) => engine.backends.view(source),
    vault,
  });
  const changes = new NamespaceChanges(context, rules);
  const watches = new AwaitedWatches();
  let hasConfigMaps = false;
  /** Opens the watch of copied ConfigMaps for the first mirror of a ConfigMap: others need no such permission. */
  const watchConfigMaps = (): void => {
    if (!hasConfigMaps) watches.add(watchCopies(cluster, CONFIG_MAP, 'copies', MIRRORS_CONTROLLER, true));
    hasConfigMaps = true;
  };
  const reconciler = new MirrorReconciler(context, {
    ...parts,
    rules,
    vault,
    watches,
    isOutdated: changes.isOutdated,
  });
  return {
    reconciler,
    /** Waits for the CRD; not if `--controllers` names this controller: then the process is not ready without it. */
    installed: async (signal) => {
      if (config.controllersNamed) return;
      const { missing: notInstalled } = MIRRORS_CRD_ADVICE;
      await apiInstalled(
        { api, path: SECRET_MIRROR.groupPath, controller: MIRRORS_CONTROLLER, notInstalled, log },
        signal,
      );
    },
    open: () => {
      cluster.watchNamespaces(changes.add);
      watches.add(watchMirrors(context, reconciler.sink), watchCopies(cluster, SECRET, 'copies', MIRRORS_CONTROLLER));
    },
    stop: () => changes.stop(),
  };
}

function watchMirrors({ cluster, config }: ControllerContext, sink: WatchSink): WatchGroup {
  const custom = {
    advice: MIRRORS_CRD_ADVICE.watch,
    isOptional: !config.controllersNamed,
    isAwaited: config.controllers.length === 1,
  };
  const path = `${SECRET_MIRROR.groupPath}/${SECRET_MIRROR.plural}`;
  return cluster.watch(
    { collection: SECRET_MIRROR.plural, path, metadataOnly: false },
    sink,
    { custom },
    cluster.served,
  );
}
