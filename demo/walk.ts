/** A walk shows one controller. Each is a module in `walks/`; `main.ts` lists them in order. */
import type { ServerName } from '../test/servers/catalogue.ts';
import type { DemoCluster } from './cluster.ts';
import type { Ground } from './ground.ts';
import type { Screen } from './screen.ts';

export interface Stage {
  readonly cluster: DemoCluster;
  readonly ground: Pick<Ground, 'kubeconfigPath' | 'context' | 'folder'>;
  readonly screen: Screen;
  /** Aborted when the demo stops, or when the reader skips the part. */
  readonly signal: AbortSignal;
  /** Waits until servers are built, with a bar. @throws ServerUnavailableError naming what is missing to build one */
  readonly built: (...names: readonly ServerName[]) => Promise<void>;
  /** The cluster comes from a kubeconfig. */
  readonly borrowed: boolean;
  /** Servers of a walk; stopped after Keyferry. */
  readonly resources: AsyncDisposableStack;
  /** Waits until `condition` returns a value. @throws Error naming `what` after 15 s, or when Keyferry exits */
  readonly until: <T>(what: string, condition: () => Promise<T | undefined> | T | undefined) => Promise<T>;
}

export interface Walk {
  /** For `--only`. */
  readonly name: string;
  /** Needed besides etcd and kube-apiserver. */
  readonly servers: readonly ServerName[];
  readonly title: string;
  /**
   * Checks that the walk changes only its own objects in this cluster.
   * @throws Error naming the objects that already exist
   */
  check(stage: Stage): Promise<void>;
  run(stage: Stage): Promise<void>;
  /** Prepares objects for the user, if the demo keeps running. */
  leave(stage: Stage): Promise<void>;
  /** Deletes all objects of the walk from a borrowed cluster. Called while Keyferry still runs. */
  clean(stage: Stage): Promise<void>;
}
