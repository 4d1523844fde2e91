/**
 * Leader election on a Lease: one of several replicas works, and it stops before another replica can acquire the Lease.
 *
 *   standby ──lease is free or ran out──▶ leading ──signal──▶ draining ──work ended──▶ released
 *                                            └──renewDeadline passed, or another holds it──▶ lost
 *
 * - **standby** reads the Lease every `retryMs` (jittered), and at the time when the holder's Lease would run out.
 * - **leading** renews the Lease every `retryMs`. The leader counts `renewDeadlineMs` from the time *before* it sent
 *   the last successful renewal. The others count `leaseDurationMs` from the time after they saw this renewal. The
 *   deadline is shorter, so the leader stops before another replica can start, however their clocks are set. A timer
 *   aborts the work's signal at the deadline, also while a request hangs.
 * - **draining** renews until the work has ended, and only then releases the Lease. So the next holder does not start
 *   while this one still writes.
 * - **lost** ends the run when the work has ended. The process then ends, because a new process has no stale caches.
 *
 * The limit of each request is half the deadline, so that one request without an answer does not cost the Lease.
 */
import { anySignal, sleep } from '../../runtime/abort.ts';
import { type Clock, systemClock, type Timer } from '../../runtime/clock.ts';
import { isAlreadyExists, isConflict, isNotFound } from '../errors.ts';
import {
  LeaseClient,
  nextStep,
  type ElectionStep,
  holderOf,
  type Lease,
  observe,
  type LeaseObservation,
} from './lease.ts';
import type { KubeApi } from '../api.ts';

export interface LeaderElectorOptions {
  /** A client of its own, so that a Retry-After for other calls does not cost the Lease. */
  readonly api: KubeApi;
  readonly namespace: string;
  readonly name: string;
  /** Unique for this process: the Pod's name and a random part. */
  readonly identity: string;
  /** `leaseDurationMs` must be well above `renewDeadlineMs`, and `renewDeadlineMs` well above `retryMs`. */
  readonly leaseDurationMs: number;
  readonly renewDeadlineMs: number;
  readonly retryMs: number;
  /** Called after a failed call for the Lease. The call is repeated. Must not throw. */
  readonly onError: (error: unknown) => void;
  /** Called when the holder has changed; `undefined`: there is no holder. Must not throw. */
  readonly onLeader?: (leader: string | undefined) => void;
  readonly clock?: Clock;
  /** Random number for the jitter, 0 ≤ r < 1. */
  readonly random?: () => number;
}

interface ElectionOptions {
  /**
   * Does the work of the leader. The signal is aborted when the Lease is lost or the run ends: the work must then stop
   * writing, and settle its promise when it has stopped. If the work rejects while this process leads, the run rejects.
   */
  readonly onStartedLeading: (signal: AbortSignal) => Promise<void>;
  readonly signal: AbortSignal;
}

const LOST = 'lost leadership: the Lease could not be renewed in time, or another process holds it';
/** Limit for the last requests after the work has ended, ms. A silent API server must not delay the process's end. */
const EXIT_LIMIT_MS = 2000;

/** Each wait is longer by up to this share. With client-go's 120 %, a change of leader would take up to 4.4 s. */
const JITTER = 0.25;
/** Spreads the tries of standby replicas that saw the last renewal at the same time, ms. */
const EXPIRY_SPREAD_MS = 200;

export class LeaderElector {
  readonly #options: Required<Omit<LeaderElectorOptions, 'onLeader'>> & Pick<LeaderElectorOptions, 'onLeader'>;
  readonly #client: LeaseClient;
  /** The Lease in its last known state. */
  #lease: Lease | undefined;
  #observation: LeaseObservation | undefined;
  /** This process leads until this time, monotonic ms; `-Infinity`: it does not lead. */
  #heldUntil = -Infinity;
  /** The error of the last call for the Lease; `undefined`: the last one succeeded, or there was none. */
  failure: unknown;

  constructor(options: LeaderElectorOptions) {
    const { leaseDurationMs, renewDeadlineMs } = options;
    this.#options = { clock: systemClock, random: Math.random, ...options };
    this.#client = new LeaseClient({ ...options, durationMs: leaseDurationMs, timeoutMs: renewDeadlineMs / 2 });
  }

  get isLeader(): boolean {
    return this.#options.clock.monotonic() < this.#heldUntil;
  }

  /** The last known holder, perhaps this process; `undefined`: none is known. */
  get leader(): string | undefined {
    return this.#lease && holderOf(this.#lease);
  }

