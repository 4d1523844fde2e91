/**
 * Writes core/v1 Events about objects, for `kubectl describe`.
 *
 * It uses core/v1 and not events.k8s.io/v1, because only core/v1 fills the column "From" (`source.component`) and shows
 * counts as "x11 over 15m" in every kubectl. `record` only stores the event; it is written later:
 *
 *   recorded ──▶ pending (one entry for each Event object, with its count) ──▶ written
 *                   │ refused permanently, or tried MAX_TRIES times, or the list is full
 *                   └──▶ dropped (`onDrop` is called)
 *
 * No other work waits for events, and callers do not see their failures. The writes of namespaces take turns, and each
 * namespace has a limited share of the list. So many events of one namespace neither delay nor displace those of
 * another.
 */
import { withTimeout } from '../runtime/abort.ts';
import { type Clock, systemClock } from '../runtime/clock.ts';
import { KeyedQueue } from '../runtime/queue/keyed-queue.ts';
import { rfc3339 } from '../runtime/text/texts.ts';
import type { KubeApi } from './api.ts';
import { ApiError, isAlreadyExists, isNotFound, isServerFailure, retryAfterMs } from './errors.ts';
import { EventCorrelator, type EventInput, type EventRecord } from './event-correlator.ts';

export interface EventRecorderOptions {
  readonly api: KubeApi;
  /** The name of this process, for `reportingInstance`. */
  readonly instance: string;
  /** Called for an event that is dropped. Must not throw. */
  readonly onDrop?: (input: Pick<EventInput, 'subject' | 'reason'>, error: Error) => void;
  /** Most Event objects that wait to be written. Default 1,000. */
  readonly maxPending?: number;
  /** Most Event objects of one namespace that wait to be written. Default 250. */
  readonly maxPendingInNamespace?: number;
  /** Limit of one write, ms. Default 5,000. */
  readonly timeoutMs?: number;
  readonly clock?: Clock;
  readonly random?: () => number;
}

const TIMEOUT_MS = 5000;
/** Most tries to write an Event: about 20 s with the waits between them. */
const MAX_TRIES = 6;

