/** The secret synchronizer: makes a SyncSecret of each labelled Secret in a tenant cluster. It reads no other Secrets. */
import type { Controller } from '../../copy/engine/controller.ts';
import { SECRET } from '../../copy/model/kind.ts';
import type { WatchGroup } from '../../kube/watch/watch-group.ts';
import type { WatchSink } from '../../kube/watch/watcher.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { RuleClient } from '../common/rules/rule-client.ts';
import { RuleStore } from '../common/rules/rule-store.ts';
import { MANAGED_BY_KUBELB, MANAGED_BY_LABEL } from './api.ts';
import { SYNC_SECRET } from './rules/kind.ts';
import { isReadMark } from './rules/marks.ts';
import { SynchronizerReconciler } from './duties/synchronizer-reconciler.ts';
import {
  isOfKubeLb,
  type SecretRule,
  secretRule,
  secretVersion,
  SYNCHRONIZER_CONTROLLER,
  SynchronizerRules,
} from './rules/synchronizer-rule-set.ts';
import { Travel } from './rules/travel.ts';
import { watchSyncSecrets } from './duties/watch.ts';

export const secretSynchronizer: ControllerEntry = {
  name: SYNCHRONIZER_CONTROLLER,
  kinds: [SYNC_SECRET],
  hasTenants: true,
  annotationReader: () => isReadMark,
  create: (context) => new SecretSynchronizer(context),
};

/** The source component of events. */
const COMPONENT = 'kubelb-ccm';

class SecretSynchronizer implements Controller {
  readonly reconciler: SynchronizerReconciler;
  readonly #context: ControllerContext;
  readonly #secrets: RuleStore<SecretRule>;
  /** The SyncSecrets of KubeLB that were found: uids, by `<namespace>/<name>`. */
  readonly #found = new Map<string, string>();
  readonly #watches: WatchGroup[] = [];

  constructor(context: ControllerContext) {
    this.#context = context;
    const { engine, cluster } = context;
    this.#secrets = new RuleStore({
      controller: SYNCHRONIZER_CONTROLLER,
      toRule: secretRule,
      versionOf: secretVersion,
      onChange: (rule, initial) => engine.enqueueRule(rule, initial ? 'low' : 'normal'),
    });
    this.reconciler = new SynchronizerReconciler({
      rules: new SynchronizerRules({
        cluster: cluster.api.cluster,
        secrets: this.#secrets,
        travel: new Travel(context.config.syncsecret),
      }),
      secrets: this.#secrets,
      client: new RuleClient({ api: cluster.api, kind: SECRET, metadataOnly: true }),
      synced: async () => await Promise.all(this.#watches.map(async (watch) => await watch.synced)),
      warn: ({ metadata }, { reason, message }) => {
        const { name, namespace = '', uid } = metadata;
        const { apiVersion, kind } = SECRET;
        const subject = { apiVersion, kind, namespace, name, uid };
        const event = { subject, type: 'Warning', reason, message } as const;
        context.recordEvent(COMPONENT, event, { kind, namespace, name });
      },
    });
  }

  open(): void {
    const { cluster } = this.#context;
    const labelSelector = `${MANAGED_BY_LABEL}=${MANAGED_BY_KUBELB}`;
    this.#watches.push(
      cluster.watchContents(SECRET, { labelSelector, isSource: true }, labelledSecretSink(this.#secrets)),
      watchSyncSecrets(this.#context, this.#syncSecretSink(), false),
    );
  }

  stop(): void {
    // Its watches are those of the cluster.
  }

  /** SyncSecrets are targets here, and rules of the CCM. */
  #syncSecretSink(): WatchSink {
    return {
      upsert: (object) => {
        const { namespace = '', name, uid } = object.metadata;
        const path = `${namespace}/${name}`;
        if (!isOfKubeLb(object)) {
          this.#found.delete(path);
          return true;
        }
        if (this.#found.get(path) === uid) return true;
        this.#found.set(path, uid);
        const rule = this.#secrets.key(namespace, name);
        this.reconciler.expectFinalizer(rule);
        this.#context.engine.enqueueRule(rule, 'low');
        return true;
      },
      remove: ({ metadata: { namespace = '', name } }) => {
        this.#found.delete(`${namespace}/${name}`);
      },
      prune: (keys) => {
        for (const path of this.#found.keys()) if (!keys.has(path)) this.#found.delete(path);
      },
    };
  }
}

/** Takes the events of the watch of labelled Secrets, which cannot tell a deletion from a lost label. */
export function labelledSecretSink(secrets: RuleStore<SecretRule>): WatchSink {
  return {
    ...secrets.sink,
    remove: (object) => {
      const withoutLabel = { ...object, metadata: { ...object.metadata, labels: {} } };
      // It exists still if it has only lost the label, and would hang in its deletion with KubeLB's finalizer.
      if (secretRule(withoutLabel) === undefined) secrets.sink.remove(object);
      else secrets.put(withoutLabel);
    },
  };
}
