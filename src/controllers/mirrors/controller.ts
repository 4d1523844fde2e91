/** The mirrors controller: watches SecretMirrors and their copies, with events, metrics and leases. */
import { COPY_LABEL } from '../common/excluded-metadata.ts';
import { currencyReader, labelReader } from '../../copy/cluster/watch/namespace-labels.ts';
import type { Controller } from '../../copy/engine/controller.ts';
import { resourceKey, type ResourceKey } from '../../copy/model/keys.ts';
import { CONFIG_MAP, type Kind, SECRET } from '../../copy/model/kind.ts';
import type { WatchGroup } from '../../kube/watch/watch-group.ts';
import type { WatchDiagnosis } from '../../copy/cluster/cluster.ts';
import { RightsDiagnosis } from '../common/rights-diagnosis.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { RuleLimits } from '../common/rules/rule-limits.ts';
import type { RuleEvent } from '../common/rules/rule-statuses.ts';
import { apiInstalled, CrdDiagnosis } from '../common/crd-diagnosis.ts';
import { NamespaceChanges } from '../common/namespaces/namespace-changes.ts';
import { PatternCache } from '../../runtime/text/name-patterns.ts';
import {
  MIRRORS_API_PATH,
  MIRRORS_API_VERSION,
  MIRRORS_EVENT_COMPONENT,
  MIRRORS_CONTROLLER,
  MIRRORS_CRD_ADVICE,
  SECRET_MIRROR_KIND,
  SECRET_MIRROR_PLURAL,
  SECRET_MIRRORS,
  type SecretMirror,
} from './api.ts';
import { MirrorMetrics } from './metrics.ts';
import { createMirrorStore, type MirrorStore } from './rules/mirror-store.ts';
import { MirrorVault } from './duties/mirror-vault.ts';
import { MirrorReconciler } from './duties/reconciler.ts';
import { MirrorRules } from './rules/rule-set.ts';
import { isReadOfCopies } from './rules/shape.ts';

export const mirrors: ControllerEntry = {
  name: 'mirrors',
  annotationReader: () => isReadOfCopies,
  create: (context) => new MirrorsController(context),
  reader: async () => (await import('./reader.ts')).mirrorsReader,
  programs: async () => [(await import('./migration.ts')).mirrorsMigration],
};

class MirrorsController implements Controller {
  readonly reconciler: MirrorReconciler;
  readonly #rules: MirrorRules;
  readonly #context: ControllerContext;
  readonly #mirrors: MirrorStore;
  readonly #changes: NamespaceChanges;
  readonly #watches: WatchGroup[] = [];
  /** Open from the first mirror of a ConfigMap on. */
  #configMaps: { readonly listed: Promise<unknown> } | undefined;