export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #clock: Clock;
  readonly #correlator: EventCorrelator;
  readonly #queue: KeyedQueue;
  /** The Events to be written, by `<namespace>/<name>`. */
  readonly #pending = new Map<string, EventRecord>();
  #stopped = false;

  constructor(options: EventRecorderOptions) {
    const { clock = systemClock, random } = options;
    this.#options = options;
    this.#clock = clock;
    this.#correlator = new EventCorrelator(random);
    this.#queue = new KeyedQueue({
      name: 'events',
      clock,
      random,
      retryAfterMs,
      retryBaseMs: 500,
      retryMaxMs: 10_000,
      // If many equal events occur at once, they cost two writes: one creates the Event, and one sets its count.
      minIntervalMs: 1000,
      groupOf: (key) => key.slice(0, key.indexOf('/')),
      onError: (key, error, retryInMs) => this.#failed(key, error, retryInMs),
    });
    this.#queue.start((key, signal) => this.#write(key, signal), { concurrency: 2 });
  }

  /** Takes an event to be written. Never waits and never throws. */
  record(component: string, input: EventInput): void {
    if (this.#stopped) {
      this.#options.onDrop?.(input, new Error('the recorder was stopped'));
      return;
    }
    const record = this.#correlator.correlate(component, input, this.#clock.now());
    if (record === undefined) return;
    const namespace = namespaceOf(record.subject);
    const key = `${namespace}/${record.name}`;
    if (!this.#pending.has(key)) {
      const { maxPending = 1000, maxPendingInNamespace = 250 } = this.#options;
      const neighbours = [...this.#pending.keys()].filter((other) => other.startsWith(`${namespace}/`));
      if (this.#pending.size >= maxPending || neighbours.length >= maxPendingInNamespace) {
        this.#options.onDrop?.(input, new Error('too many events wait to be written'));
        return;
      }
      record.tries = 0;
      this.#pending.set(key, record);
    }
    this.#queue.add(key);
  }

  /** Events that wait to be written. */
  get pending(): number {
    return this.#pending.size;
  }

  /** Writes the pending events within `drainMs` (default 1,000), and drops the rest. Never rejects. */
  async stop({ drainMs = 1000 }: { readonly drainMs?: number } = {}): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    const until = this.#clock.monotonic() + drainMs;
    await this.#queue.stop({ drainMs, graceMs: 100 });
    const limitMs = Math.max(0, until - this.#clock.monotonic());
    let reason = new Error('the recorder was stopped');
    try {
      const flush = async (signal: AbortSignal): Promise<void> => {
        for (const key of this.#pending.keys()) await this.#write(key, signal);
      };
      await withTimeout(flush, { what: 'writing the last events', limitMs, clock: this.#clock });
    } catch (error) {
      reason = toError(error);
    }
    for (const record of this.#pending.values()) this.#options.onDrop?.(record, reason);
    this.#pending.clear();
  }

  async #write(key: string, signal: AbortSignal): Promise<void> {
    const record = this.#pending.get(key);
    if (record === undefined) return;
    record.tries++;
    const { count } = record;
    if (record.isCreated) await this.#patch(record, signal);
    else {
      try {
        await this.#post(record, signal);
      } catch (error) {
        if (!isAlreadyExists(error)) throw error;
        // An earlier try was carried out, but its answer was lost; or another process has written the same Event.
        if (record.state !== 'found' || count > 1) await this.#patch(record, signal);
      }
    }
    record.isCreated = true;
    // If the count was raised during the write, the queue runs this key again.
    if (record.count === count) this.#pending.delete(key);
    else record.tries = 0;
  }

  async #patch(record: EventRecord, signal: AbortSignal): Promise<void> {
    const { count, firstAt, lastAt } = record;
    const { api, timeoutMs = TIMEOUT_MS } = this.#options;
    try {
      await api.request({
        method: 'PATCH',
        path: `${collection(record)}/${encodeURIComponent(record.name)}`,
        contentType: 'application/merge-patch+json',
        body: JSON.stringify({ count, firstTimestamp: rfc3339(firstAt), lastTimestamp: rfc3339(lastAt) }),
        signal,
        timeoutMs,
      });
    } catch (error) {
      if (!isNotFound(error)) throw error;
      // By default the API server deletes Events after an hour. The Event is then created again, with its count.
      await this.#post(record, signal);
    }
  }

  async #post(record: EventRecord, signal: AbortSignal): Promise<void> {
    const { name, component, subject, type, reason, message, count, firstAt, lastAt } = record;
    const { api, instance, timeoutMs = TIMEOUT_MS } = this.#options;
    const event = {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name, namespace: namespaceOf(subject) },
      involvedObject: subject,
      type,
      reason,
      message,
      count,
      firstTimestamp: rfc3339(firstAt),
      lastTimestamp: rfc3339(lastAt),
      source: { component },
      reportingComponent: component,
      reportingInstance: instance,
    };
    const body = JSON.stringify(event);
    await api.request({ method: 'POST', path: collection(record), body, signal, timeoutMs });
  }

  #failed(key: string, error: unknown, retryInMs: number | undefined): void {
    const record = this.#pending.get(key);
    if (record === undefined || (retryInMs !== undefined && isWorthRetrying(error) && record.tries < MAX_TRIES)) return;
    // After `stop`, `flush` tries this Event one more time.
    if (retryInMs === undefined && this.#stopped) return;
    this.#pending.delete(key);
    this.#queue.forget(key);
    this.#options.onDrop?.(record, toError(error));
  }
}

/** Whether another try may succeed: not after a refusal, for a missing or terminating namespace or an invalid event. */
function isWorthRetrying(error: unknown): boolean {
  return !(error instanceof ApiError) || isServerFailure(error);
}

function collection({ subject }: EventRecord): string {
  return `/api/v1/namespaces/${encodeURIComponent(namespaceOf(subject))}/events`;
}

function namespaceOf(subject: EventRecord['subject']): string {
  return subject.namespace ?? 'default';
}

function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
