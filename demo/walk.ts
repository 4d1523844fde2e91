/**
 * A walk is a part of the demo that shows one controller. Each walk is a module in `walks/`; `main.ts` lists the walks
 * in order.
 */
import type { ServerName } from '../test/servers/catalogue.ts';
import type { DemoCluster } from './cluster.ts';
import type { Ground } from './ground.ts';
import type { Screen } from './screen.ts';

export interface Stage {
  readonly cluster: DemoCluster;
  readonly ground: Pick<Ground, 'kubeconfigPath' | 'context' | 'folder'>;
  readonly screen: Screen;
  /** Aborted when the demo stops, or when the reader skips the walk. */
  readonly signal: AbortSignal;
  /**
   * Waits until servers are built, and shows a bar.
   * @throws ServerUnavailableError that says what is missing to build a server
   */
  readonly built: (...names: readonly ServerName[]) => Promise<void>;
  /** True if the cluster comes from a kubeconfig and continues to run after the demo. */
  readonly borrowed: boolean;
  /** Servers that a walk has started. They stop after Keyferry. */
  readonly resources: AsyncDisposableStack;
  /** Waits until `condition` returns a value. @throws Error with the text `what` after 15 s; Error if Keyferry exits */
  readonly until: <T>(what: string, condition: () => Promise<T | undefined> | T | undefined) => Promise<T>;
}

export interface Walk {
  /** Name of the walk for the flag `--only`. */
  readonly name: string;
  /** Servers that the walk needs besides etcd and kube-apiserver. */
  readonly servers: readonly ServerName[];
  readonly title: string;
  /**
   * Checks that Keyferry and the walk would change no other objects in this cluster than those of the walk.
   * @throws Error that names the objects in the way
   */
  check(stage: Stage): Promise<void>;
  run(stage: Stage): Promise<void>;
  /** Prepares objects for the user if the demo continues to run after the walks. */
  leave(stage: Stage): Promise<void>;
  /** Deletes all objects of the walk from a borrowed cluster, while Keyferry still runs. */
  clean(stage: Stage): Promise<void>;
}
