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
 * The limit of each request is half the deadline, so that one request without an answer does not cost the Lease. A stop
 * waits for the request that runs: the server could carry out a write after it was aborted, and so after the release.
 */
import { anySignal, sleep, TimeLimitError, withTimeout } from '../../runtime/abort.ts';
import { type Clock, systemClock, type Timer } from '../../runtime/clock.ts';
import { isAlreadyExists, isConflict, isNotFound } from '../errors.ts';
import { parseJson } from '../json.ts';
import {
  nextStep,
  type ElectionStep,
  heldLease,
  holderOf,
  type HoldingStep,
  type Lease,
  observe,
  type LeaseObservation,
  releasedLease,
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
/**
 * Limit of the request that runs at a stop, and of the release, ms. A silent API server must not delay the end of the
 * process: if the request has no answer in this time, there is no release, and the Lease runs out.
 */
const EXIT_LIMIT_MS = 2000;

/** Each wait is longer by up to this share. With client-go's 120 %, a change of leader would take up to 4.4 s. */
const JITTER = 0.25;
/** Spreads the tries of standby replicas that saw the last renewal at the same time, ms. */
const EXPIRY_SPREAD_MS = 200;

export class LeaderElector {
  readonly #options: Required<Omit<LeaderElectorOptions, 'onLeader'>> & Pick<LeaderElectorOptions, 'onLeader'>;
  readonly #collection: string;
  /** The Lease in its last known state. */
  #lease: Lease | undefined;
  #observation: LeaseObservation | undefined;
  /** This process leads until this time, monotonic ms; `-Infinity`: it does not lead. */
  #heldUntil = -Infinity;
  /** Whether the Lease may be this process's, because a request for it was sent. */
  #mayHold = false;
  /** The error of the last call for the Lease; `undefined`: the last one succeeded, or there was none. */
  failure: unknown;

  constructor(options: LeaderElectorOptions) {
    this.#options = { clock: systemClock, ...options };
    const namespace = encodeURIComponent(options.namespace);
    this.#collection = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
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
    try {
      while (!signal.aborted) {
        await this.#attempt(signal);
        if (this.isLeader && !signal.aborted) {
          await this.#lead(onStartedLeading, signal);
          return;
        }
        await this.#pause(this.#standbyMs(), signal);
      }
    } finally {
      if (this.#mayHold) await this.#release();
    }
  }

  async #lead(work: ElectionOptions['onStartedLeading'], signal: AbortSignal): Promise<void> {
    const loss = new AbortController();
    using leading = anySignal(signal, loss.signal);
    const renewals = new AbortController();
    const lost = new Error(LOST);
    const lose = (): void => {
      this.#heldUntil = -Infinity;
      this.#mayHold = false;
      loss.abort(lost);
      renewals.abort();
    };
    const renewing = this.#renew(renewals.signal, loss.signal, lose);
    try {
      await work(leading.signal);
    } catch (error) {
      // The work may fail after its signal was aborted, so only an earlier error counts.
      if (!leading.signal.aborted) throw error;
    } finally {
      renewals.abort();
      await renewing;
    }
    if (leading.signal.reason === lost && !signal.aborted) throw lost;
  }

  /** Renews the Lease until `stop` is aborted. Calls `lose` when the Lease is lost. */
  async #renew(stop: AbortSignal, loss: AbortSignal, lose: () => void): Promise<void> {
    let watchdog: Timer | undefined;
    const watch = (): void => {
      watchdog?.cancel();
      if (this.#heldUntil === -Infinity) return;
      watchdog = this.#options.clock.setTimeout(lose, this.#heldUntil - this.#options.clock.monotonic());
    };
    watch();
    while (await this.#pause(this.#options.retryMs, stop)) {
      await this.#attempt(stop, loss);
      if (stop.aborted) break;
      if (!this.isLeader) lose();
      watch();
    }
    watchdog?.cancel();
  }

  /**
   * Tries once to get or to renew the Lease. Sets `#heldUntil`, `#lease` and `#observation`.
   * @param stop when it is aborted, the try has `EXIT_LIMIT_MS` to end
   * @param loss ends the try at once
   */
  async #attempt(stop: AbortSignal, loss?: AbortSignal): Promise<void> {
    if (stop.aborted) return;
    const { clock } = this.#options;
    using cut = anySignal(loss);
    let exit: Timer | undefined;
    const limit = (): void => {
      exit = clock.setTimeout(() => {
        this.#mayHold = false;
        cut.abort(new TimeLimitError('the last request for the Lease', EXIT_LIMIT_MS));
      }, EXIT_LIMIT_MS);
    };
    stop.addEventListener('abort', limit, { once: true });
    try {
      await this.#try(cut.signal);
      this.failure = undefined;
    } catch (error) {
      if (loss?.aborted === true) return;
      // Another replica wrote the Lease first. That is no failure, and the next try reads the Lease again.
      const isLate = isConflict(error) || isAlreadyExists(error);
      this.failure = isLate ? undefined : error;
      if (!isLate) this.#options.onError(error);
    } finally {
      stop.removeEventListener('abort', limit);
      exit?.cancel();
    }
  }

  async #try(signal: AbortSignal): Promise<void> {
    if (this.isLeader && this.#lease !== undefined && (await this.#renewKnown(this.#lease, signal))) return;
    const lease = await this.#read(signal);
    if (lease !== undefined) this.#observe(lease);
    await this.#write(lease, signal);
  }

  /** Renews without a read. @returns false if the Lease has changed and has to be read again */
  async #renewKnown(lease: Lease, signal: AbortSignal): Promise<boolean> {
    try {
      await this.#hold({ do: 'renew', lease }, signal);
      return true;
    } catch (error) {
      if (isConflict(error) || isNotFound(error)) return false;
      throw error;
    }
  }

  async #write(read: Lease | undefined, signal: AbortSignal): Promise<void> {
    const step = this.#nextStep(read, this.#options.clock.monotonic());
    // `take`: another replica may have led meanwhile, so a leader's work must end before it takes the Lease again.
    if (step.do === 'wait' || (step.do === 'take' && this.isLeader)) this.#heldUntil = -Infinity;
    else await this.#hold(step, signal);
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

  async #hold(step: HoldingStep, signal: AbortSignal): Promise<void> {
    const { clock, leaseDurationMs: durationMs, renewDeadlineMs } = this.#options;
    const startedAt = clock.monotonic();
    this.#mayHold = true;
    const lease = heldLease(step, { ...this.#options, durationMs }, clock.now());
    this.#observe(await this.#call(step.do === 'create' ? 'POST' : 'PUT', signal, lease));
    // Counted from the start of the request: after a slow answer another replica may already be able to take the Lease.
    this.#heldUntil = startedAt + renewDeadlineMs;
  }

  #observe(lease: Lease): void {
    const before = this.leader;
    this.#lease = lease;
    this.#observation = observe(lease, this.#observation, this.#options.clock.monotonic());
    if (this.leader !== before) this.#options.onLeader?.(this.leader);
  }

  async #release(): Promise<void> {
    const { clock, identity, onError } = this.#options;
    this.#heldUntil = -Infinity;
    const release = async (signal: AbortSignal): Promise<void> => {
      const lease = await this.#read(signal);
      if (lease === undefined || holderOf(lease) !== identity) return;
      try {
        this.#observe(await this.#call('PUT', signal, releasedLease(lease, clock.now())));
      } catch (error) {
        if (!isConflict(error)) throw error;
        // A renewal without an answer has been carried out meanwhile.
        await release(signal);
      }
    };
    await withTimeout(release, { what: 'releasing the Lease', limitMs: EXIT_LIMIT_MS, clock }).catch(onError);
  }

  /** @returns `undefined`: there is no Lease. @throws ApiError, ConnectionError */
  async #read(signal: AbortSignal): Promise<Lease | undefined> {
    try {
      return await this.#call('GET', signal);
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  /**
   * Every write has the resourceVersion that was read, so that one of two writers fails.
   * @throws ApiError AlreadyExists (another replica was first) or Conflict (the Lease has changed); ConnectionError
   */
  async #call(method: 'GET' | 'POST' | 'PUT', signal: AbortSignal, lease?: unknown): Promise<Lease> {
    const { api, name, renewDeadlineMs } = this.#options;
    const path = method === 'POST' ? this.#collection : `${this.#collection}/${encodeURIComponent(name)}`;
    const written = lease === undefined ? {} : { body: JSON.stringify(lease) };
    const { body } = await api.request({ method, path, ...written, timeoutMs: renewDeadlineMs / 2, signal });
    return parseJson(body, `the answer to ${method} ${path}`) as Lease;
  }

  #standbyMs(): number {
    const retry = this.#options.retryMs * (1 + Math.random() * JITTER);
    if (this.#lease === undefined) return retry;
    const now = this.#options.clock.monotonic();
    const step = this.#nextStep(this.#lease, now);
    if (step.do !== 'wait') return retry;
    return Math.min(retry, step.until - now + Math.random() * EXPIRY_SPREAD_MS);
  }

  /** @returns false if the signal was aborted */
  async #pause(ms: number, signal: AbortSignal): Promise<boolean> {
    return await sleep(ms, signal, this.#options.clock).then(
      () => true,
      () => false,
    );
  }
}
