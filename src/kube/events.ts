/**
 * Writes core/v1 Events about objects, for `kubectl describe`.
 *
 * core/v1 and not events.k8s.io/v1, because only it fills the column "From" (`source.component`) and shows counts as
 * "x11 over 15m" on every kubectl. `record` only stores the event and returns; it is written later:
 *
 *   recorded ──▶ pending (one entry per Event object, however often it was counted up) ──▶ written
 *                   │ refused permanently, or tried MAX_TRIES times, or the list is full
 *                   └──▶ dropped (`onDrop` is called)
 *
 * No other work waits for events, and their failures do not reach callers. Many events of one namespace neither delay nor displace those of
 * another one: their writes take turns, and each namespace has a share of the list.
 */
import { withTimeout } from '../runtime/abort.ts';
import { type Clock, systemClock } from '../runtime/clock.ts';
import { KeyedQueue } from '../runtime/queue/keyed-queue.ts';
import { rfc3339 } from '../runtime/text/rfc3339.ts';
import type { KubeApi } from './api.ts';
import { ApiError, isAlreadyExists, isNotFound, isServerFailure, retryAfterMs } from './errors.ts';
import { EventCorrelator, type EventInput, type EventRecord } from './event-correlator.ts';

export interface EventRecorderOptions {
  readonly api: KubeApi;
  /** The column "From" of `kubectl describe`: `mirrors.kts.studio`. */
  readonly component: string;
  /** This process: `reportingInstance`. */
  readonly instance: string;
  /** Called for an event that is dropped. Must not throw. */
  readonly onDrop?: (input: Pick<EventInput, 'subject' | 'reason'>, error: Error) => void;
  /** Event objects waiting to be written, at most. Default 1,000. */
  readonly maxPending?: number;
  /** Of these, in one namespace, at most. Default 250. */
  readonly maxPendingInNamespace?: number;
  /** Limit of one write, ms. Default 5,000. */
  readonly timeoutMs?: number;
  readonly clock?: Clock;
  readonly random?: () => number;
}

/** With the waits between them about 20 s. */
const MAX_TRIES = 6;

interface Pending {
  readonly record: EventRecord;
  tries: number;
}

export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #correlator: EventCorrelator;
  readonly #queue: KeyedQueue;
  /** By namespace and name of the Event object. */
  readonly #pending = new Map<string, Pending>();
  /** Number of pending events by namespace. */
  readonly #pendingIn = new Map<string, number>();
  /** Events that were created: the next write is a PATCH. */
  readonly #created = new WeakSet<EventRecord>();
  #stopped = false;

  constructor(options: EventRecorderOptions) {
    const { clock = systemClock, random } = options;
    this.#options = options;
    this.#clock = clock;
    this.#timeoutMs = options.timeoutMs ?? 5000;
    this.#correlator = new EventCorrelator({ random });
    this.#queue = new KeyedQueue({
      name: `events of ${options.component}`,
      clock,
      random,
      retryAfterMs,
      retryBaseMs: 500,
      retryMaxMs: 10_000,
      // Many of the same at once become one creation and one count.
      minIntervalMs: 1000,
      groupOf: (key) => key.slice(0, key.indexOf('/')),
      onError: (key, error, retryInMs) => this.#failed(key, error, retryInMs),
    });
    this.#queue.start((key, signal) => this.#write(key, signal), { concurrency: 2 });
  }

  /** Takes an event to be written. Never waits and never throws. */
  record(input: EventInput): void {
    if (this.#stopped) {
      this.#drop(input, new Error('the recorder was stopped'));
      return;
    }
    const record = this.#correlator.correlate(input, this.#clock.now());
    if (record === undefined) return;
    const namespace = namespaceOf(record.subject);
    const key = `${namespace}/${record.name}`;
    if (!this.#pending.has(key)) {
      const { maxPending = 1000, maxPendingInNamespace = 250 } = this.#options;
      const inNamespace = this.#pendingIn.get(namespace) ?? 0;
      if (this.#pending.size >= maxPending || inNamespace >= maxPendingInNamespace) {
        this.#drop(input, new Error('too many events wait to be written'));
        return;
      }
      this.#pending.set(key, { record, tries: 0 });
      this.#pendingIn.set(namespace, inNamespace + 1);
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
      await withTimeout((signal) => this.#flush(signal), {
        what: 'writing the last events',
        limitMs,
        clock: this.#clock,
      });
    } catch (error) {
      reason = toError(error);
    }
    for (const { record } of this.#pending.values()) this.#drop(record, reason);
    this.#pending.clear();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #flush(signal: AbortSignal): Promise<void> {
    for (const key of this.#pending.keys()) await this.#write(key, signal);
  }

  async #write(key: string, signal: AbortSignal): Promise<void> {
    const pending = this.#pending.get(key);
    if (pending === undefined) return;
    const { record } = pending;
    pending.tries++;
    const { count } = record;
    if (!this.#created.has(record)) await this.#create(record, signal);
    else await this.#patch(record, signal);
    this.#created.add(record);
    // If the count was raised meanwhile, the queue runs this key again.
    if (record.count === count) this.#remove(key, record);
    else pending.tries = 0;
  }

  #remove(key: string, { subject }: EventRecord): void {
    if (!this.#pending.delete(key)) return;
    const namespace = namespaceOf(subject);
    const left = (this.#pendingIn.get(namespace) ?? 0) - 1;
    if (left > 0) this.#pendingIn.set(namespace, left);
    else this.#pendingIn.delete(namespace);
  }

  async #create(record: EventRecord, signal: AbortSignal): Promise<void> {
    try {
      await this.#post(record, signal);
    } catch (error) {
      // An earlier try was carried out, but its answer was lost.
      if (!isAlreadyExists(error)) throw error;
      await this.#patch(record, signal);
    }
  }

  async #patch(record: EventRecord, signal: AbortSignal): Promise<void> {
    const { count, lastAt } = record;
    try {
      await this.#options.api.request({
        method: 'PATCH',
        path: `${collection(record)}/${encodeURIComponent(record.name)}`,
        contentType: 'application/merge-patch+json',
        body: JSON.stringify({ count, lastTimestamp: rfc3339(lastAt) }),
        signal,
        timeoutMs: this.#timeoutMs,
      });
    } catch (error) {
      if (!isNotFound(error)) throw error;
      // The API server deletes Events after an hour by default; then it is created again, with its count.
      await this.#post(record, signal);
    }
  }

  async #post(record: EventRecord, signal: AbortSignal): Promise<void> {
    const { name, subject, type, reason, message, count, firstAt, lastAt } = record;
    const { api, component, instance } = this.#options;
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
    await api.request({ method: 'POST', path: collection(record), body, signal, timeoutMs: this.#timeoutMs });
  }

  #failed(key: string, error: unknown, retryInMs: number | undefined): void {
    const pending = this.#pending.get(key);
    if (pending === undefined || (retryInMs !== undefined && isWorthRetrying(error) && pending.tries < MAX_TRIES))
      return;
    // After `stop` the last flush tries it once more.
    if (retryInMs === undefined && this.#stopped) return;
    this.#remove(key, pending.record);
    this.#queue.forget(key);
    this.#drop(pending.record, toError(error));
  }

  #drop(input: Pick<EventInput, 'subject' | 'reason'>, error: Error): void {
    this.#options.onDrop?.(input, error);
  }
}

/** False for a refusal, a missing or terminating namespace, and an invalid event. */
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