  /**
   * Waits for the Lease, leads until the signal is aborted, then releases the Lease.
   * @throws Error when the Lease was lost and the work has ended; the error of the work if it fails while leading
   */
  async run({ onStartedLeading, signal }: ElectionOptions): Promise<void> {
    const cut = new AbortController();
    let exit: Timer | undefined;
    const limitExit = (): void => {
      exit ??= this.#options.clock.setTimeout(() => {
        cut.abort(new Error(`the last request for the Lease took longer than ${EXIT_LIMIT_MS} ms`));
      }, EXIT_LIMIT_MS);
    };
    // For a replica that does not lead, `EXIT_LIMIT_MS` begins now; for a leader, when its work has ended.
    const onAbort = (): void => {
      if (!this.isLeader) limitExit();
    };
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      for (;;) {
        if (signal.aborted) return;
        await this.#attempt(cut.signal);
        if (this.isLeader) break;
        await this.#pause(this.#standbyMs(), signal);
      }
      if (!signal.aborted) await this.#lead({ onStartedLeading, signal }, cut.signal, limitExit);
    } finally {
      if (this.isLeader) await this.#release(cut.signal);
      signal.removeEventListener('abort', onAbort);
      exit?.cancel();
    }
  }

  /** @param onWorkEnded called when the work has ended, before the last renewal is waited for */
  async #lead({ onStartedLeading, signal }: ElectionOptions, cut: AbortSignal, onWorkEnded: () => void): Promise<void> {
    using leading = anySignal(signal);
    const renewals = new AbortController();
    const lost = new Error(LOST);
    const lose = (): void => {
      this.#heldUntil = -Infinity;
      leading.abort(lost);
      renewals.abort();
    };
    const renewing = this.#renew(renewals.signal, cut, lose);
    try {
      await onStartedLeading(leading.signal);
    } catch (error) {
      // The work may fail after its signal was aborted, so only an earlier error counts.
      if (!leading.signal.aborted) throw error;
    } finally {
      renewals.abort();
      onWorkEnded();
      await renewing;
    }
    if (leading.signal.reason === lost && !signal.aborted) throw lost;
  }

  /** Renews the Lease until `stop` is aborted. Calls `lose` when the Lease is lost. */
  async #renew(stop: AbortSignal, cut: AbortSignal, lose: () => void): Promise<void> {
    let watchdog: Timer | undefined;
    const watch = (): void => {
      watchdog?.cancel();
      if (this.#heldUntil === -Infinity) return;
      watchdog = this.#options.clock.setTimeout(lose, this.#heldUntil - this.#options.clock.monotonic());
    };
    watch();
    while (await this.#pause(this.#options.retryMs, stop)) {
      await this.#attempt(cut);
      if (stop.aborted) break;
      if (!this.isLeader) lose();
      watch();
    }
    watchdog?.cancel();
  }

  /** Tries once to get or to renew the Lease. Sets `#heldUntil`, `#lease` and `#observation`. */
  async #attempt(signal: AbortSignal): Promise<void> {
    try {
      await this.#try(signal);
      this.failure = undefined;
    } catch (error) {
      // Another replica wrote the Lease first. That is no failure, and the next try reads the Lease again.
      const isLate = isConflict(error) || isAlreadyExists(error);
      this.failure = isLate ? undefined : error;
      if (!isLate) this.#options.onError(error);
    }
  }

  async #try(signal: AbortSignal): Promise<void> {
    if (this.isLeader && this.#lease !== undefined && (await this.#renewKnown(this.#lease, signal))) return;
    const lease = await this.#client.read(signal);
    if (lease !== undefined) this.#observe(lease);
    await this.#write(lease, signal);
  }

  /** Renews without a read. @returns false if the Lease has changed and has to be read again */
  async #renewKnown(lease: Lease, signal: AbortSignal): Promise<boolean> {
    const startedAt = this.#options.clock.monotonic();
    try {
      this.#hold(await this.#client.hold({ do: 'renew', lease }, this.#options.clock.now(), signal), startedAt);
      return true;
    } catch (error) {
      if (isConflict(error) || isNotFound(error)) return false;
      throw error;
    }
  }

  async #write(read: Lease | undefined, signal: AbortSignal): Promise<void> {
    const startedAt = this.#options.clock.monotonic();
    const step = this.#nextStep(read, startedAt);
    // `take`: another replica may have led meanwhile, so a leader's work must end before it takes the Lease again.
    if (step.do === 'wait' || (step.do === 'take' && this.isLeader)) this.#heldUntil = -Infinity;
    else this.#hold(await this.#client.hold(step, this.#options.clock.now(), signal), startedAt);
  }

  #nextStep(lease: Lease | undefined, now: number): ElectionStep {
    return nextStep({
      lease,
      observation: this.#observation,
      identity: this.#options.identity,
      defaultDurationMs: this.#options.leaseDurationMs,
      now,
    });
  }

  #hold(lease: Lease, startedAt: number): void {
    this.#observe(lease);
    // Counted from the start of the request: after a slow answer another replica may already be able to take the Lease.
    this.#heldUntil = startedAt + this.#options.renewDeadlineMs;
  }

  #observe(lease: Lease): void {
    const before = this.leader;
    this.#lease = lease;
    this.#observation = observe(lease, this.#observation, this.#options.clock.monotonic());
    if (this.leader !== before) this.#options.onLeader?.(this.leader);
  }

  async #release(signal: AbortSignal): Promise<void> {
    this.#heldUntil = -Infinity;
    try {
      // A renewal that was aborted may have been carried out, so the current version is read.
      const lease = await this.#client.read(signal);
      if (lease === undefined || holderOf(lease) !== this.#options.identity) return;
      this.#observe(await this.#client.release(lease, this.#options.clock.now(), signal));
    } catch (error) {
      this.#options.onError(error);
    }
  }

  #standbyMs(): number {
    const retry = this.#options.retryMs * (1 + this.#options.random() * JITTER);
    if (this.#lease === undefined) return retry;
    const now = this.#options.clock.monotonic();
    const step = this.#nextStep(this.#lease, now);
    if (step.do !== 'wait') return retry;
    return Math.min(retry, step.until - now + this.#options.random() * EXPIRY_SPREAD_MS);
  }

  /** @returns false if the signal was aborted */
  async #pause(ms: number, signal: AbortSignal): Promise<boolean> {
    return await sleep(ms, signal, this.#options.clock).then(
      () => true,
      () => false,
    );
  }
}
