/**
 * A walk is a part of the demo that shows one controller. Each file in `walks/` with such a part exports a Walk.
 * `main.ts` lists the walks in their order.
 */
import type { ServerName } from '../test/servers/catalogue.ts';
import type { DemoCluster } from './cluster.ts';
import type { Ground } from './ground.ts';
import type { Screen } from './screen.ts';

export interface Stage {
  readonly cluster: DemoCluster;
  readonly ground: Pick<Ground, 'kubeconfigPath' | 'context' | 'folder'>;
  readonly screen: Screen;
  /** Aborted when the demo stops, and when the reader skips the walk. */
  readonly signal: AbortSignal;
  /**
   * Waits until these servers are built. Meanwhile shows a progress bar.
   * @throws ServerUnavailableError that says what is missing to build a server
   */
  readonly built: (...names: readonly ServerName[]) => Promise<void>;
  /** Begins a section. Before it, a reader at a terminal presses Enter. @throws Error: the reader skips the walk */
  readonly section: (title: string) => Promise<void>;
  /** Whether the cluster is that of a user's kubeconfig. If so, it runs on after the demo. */
  readonly borrowed: boolean;
  /** Servers that a walk starts are added here. They stop after Keyferry. */
  readonly resources: AsyncDisposableStack;
  /** Waits until `condition` returns a value. @throws Error with the text `what` after 15 s, or if Keyferry exits */
  readonly until: <T>(what: string, condition: () => Promise<T | undefined> | T | undefined) => Promise<T>;
}

export interface Walk {
  /** The walk's name in the flag `--only`. */
  readonly name: string;
  /** The servers that the walk needs, except etcd and kube-apiserver. */
  readonly servers: readonly ServerName[];
  readonly title: string;
  /**
   * Checks that Keyferry and this walk would change no objects in the user's cluster, except those of the walk.
   * @throws Error that names the other objects
   */
  check(stage: Stage): Promise<void>;
  run(stage: Stage): Promise<void>;
  /** Prepares objects for the user, if the demo runs on after the walks. */
  leave(stage: Stage): Promise<void>;
  /** Deletes all objects of the walk from a user's cluster, while Keyferry still runs. */
  clean(stage: Stage): Promise<void>;
}
