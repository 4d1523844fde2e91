/**
 * Writes core/v1 Events about objects, for `kubectl describe`.
 *
 * It uses core/v1 and not events.k8s.io/v1, because only core/v1 fills the column "From" (`source.component`) and shows
 * counts as "x11 over 15m" in every kubectl.
 *
 * The name of an Event is made of its object, reason and message, so it is the same in every process. `record` only
 * stores the event; it is written later:
 *
 *   recorded ──▶ pending ──▶ written: created, or found from an earlier process, or its count and time were raised
 *                   │ refused permanently, or tried MAX_TRIES times, or the list is full
 *                   └──▶ dropped (`onDrop` is called)
 *
 * Limits: an Event is written at most once a minute: those of the same minute are counted, and the next write has them.
 * An object gets at most `MOST_NEW` new Events in ten minutes. Each namespace has a share of the list of pending Events,
 * and their writes take turns. So many events of one object or namespace neither delay nor displace those of another. No
 * other work waits for events, and callers do not see their failures.
 */
import { createHash } from 'node:crypto';
import { withTimeout } from '../runtime/abort.ts';
import { type Clock, systemClock } from '../runtime/clock.ts';
import { ByteCache } from '../runtime/maps.ts';
import { KeyedQueue } from '../runtime/queue/keyed-queue.ts';
import { rfc3339 } from '../runtime/text/texts.ts';
import type { KubeApi } from './api.ts';
import { ApiError, isAlreadyExists, isNotFound, isServerFailure } from './errors.ts';

/** The object that an event is about. */
export interface EventSubject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  /** `undefined`: the object is in no namespace. Its Events are then in `default`, as the API requires. */
  readonly namespace?: string;
  readonly uid: string;
}

/** Something that happened to an object. `reason` and `message` must not hold a secret value. */
export interface EventInput {
  readonly subject: EventSubject;
  readonly type: 'Normal' | 'Warning';
  /** One word in CamelCase. */
  readonly reason: string;
  /** Cut to 1,024 bytes. */
  readonly message: string;
}

/** The present content of one Event object. */
interface EventRecord extends EventInput {
  /** The name of the Event object. */
  readonly name: string;
  /** The column "From" of `kubectl describe`: `mirrors.kts.studio`. */
  readonly component: string;
  /** How often this process recorded the event. */
  count: number;
  /** Wall clock, ms. */
  readonly firstAt: number;
  lastAt: number;
  /** When the Event may be written again, monotonic ms. */
  nextAt: number;
  /** Whether the Event is on the server: then the next write is a PATCH. */
  isThere: boolean;
  /** Number of tries of the present write. */
  tries: number;
}

export interface EventRecorderOptions {
  readonly api: KubeApi;
  /** The name of this process, for `reportingInstance`. */
  readonly instance: string;
  /** Called for an event that is dropped. Must not throw. */
  readonly onDrop?: (input: Pick<EventInput, 'subject' | 'reason'>, error: Error) => void;
  readonly clock?: Clock;
}

/** Most Event objects that wait to be written: of all namespaces, and of one. */
const MOST_PENDING = { all: 1000, namespace: 250 } as const;
/** Limit of one write, ms. */
const TIMEOUT_MS = 5000;
/** Most tries to write an Event: about 20 s with the waits between them. */
const MAX_TRIES = 6;
/** Longest message, bytes. In events.k8s.io/v1 the API server refuses longer ones. */
const MAX_MESSAGE_BYTES = 1024;
/** Shortest time between two writes of one Event, ms. */
const AGAIN_MS = 60_000;
/** Most new Events about one object within `NEW_MS` (ms). Others are left out. */
const MOST_NEW = 25;
const NEW_MS = 600_000;
/** Memory for the Events that were written, and for the objects that they are about, bytes: about 2,000 Events. */
const MEMORY_BYTES = 1024 * 1024;
/** Memory that a record takes besides its texts, bytes: objects, keys, map entries. */
const RECORD_BYTES = 400;