  constructor(context: ControllerContext) {
    this.#context = context;
    const { engine, cluster, clock, config, log, vault: backend } = context;
    const metrics = new MirrorMetrics(context.metrics.registry);
    const { regexMode } = config.mirrors;
    const secrets = cluster.store(SECRET);
    const patterns = new PatternCache(regexMode);
    const recordEvent = ({ metadata }: SecretMirror, event: RuleEvent): void => {
      const { name, namespace = '', uid } = metadata;
      const subject = { apiVersion: MIRRORS_API_VERSION, kind: SECRET_MIRROR_KIND, namespace, name, uid };
      context.recordEvent(MIRRORS_EVENT_COMPONENT, { subject, ...event }, { mirror: `${namespace}/${name}` });
    };
    this.#mirrors = createMirrorStore({
      onChange: (rule, initial) => {
        if (this.#mirrors.get(rule)?.spec?.source?.type === 'configmap') this.#watchConfigMaps();
        engine.expectSources(rule, this.#rules.secretsOf(rule));
        engine.enqueueRule(rule, initial ? 'low' : 'normal');
      },
      onSameVersion: (rule, before, after) => {
        if (this.reconciler.statusReported(rule, before, after)) engine.enqueueStatus(rule);
      },
    });
    const specOptions = {
      crossNamespaceAuth: config.mirrors.allowCrossNamespaceAuth,
      vaultAddresses: backend.addresses,
      vaultDefaults: config.vault.environment,
      served: cluster.served,
    };
    const vault = new MirrorVault({
      engine,
      backend,
      secrets,
      mirrors: this.#mirrors,
      metrics,
      recordEvent,
      specOptions,
      now: () => clock.now(),
      onRevokeFailed: (mirror, lease, error) => {
        log.warn('cannot revoke a Vault lease, it stays valid until it expires', { mirror, lease, error });
      },
    });
    const common = {
      mirrors: this.#mirrors,
      namespaces: cluster.namespaces,
      viewOf: (source: ResourceKey | undefined) => engine.backends.view(source),
      vault,
    };
    const limits = new RuleLimits({
      namespaces: () => cluster.namespaces.size,
      onChange: (rule) => engine.enqueueRule(rule, 'low'),
    });
    const rules = (this.#rules = new MirrorRules({
      ...common,
      patterns,
      secretKey: (namespace, name, kind = SECRET.kind) => resourceKey(cluster.name, kind, namespace, name),
      specOptions,
      limits,
      reach: context.reach,
    }));
    this.reconciler = new MirrorReconciler({
      ...common,
      api: cluster.api,
      rules,
      recordEvent,
      onSynced: (mirror, spec, namespaces) => {
        metrics.synced(mirror, spec.sourceType, spec.destinationType);
        if (spec.destinationType === 'namespaces') metrics.setNamespaces(mirror, spec.sourceType, namespaces);
      },
      onGone: (mirror) => {
        metrics.removeMirror(mirror);
      },
      synced: async () => {
        const watches = this.#watches.map(async (watch) => await watch.synced);
        await Promise.all([...watches, this.#configMaps?.listed]);
      },
      deletionTimeoutMs: config.deletionTimeoutMs,
      monotonic: () => clock.monotonic(),
      labelsKnown: labelReader(cluster.api, cluster.namespaces),
      isCurrent: currencyReader(cluster.api, cluster.namespaces),
      isNamespacePending: (...copy) => this.#changes.isPending(...copy),
      now: () => clock.now(),
    });
    this.#changes = new NamespaceChanges({ engine, clock, rules, limits });
  }

  /** Waits for the CRD. Returns at once if `--controllers` names this controller: then a missing CRD makes the process not ready. */
  async installed(signal: AbortSignal): Promise<void> {
    const { cluster, config, log } = this.#context;
    if (config.controllersNamed) return;
    const awaited = {
      api: cluster.api,
      path: MIRRORS_API_PATH,
      controller: mirrors.name,
      notInstalled: MIRRORS_CRD_ADVICE.missing,
      log,
    };
    await apiInstalled(awaited, signal);
  }

  open(): void {
    const { cluster, config } = this.#context;
    const { served } = cluster;
    cluster.watchNamespaces((...change) => this.#changes.add(...change));
    const mirrorWatch = cluster.watch(
      { collection: SECRET_MIRROR_PLURAL, path: `${MIRRORS_API_PATH}/${SECRET_MIRROR_PLURAL}`, metadataOnly: false },
      this.#mirrors.sink,
      new CrdDiagnosis({
        api: cluster.api,
        kind: SECRET_MIRRORS,
        advice: MIRRORS_CRD_ADVICE,
        isOptional: !config.controllersNamed,
        isAlone: config.controllers.length === 1,
        namespace: served?.[0],
      }),
      served,
    );
    this.#watches.push(mirrorWatch, this.#watchCopies(SECRET));
  }

  #watchCopies(kind: Kind, diagnosis?: WatchDiagnosis): WatchGroup {
    const { cluster } = this.#context;
    const target = {
      collection: kind.plural,
      scope: 'copies',
      path: `${kind.groupPath}/${kind.plural}`,
      labelSelector: `${COPY_LABEL}=${MIRRORS_CONTROLLER}`,
      metadataOnly: true,
      inPages: true,
    };
    return cluster.watch(target, cluster.store(kind).index.feed().sink, diagnosis, cluster.served);
  }

  /** Without a mirror of a ConfigMap, Keyferry needs no rights to ConfigMaps. */
  #watchConfigMaps(): void {
    if (this.#configMaps !== undefined) return;
    const diagnosis = new RightsDiagnosis(CONFIG_MAP.plural);
    // Without the rights, the mirrors of ConfigMaps report the refusal, and no other rule waits.
    const { synced } = this.#watchCopies(CONFIG_MAP, diagnosis);
    const listed = Promise.race([synced, diagnosis.found]);
    // Who waits for `listed` gets the error. Perhaps nobody waits when the process stops.
    listed.catch(() => undefined);
    this.#configMaps = { listed };
  }

  stop(): void {
    this.#changes.stop();
  }
}
