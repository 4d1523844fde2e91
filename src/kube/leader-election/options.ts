/** What a leader election is told. */
import type { Clock } from '../../runtime/clock.ts';
import type { KubeApi } from '../api.ts';

export interface LeaderElectorOptions {
  /** Best a client of its own: a Retry-After that holds back other calls must not cost the lease. */
  readonly api: KubeApi;
  readonly namespace: string;
  readonly name: string;
  /** This process among all others: the Pod's name and something random. */
  readonly identity: string;
  /** Default 15,000: what client-go's leaders use. */
  readonly leaseDurationMs?: number;
  /** Default 10,000. */
  readonly renewDeadlineMs?: number;
  /** Default 2,000. */
  readonly retryMs?: number;
  /** How long the last requests may take once the work has ended, ms. Default 2,000. */
  readonly exitLimitMs?: number;
  /** An attempt that failed; it is repeated. Must not throw. */
  readonly onError: (error: unknown) => void;
  /** Another holder was seen; `undefined`: nobody. Must not throw. */
  readonly onLeader?: (leader: string | undefined) => void;
  readonly clock?: Clock;
  /** 0 ≤ r < 1, for the jitter. */
  readonly random?: () => number;
}

export interface ElectionOptions {
  /**
   * The work. The signal is aborted when leadership is lost or the run ends: the work must then stop writing, and the
   * promise says when it has. Returning early keeps leading; a rejection while leading ends the run with that error.
   */
  readonly onStartedLeading: (signal: AbortSignal) => Promise<void> | void;
  /** After the work has ended, for every time that it was started. */
  readonly onStoppedLeading?: () => void;
  readonly signal: AbortSignal;
}