export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #clock: Clock;
  readonly #queue: KeyedQueue;
  /** The Events of this process, by `<namespace>/<name>`. The least recently used are forgotten. */
  readonly #known = new ByteCache<EventRecord>({ maxBytes: MEMORY_BYTES / 2 });
  /** The number of new Events about an object, and when the first of them came, monotonic ms. */
  readonly #news = new ByteCache<{ count: number; readonly since: number }>({ maxBytes: MEMORY_BYTES / 2 });
  /** The Events to be written, by `<namespace>/<name>`. */
  readonly #pending = new Map<string, EventRecord>();
  #stopped = false;

  constructor(options: EventRecorderOptions) {
    const { clock = systemClock } = options;
    this.#options = options;
    this.#clock = clock;
    this.#queue = new KeyedQueue({
      name: 'events',
      clock,
      retryBaseMs: 500,
      retryMaxMs: 10_000,
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
    const namespace = namespaceOf(input.subject);
    const name = nameOf(component, input);
    const key = `${namespace}/${name}`;
    const now = this.#clock.monotonic();
    const record = this.#known.get(key) ?? this.#begin(key, { ...input, component, name }, now);
    if (record === undefined) return;
    record.count++;
    record.lastAt = this.#clock.now();
    if (this.#pending.has(key) || now < record.nextAt) return;
    const neighbours = [...this.#pending.keys()].filter((other) => other.startsWith(`${namespace}/`));
    if (this.#pending.size >= MOST_PENDING.all || neighbours.length >= MOST_PENDING.namespace) {
      this.#options.onDrop?.(input, new Error('too many events wait to be written'));
      return;
    }
    record.tries = 0;
    this.#pending.set(key, record);
    this.#queue.add(key);
  }

  /** Keeps a new Event. @returns `undefined`: its object has too many new ones */
  #begin(key: string, event: EventInput & Pick<EventRecord, 'component' | 'name'>, now: number) {
    const { kind, namespace, name, uid } = event.subject;
    // An object that is gone has no uid here, so its name counts, too.
    const about = JSON.stringify([kind, namespace, name, uid]);
    const before = this.#news.get(about);
    const news = before !== undefined && now - before.since < NEW_MS ? before : { count: 0, since: now };
    if (news.count >= MOST_NEW) return undefined;
    news.count++;
    this.#news.set(about, news, RECORD_BYTES + 2 * about.length);
    const message = truncate(event.message, MAX_MESSAGE_BYTES);
    const wall = this.#clock.now();
    const times = { firstAt: wall, lastAt: wall, nextAt: 0 };
    const record: EventRecord = { ...event, message, ...times, count: 0, isThere: false, tries: 0 };
    this.#known.set(key, record, RECORD_BYTES + 2 * (key.length + message.length));
    return record;
  }

  /** Events that wait to be written. */
  get pending(): number {
    return this.#pending.size;
  }

  /** Writes the pending events within `drainMs` (default 1,000), and drops the rest. Never rejects. */
  async stop({ drainMs = 1000 }: { readonly drainMs?: number } = {}): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    // Those that wait after a failed try are tried once more.
    for (const key of this.#pending.keys()) {
      this.#queue.forget(key);
      this.#queue.add(key);
    }
    const limit = { what: 'writing the last events', limitMs: drainMs, clock: this.#clock };
    await withTimeout((signal) => this.#queue.idle(signal), limit).catch(() => undefined);
    await this.#queue.stop({ graceMs: 100 });
    const reason = new Error('the recorder was stopped');
    for (const record of this.#pending.values()) this.#options.onDrop?.(record, reason);
    this.#pending.clear();
  }

  async #write(key: string, signal: AbortSignal): Promise<undefined> {
    const record = this.#pending.get(key);
    if (record === undefined) return;
    record.tries++;
    if (record.isThere) await this.#patch(record, signal);
    else {
      try {
        await this.#post(record, signal);
      } catch (error) {
        // An earlier process has said it, or an earlier try was carried out and its answer was lost.
        if (!isAlreadyExists(error)) throw error;
      }
    }
    record.isThere = true;
    record.nextAt = this.#clock.monotonic() + AGAIN_MS;
    this.#pending.delete(key);
  }

  async #patch(record: EventRecord, signal: AbortSignal): Promise<void> {
    const { count, lastAt } = record;
    const { api } = this.#options;
    try {
      await api.request({
        method: 'PATCH',
        path: `${collection(record)}/${encodeURIComponent(record.name)}`,
        contentType: 'application/merge-patch+json',
        body: JSON.stringify({ count, lastTimestamp: rfc3339(lastAt) }),
        signal,
        timeoutMs: TIMEOUT_MS,
      });
    } catch (error) {
      if (!isNotFound(error)) throw error;
      // By default the API server deletes Events after an hour. The Event is then created again, with its count.
      await this.#post(record, signal);
    }
  }

  async #post(record: EventRecord, signal: AbortSignal): Promise<void> {
    const { name, component, subject, type, reason, message, count, firstAt, lastAt } = record;
    const { api, instance } = this.#options;
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
    await api.request({ method: 'POST', path: collection(record), body, signal, timeoutMs: TIMEOUT_MS });
  }

  #failed(key: string, error: unknown, retryInMs: number | undefined): void {
    const record = this.#pending.get(key);
    if (record === undefined || (retryInMs !== undefined && isWorthRetrying(error) && record.tries < MAX_TRIES)) return;
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

/** `<object>.<hex>`, with the name of the object cut so that the whole is a valid name. */
function nameOf(component: string, { subject, type, reason, message }: EventInput): string {
  const { kind, namespace, name, uid } = subject;
  const text = JSON.stringify([component, uid, kind, namespace, name, type, reason, message]);
  const hex = createHash('sha256').update(text).digest('hex').slice(0, 20);
  return `${name.slice(0, 252 - hex.length).replace(/[.-]+$/u, '')}.${hex}`;
}

/** At most `maxBytes` of UTF-8, ending in `…` if something was cut off; never half a character. */
function truncate(text: string, maxBytes: number): string {
  if (text.length * 3 <= maxBytes || Buffer.byteLength(text) <= maxBytes) return text;
  const bytes = Buffer.from(text);
  let end = maxBytes - 3;
  // Bytes 10xxxxxx continue a character.
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return `${bytes.toString('utf8', 0, end)}…`;
}

function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
