/** The secret synchronizer: makes a SyncSecret of each labelled Secret in a tenant cluster. It reads no other Secrets. */
import type { Controller } from '../../copy/controller.ts';
import { SECRET } from '../../copy/model/kind.ts';
import type { KubeObject } from '../../kube/api.ts';
import type { Watcher } from '../../kube/watch/watcher.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { OWN_PREFIX } from '../common/excluded-metadata.ts';
import { RuleClient } from '../common/rule-client.ts';
import { RuleStore } from '../common/rule-store.ts';
import { MANAGED_BY_KUBELB, MANAGED_BY_LABEL } from './api.ts';
import { SYNC_SECRET } from './kind.ts';
import {
  type OfferedSecret,
  offeredSecret,
  offeredVersion,
  SYNCHRONIZER_CONTROLLER,
  SynchronizerReconciler,
} from './synchronizer-reconciler.ts';
import { watchSyncSecrets } from './watch.ts';

export const secretSynchronizer: ControllerEntry = {
  name: SYNCHRONIZER_CONTROLLER,
  kinds: [SYNC_SECRET],
  hasTenants: true,
  annotationReader: () => (annotation) => annotation.startsWith(OWN_PREFIX),
  create: (context) => new SecretSynchronizer(context),
};

/** The source component of events. */
const COMPONENT = 'kubelb-ccm';

class SecretSynchronizer implements Controller {
  readonly reconciler: SynchronizerReconciler;
  readonly #context: ControllerContext;
  readonly #secrets: RuleStore<OfferedSecret>;
  readonly #stop = new AbortController();
  readonly #watches: Watcher[] = [];

  constructor(context: ControllerContext) {
    this.#context = context;
    const { engine, cluster } = context;
    this.#secrets = new RuleStore({
      controller: SYNCHRONIZER_CONTROLLER,
      toRule: offeredSecret,
      versionOf: offeredVersion,
      onChange: (rule, initial) => engine.enqueueRule(rule, initial ? 'low' : 'normal'),
    });
    this.reconciler = new SynchronizerReconciler({
      cluster: cluster.api.cluster,
      secrets: this.#secrets,
      client: new RuleClient({ api: cluster.api, kind: SECRET, metadataOnly: true }),
      synced: async () => await Promise.all(this.#watches.map(async (watch) => await watch.synced)),
      onConflict: ({ metadata }, message) => {
        const { name, namespace = '', uid } = metadata;
        const subject = { apiVersion: 'v1', kind: SECRET.kind, namespace, name, uid };
        const event = { subject, type: 'Warning', reason: 'Conflict', message } as const;
        context.recordEvent(COMPONENT, event, { secret: `${namespace}/${name}` });
      },
    });
  }

  open(): void {
    const { cluster } = this.#context;
    const labelSelector = `${MANAGED_BY_LABEL}=${MANAGED_BY_KUBELB}`;
    const sink = {
      ...this.#secrets.sink,
      upsert: (object: KubeObject, initial: boolean) => {
        const isOffered = this.#secrets.sink.upsert(object, initial);
        if (!isOffered) this.#release(object);
        return isOffered;
      },
      remove: (object: KubeObject) => {
        this.#secrets.sink.remove(object);
        this.#release(object);
      },
    };
    this.#watches.push(
      cluster.watchContents(SECRET, { labelSelector, isSource: true }, sink),
      watchSyncSecrets(this.#context),
    );
  }

  stop(): void {
    this.#stop.abort();
  }

  /** A Secret that is no longer offered, or is being deleted, would hang in its deletion if it kept KubeLB's finalizer. */
  #release(secret: KubeObject): void {
    const { log } = this.#context;
    this.reconciler.removeFinalizer(secret, this.#stop.signal).catch((error: unknown) => {
      if (this.#stop.signal.aborted) return;
      const { namespace = '', name } = secret.metadata;
      log.warn('the finalizer of KubeLB cannot be removed from a Secret', { namespace, name, error });
    });
  }
}
