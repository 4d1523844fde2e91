/**
 * Decides whether an event becomes a new Event object, raises the count of an old one, or is dropped. No I/O.
 *
 * The rules are two of client-go's (tools/record):
 * - The same (object, type, reason, message) again within an hour is the same Event with a higher count.
 * - For each object and type 25 at once, then one in five minutes. Further events are counted but not written; their count
 *   is in the next one that is written.
 *
 * All state is in caches of limited size, which drop the least recently used entries.
 */
import { ByteCache } from '../runtime/byte-cache.ts';

/** The object that an event is about. */
export interface EventSubject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  /** None: the event is in the namespace `default`, as the API requires. */
  readonly namespace?: string;
  readonly uid: string;
}

export type EventType = 'Normal' | 'Warning';

/** Something that happened to a subject. Neither text may hold a secret value. */
export interface EventInput {
  readonly subject: EventSubject;
  readonly type: EventType;
  /** One word in CamelCase. */
  readonly reason: string;
  /** Cut to 1,024 bytes. */
  readonly message: string;
}

/** One Event object as it is now. */
export interface EventRecord {
  /** Of the Event object. */
  readonly name: string;
  readonly subject: EventSubject;
  readonly type: EventType;
  readonly reason: string;
  readonly message: string;
  count: number;
  /** Wall clock, ms. */
  readonly firstAt: number;
  lastAt: number;
}

export interface CorrelatorOptions {
  /** Approximate memory for sent events, bytes. Default 1 MiB: about 2,000 events. */
  readonly maxBytes?: number;
  /** 0 ≤ r < 1, for names. */
  readonly random?: (() => number) | undefined;
}

/** The API server refuses longer notes in events.k8s.io/v1. */
export const MAX_MESSAGE_BYTES = 1024;

const SAME_EVENT_MS = 3_600_000;
const SPAM_BURST = 25;
const SPAM_REFILL_MS = 300_000;
/** Memory of a record beside its texts, bytes: objects, keys, map entries. */
const RECORD_OVERHEAD = 400;

interface Bucket {
  tokens: number;
  at: number;
}

export class EventCorrelator {
  readonly #random: () => number;
  readonly #records: ByteCache<EventRecord>;
  readonly #buckets: ByteCache<Bucket>;

  constructor({ maxBytes = 1024 * 1024, random = Math.random }: CorrelatorOptions = {}) {
    this.#random = random;
    this.#records = new ByteCache({ maxBytes: maxBytes / 2 });
    this.#buckets = new ByteCache({ maxBytes: maxBytes / 2 });
  }

  /**
   * The Event object that the input belongs to, counted up or new; `undefined` if it is not to be written.
   * @param now wall clock, ms
   */
  correlate(input: EventInput, now: number): EventRecord | undefined {
    const { subject, type, reason } = input;
    const subjectKey = JSON.stringify([subject.uid, subject.kind, subject.namespace, subject.name, type]);
    const message = truncate(input.message, MAX_MESSAGE_BYTES);
    const record = this.#count(`${subjectKey}${reason} ${message}`, { ...input, message }, now);
    return this.#takeToken(subjectKey, now) ? record : undefined;
  }

  #count(key: string, { subject, type, reason, message }: EventInput, now: number): EventRecord {
    const known = this.#records.get(key);
    if (known !== undefined && now - known.lastAt <= SAME_EVENT_MS) {
      known.count++;
      known.lastAt = now;
      return known;
    }
    const name = eventName(subject.name, now, this.#random());
    const record = { name, subject, type, reason, message, count: 1, firstAt: now, lastAt: now };
    this.#records.set(key, record, RECORD_OVERHEAD + 2 * key.length);
    return record;
  }

  #takeToken(key: string, now: number): boolean {
    const bucket = this.#buckets.get(key) ?? { tokens: SPAM_BURST, at: now };
    const refill = Math.max(0, now - bucket.at) / SPAM_REFILL_MS;
    bucket.tokens = Math.min(SPAM_BURST, bucket.tokens + refill);
    bucket.at = now;
    const granted = bucket.tokens >= 1;
    if (granted) bucket.tokens--;
    this.#buckets.set(key, bucket, RECORD_OVERHEAD + key.length);
    return granted;
  }
}

/** `<object>.<hex>`, cut so that it is a valid name; the hex is the time and 20 random bits. */
export function eventName(object: string, now: number, random: number): string {
  const suffix = `.${now.toString(16)}${Math.floor(random * 2 ** 20)
    .toString(16)
    .padStart(5, '0')}`;
  return object.slice(0, 253 - suffix.length).replace(/[.-]+$/u, '') + suffix;
}

/** At most `maxBytes` of UTF-8, ending in `…` if something was cut off; never half a character. */
export function truncate(text: string, maxBytes: number): string {
  if (text.length * 3 <= maxBytes || Buffer.byteLength(text) <= maxBytes) return text;
  const bytes = Buffer.from(text);
  let end = maxBytes - 3;
  // Bytes 10xxxxxx continue a character.
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return `${bytes.toString('utf8', 0, end)}…`;
}
