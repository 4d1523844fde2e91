/** The parameters for the creation of each controller (`ControllerContext`), and its entry in `controllers/list.ts`. */
import type { IsRead } from '../../copy/model/observed.ts';
import type { Config, ReadingConfig } from '../../config/config.ts';
import type { ControllerName } from '../../config/controllers.ts';
import type { Cluster } from '../../copy/cluster/cluster.ts';
import type { Namespaces } from '../../copy/cluster/watch/namespaces.ts';
import type { Controller } from '../../copy/engine/controller.ts';
import type { Engine } from '../../copy/engine/engine.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import type { Kind } from '../../copy/model/kind.ts';
import type { VaultBackend } from '../../copy/vault/backend.ts';
import type { EventInput } from '../../kube/event-recorder.ts';
import type { ServedNamespaces } from '../../kube/watch/served-namespaces.ts';
import type { Log } from '../../observe/log.ts';
import type { Metrics } from '../../observe/metrics/metrics.ts';
import type { Reply } from '../../observe/routes.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { NamespaceChanges } from './namespaces/namespace-changes.ts';
import type { Reach } from './namespaces/reach.ts';

/** The parameters of the rule sets of a cluster. The operator and the commands create their rule sets from them. */
export interface RuleScope {
  /** Name of the cluster that has the rules. */
  readonly cluster: string;
  readonly config: Omit<ReadingConfig, 'namespaces' | 'controllers' | 'assumed'>;
  readonly namespaces: Namespaces;
  /** Only these namespaces can contain copies; `undefined`: all. */
  readonly served: ServedNamespaces | undefined;
  /** Decides which namespaces rules may copy from and into. */
  readonly reach: Reach;
  /** Called if there may be room now for a rule that the limits refused. The rule must be evaluated again. */
  readonly onRoom: (rule: RuleKey) => unknown;
}

/** Another cluster, which a context of `--config-syncer-kubeconfig-file` names. It may be unreachable at any time. */
export interface OtherCluster {
  readonly context: string;
  /** The namespace of the context; `undefined`: it has none. */
  readonly namespace: string | undefined;
  readonly cluster: Cluster;
}

export interface ControllerContext {
  readonly config: Config;
  readonly engine: Engine;
  /** The cluster that this process runs in. */
  readonly cluster: Cluster;
  /** The namespace of Keyferry's Pod. Outside a cluster: the namespace of the kubeconfig's context. */
  readonly namespace: string;
  /** The second cluster, for KubeLB; `undefined`: none is configured. It may be unreachable at any time. */
  readonly management: Cluster | undefined;
  /** The clusters of `--config-syncer-kubeconfig-file`. */
  readonly others: readonly OtherCluster[];
  readonly vault: VaultBackend;
  readonly scope: RuleScope;
  /** Enqueues rules after changes of namespaces. */
  readonly namespaceChanges: Pick<NamespaceChanges, 'serve'>;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly clock: Clock;
  /** Writes an Event of this controller, and a log line. */
  readonly recordEvent: (event: EventInput) => void;
}

export interface ControllerEntry {
  readonly name: ControllerName;
  /** The component in the `source` of its events. Default: `keyferry-<name>`. The originals have other names. */
  readonly component?: string;
  /** The kinds that the controller copies besides Secrets and ConfigMaps. */
  readonly kinds?: readonly Kind[];
  /** The rules of the controller are objects of tenants. */
  readonly hasTenants?: true;
  /** Tells which annotations the controller reads. Keyferry keeps these annotations, however long they are. */
  annotationReader(config: Config): IsRead;
  create(context: ControllerContext): Controller;
  /**
   * Responds to `/healthz` as the original does. Used if `--controllers` names only this controller.
   * @param stuck names of the liveness checks that fail at present
   */
  healthz?(context: Pick<ControllerContext, 'cluster' | 'config'>, stuck: readonly string[]): Reply;
  /** Responds to `/readyz` as the original does, as `healthz`. */
  readyz?(context: Pick<ControllerContext, 'cluster' | 'config'>, isReady: boolean): Reply;
}
