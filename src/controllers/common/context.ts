/** The parts that every controller is created from, and its entry in `controllers/list.ts`. */
import type { IsRead } from '../../copy/model/observed.ts';
import type { Config, ControllerName, ReadingConfig } from '../../config/config.ts';
import type { Cluster } from '../../copy/cluster/cluster.ts';
import type { Namespaces } from '../../copy/cluster/watch/namespaces.ts';
import type { Controller } from '../../copy/engine/controller.ts';
import type { Engine } from '../../copy/engine/engine.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import type { Kind } from '../../copy/model/kind.ts';
import type { VaultBackend } from '../../copy/vault/backend.ts';
import type { EventInput } from '../../kube/event-correlator.ts';
import type { ServedNamespaces } from '../../kube/watch/served-namespaces.ts';
import type { LogFields, Log } from '../../observe/log.ts';
import type { Metrics } from '../../observe/metrics/metrics.ts';
import type { Reply } from '../../observe/routes.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { ProgramReader } from './migration.ts';
import type { Reach } from './namespaces/reach.ts';
import type { ControllerReader } from './snapshot/reader.ts';

/** What the rule sets of a cluster are made from: the operator and the commands make the same ones. */
export interface RuleScope {
  /** Name of the cluster of the rules. */
  readonly cluster: string;
  readonly config: Omit<ReadingConfig, 'namespaces' | 'namespaceSelector' | 'controllers'>;
  readonly namespaces: Namespaces;
  /** The only namespaces that copies can be in; `undefined`: all. */
  readonly served: ServedNamespaces | undefined;
  /** Which namespaces rules may copy from and into. */
  readonly reach: Reach;
  /** The limits may now admit or refuse the rule: evaluate it again. */
  readonly onLimitChange: (rule: RuleKey) => unknown;
}

export interface ControllerContext {
  readonly config: Config;
  readonly engine: Engine;
  /** The cluster that this process runs in. */
  readonly cluster: Cluster;
  /** The namespace of the Pod, or of the kubeconfig's context. */
  readonly namespace: string;
  /** The other cluster, if the configuration has one. It may not answer for any time. */
  readonly management: Cluster | undefined;
  readonly vault: VaultBackend;
  readonly scope: RuleScope;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly clock: Clock;
  /**
   * Writes an Event and a log line.
   * @param component the source of the Event: each controller reports under the name of its original
   * @param fields of the log line. Default: kind, namespace and name of the subject
   */
  readonly recordEvent: (component: string, event: EventInput, fields?: LogFields) => void;
}

export interface ControllerEntry {
  readonly name: ControllerName;
  /** The kinds that it copies besides Secrets and ConfigMaps. */
  readonly kinds?: readonly Kind[];
  /** Its rules belong to tenants. */
  readonly hasTenants?: true;
  /** Selects the annotations that the controller reads. They are kept at any length: see `operator/operator.ts`. */
  annotationReader(config: Config): IsRead;
  create(context: ControllerContext): Controller;
  /**
   * The answer to `/healthz` of the program that the controller replaces, served where the controller was started alone under its own name.
   * @param stuck the liveness checks that fail
   */
  healthz?(context: Pick<ControllerContext, 'cluster' | 'config'>, stuck: readonly string[]): Reply;
  /** For `status` and `plan`. It is loaded on demand, so that the operator does not hold its code. */
  reader?(): Promise<ControllerReader>;
  /** For `migrate`: the programs whose objects it can go on with. Loaded on demand. */
  programs?(): Promise<readonly ProgramReader[]>;
}
