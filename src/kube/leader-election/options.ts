/** Options of a leader election. */
import type { Clock } from '../../runtime/clock.ts';
import type { KubeApi } from '../api.ts';

export interface LeaderElectorOptions {
  /** A client of its own, so that a Retry-After for other calls does not cost the Lease. */
  readonly api: KubeApi;
  readonly namespace: string;
  readonly name: string;
  /** Unique for this process: the Pod's name and a random part. */
  readonly identity: string;
  /** Default 15,000, as in client-go. */
  readonly leaseDurationMs?: number;
  /** Default 10,000. */
  readonly renewDeadlineMs?: number;
  /** Default 2,000. */
  readonly retryMs?: number;
  /** How long the last requests may take once the work has ended, ms. Default 2,000. */
  readonly exitLimitMs?: number;
  /** Called after a failed attempt, which is repeated. Must not throw. */
  readonly onError: (error: unknown) => void;
  /** Called when the holder has changed; `undefined`: none. Must not throw. */
  readonly onLeader?: (leader: string | undefined) => void;
  readonly clock?: Clock;
  /** 0 ≤ r < 1, for the jitter. */
  readonly random?: () => number;
}

export interface ElectionOptions {
  /**
   * The work. The signal is aborted when leadership is lost or the run ends: the work must then stop writing, and
   * settle its promise when it has stopped. Returning early keeps leading; a rejection while leading ends the run with that error.
   */
  readonly onStartedLeading: (signal: AbortSignal) => Promise<void> | void;
  /** After the work has ended, for every time that it was started. */
  readonly onStoppedLeading?: () => void;
  readonly signal: AbortSignal;
}
