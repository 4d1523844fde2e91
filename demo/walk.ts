/** A walk shows one system at work. Each is a module in `walks/`; `main.ts` names them in order. */
import type { DemoCluster } from './cluster.ts';
import type { Screen } from './screen.ts';

export interface Stage {
  readonly cluster: DemoCluster;
  readonly screen: Screen;
  readonly signal: AbortSignal;
  /** The cluster is not the demo's own, and not on this machine alone. */
  readonly borrowed: boolean;
  /** What a walk starts and leaves running; ended when Keyferry has been stopped. */
  readonly resources: AsyncDisposableStack;
  /** Waits until `condition` gives something. @throws Error naming `what` after 15 s, or when Keyferry has ended */
  readonly until: <T>(what: string, condition: () => Promise<T | undefined> | T | undefined) => Promise<T>;
}

export interface Walk {
  readonly title: string;
  /**
   * Refuses a cluster on which the walk would touch what is not its own.
   * @throws Error saying what is in the way
   */
  check(stage: Stage): Promise<void>;
  run(stage: Stage): Promise<void>;
  /** Leaves something to look at, for a demo that keeps running. */
  leave(stage: Stage): Promise<void>;
  /** Removes all that the walk made, on a cluster that is not thrown away. Called while Keyferry still runs. */
  clean(stage: Stage): Promise<void>;
}
