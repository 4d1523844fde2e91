/** The mirrors controller: its parts, its watches, and what each of them wakes. */
import { currencyReader, labelReader } from '../../copy/cluster/watch/namespace-labels.ts';
import type { Controller } from '../../copy/engine/controller.ts';
import type { SourceView } from '../../copy/model/claim.ts';
import { resourceKey, type ResourceKey } from '../../copy/model/keys.ts';
import { SECRET } from '../../copy/model/kind.ts';
import type { WatchGroup } from '../../kube/watch/watch-group.ts';
import type { WatchSink } from '../../kube/watch/watcher.ts';
import { PatternCache } from '../../runtime/text/name-patterns.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { apiInstalled, CrdDiagnosis } from '../common/crd-diagnosis.ts';
import { NamespaceChanges } from '../common/namespaces/namespace-changes.ts';
import type { RuleEvent } from '../common/rules/rule-statuses.ts';
import {
  MIRRORS_API_PATH,
  MIRRORS_API_VERSION,
  MIRRORS_CRD_ADVICE,
  MIRRORS_EVENT_COMPONENT,
  SECRET_MIRROR_KIND,
  SECRET_MIRROR_PLURAL,
  SECRET_MIRRORS,
  type SecretMirror,
} from './api.ts';
import { MirrorVault } from './duties/mirror-vault.ts';
import { MirrorReconciler } from './duties/reconciler.ts';
import { MirrorMetrics } from './metrics.ts';
import { createMirrorStore, type MirrorStore } from './rules/mirror-store.ts';
import { MirrorRules } from './rules/rule-set.ts';
import { isReadOfCopies } from './rules/shape.ts';
import { WatchedCopies } from './watched-copies.ts';

export const mirrors: ControllerEntry = {
  name: 'mirrors',
  annotationReader: () => isReadOfCopies,
  create,
  reader: async () => (await import('./reader.ts')).mirrorsReader,
  programs: async () => [(await import('./migration.ts')).mirrorsMigration],
};

function create(context: ControllerContext): Controller {
  const { engine, cluster, clock, config, log, vault: backend } = context;
  const { api, namespaces, served } = cluster;
  const metrics = new MirrorMetrics(context.metrics.registry);
  const now = (): number => clock.now();
  const recordEvent = ({ metadata }: SecretMirror, event: RuleEvent): void => {
    const { name, namespace = '', uid } = metadata;
    const subject = { apiVersion: MIRRORS_API_VERSION, kind: SECRET_MIRROR_KIND, namespace, name, uid };
    context.recordEvent(MIRRORS_EVENT_COMPONENT, { subject, ...event }, { mirror: `${namespace}/${name}` });
  };
  const specOptions = {
    crossNamespaceAuth: config.mirrors.allowCrossNamespaceAuth,
    vaultAddresses: backend.addresses,
    vaultDefaults: config.vault.environment,
    served,
  };
  const store: MirrorStore = createMirrorStore({
    // A SecretMirror wakes itself. At the start its source is listed with the other objects.
    onChange: (rule, initial) => {
      if (store.get(rule)?.spec?.source?.type === 'configmap') copies.watchConfigMaps();
      engine.expectSources(rule, rules.secretsOf(rule));
      engine.enqueueRule(rule, initial ? 'low' : 'normal');
    },
    onSameVersion: (rule, before, after) => {
      if (reconciler.statusReported(rule, before, after)) engine.enqueueStatus(rule);
    },
  });
  const vault = new MirrorVault({
    engine,
    backend,
    secrets: cluster.store(SECRET),
    mirrors: store,
    metrics,
    recordEvent,
    specOptions,
    now,
    onRevokeFailed: (mirror, lease, error) => {
      log.warn('cannot revoke a Vault lease, it stays valid until it expires', { mirror, lease, error });
    },
  });
  const viewOf = (source: ResourceKey | undefined): SourceView => engine.backends.view(source);
  const common = { mirrors: store, namespaces, viewOf, vault };
  const rules = new MirrorRules({
    ...common,
    patterns: new PatternCache(config.mirrors.regexMode),
    secretKey: (namespace, name, kind = SECRET.kind) => resourceKey(cluster.name, kind, namespace, name),
    specOptions,
    onLimitChange: (rule) => engine.enqueueRule(rule, 'low'),
    reach: context.reach,
  });
  const isCurrent = currencyReader(api, namespaces, served);
  const changes = new NamespaceChanges({ engine, clock, rules, namespaces, isCurrent });
  const copies = new WatchedCopies(cluster);
  const reconciler = new MirrorReconciler({
    ...common,
    api,
    rules,
    recordEvent,
    onSynced: (mirror, spec, count) => {
      metrics.synced(mirror, spec.sourceType, spec.destinationType);
      if (spec.destinationType === 'namespaces') metrics.setNamespaces(mirror, spec.sourceType, count);
    },
    onGone: (mirror) => metrics.removeMirror(mirror),
    synced: async () => await copies.listed(),
    deletionTimeoutMs: config.deletionTimeoutMs,
    monotonic: () => clock.monotonic(),
    labelsKnown: labelReader(api, namespaces),
    isOutdated: changes.isOutdated,
    now,
  });
  return {
    reconciler,
    /** Waits for the CRD. Returns at once if `--controllers` names this controller: then a missing CRD makes the process not ready. */
    installed: async (signal) => {
      if (config.controllersNamed) return;
      const { missing: notInstalled } = MIRRORS_CRD_ADVICE;
      await apiInstalled({ api, path: MIRRORS_API_PATH, controller: mirrors.name, notInstalled, log }, signal);
    },
    open: () => {
      cluster.watchNamespaces(changes.add);
      copies.open(watchMirrors(context, store.sink));
    },
    stop: () => changes.stop(),
  };
}

function watchMirrors({ cluster, config }: ControllerContext, sink: WatchSink): WatchGroup {
  const { api, served } = cluster;
  const diagnosis = new CrdDiagnosis({
    api,
    kind: SECRET_MIRRORS,
    advice: MIRRORS_CRD_ADVICE,
    isOptional: !config.controllersNamed,
    isAlone: config.controllers.length === 1,
    get namespace() {
      return served?.names[0];
    },
  });
  const path = `${MIRRORS_API_PATH}/${SECRET_MIRROR_PLURAL}`;
  return cluster.watch({ collection: SECRET_MIRROR_PLURAL, path, metadataOnly: false }, sink, { diagnosis }, served);
}
