/** Decides for each event: create an Event object, raise the count of an existing one, or write nothing. No I/O. */
import { createHash } from 'node:crypto';
import { ByteCache } from '../runtime/maps.ts';

/** The object that an event is about. */
export interface EventSubject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  /** `undefined`: the object is in no namespace. Its Events are then in `default`, as the API requires. */
  readonly namespace?: string;
  readonly uid: string;
}

export type EventType = 'Normal' | 'Warning';

/** Something that happened to an object. `reason` and `message` must not hold a secret value. */
export interface EventInput {
  readonly subject: EventSubject;
  readonly type: EventType;
  /** One word in CamelCase. */
  readonly reason: string;
  /** Cut to 1,024 bytes. */
  readonly message: string;
  /**
   * Set if the event reports a lasting state: then its Event has the same name in every process. `found`: the state
   * existed before this process looked for the first time. An Event that another process wrote for it stays unchanged.
   * `begun`: the state began later, so such an Event gets the new time.
   */
  readonly state?: 'found' | 'begun';
}

/** The present content of one Event object. */
export interface EventRecord extends EventInput {
  /** The name of the Event object. */
  readonly name: string;
  /** The column "From" of `kubectl describe`: `mirrors.kts.studio`. */
  readonly component: string;
  count: number;
  /** Wall clock, ms. */
  readonly firstAt: number;
  lastAt: number;
  /** Whether the Event is on the server: then the next write is a PATCH. */
  isCreated: boolean;
  /** Number of tries to write the present count. */
  tries: number;
}

/** Longest message, bytes. In events.k8s.io/v1 the API server refuses longer ones. */
export const MAX_MESSAGE_BYTES = 1024;

const SAME_EVENT_MS = 3_600_000;
const SPAM_BURST = 25;
const SPAM_REFILL_MS = 300_000;
/** Memory that a record takes besides its texts, bytes: objects, keys, map entries. */
const RECORD_OVERHEAD = 400;

/**
 * Counts and limits events by two rules of client-go (tools/record):
 * - If the same event (component, object, type, reason, message) occurs again within an hour, its Event gets a higher
 *   count.
 * - Each component may write 25 events at once for an object and type, then one every five minutes. Further events are
 *   counted but not written. When the same event is next written, its count includes them.
 * All state is in caches of limited size, which drop the least recently used entries.
 */
export class EventCorrelator {
  readonly #random: () => number;
  readonly #records: ByteCache<EventRecord>;
  readonly #buckets: ByteCache<{ tokens: number; at: number }>;

  /**
   * @param random number for the names of Events, 0 ≤ r < 1
   * @param maxBytes approximate memory for sent events; 1 MiB holds about 2,000 events
   */
  constructor(random: () => number = Math.random, maxBytes = 1024 * 1024) {
    this.#random = random;
    this.#records = new ByteCache({ maxBytes: maxBytes / 2 });
    this.#buckets = new ByteCache({ maxBytes: maxBytes / 2 });
  }

  /**
   * The Event object to write: a new one, or a known one with a higher count. `undefined`: none, the limit is reached.
   * @param now wall clock, ms
   */
  correlate(component: string, input: EventInput, now: number): EventRecord | undefined {
    const { subject, type, reason } = input;
    const subjectKey = JSON.stringify([component, subject.uid, subject.kind, subject.namespace, subject.name, type]);
    const message = truncate(input.message, MAX_MESSAGE_BYTES);
    const record = this.#count(`${subjectKey}${reason} ${message}`, { ...input, component, message }, now);
    return this.#takeToken(subjectKey, now) ? record : undefined;
  }

  #count(key: string, input: EventInput & Pick<EventRecord, 'component'>, now: number): EventRecord {
    const known = this.#records.get(key);
    if (known !== undefined && now - known.lastAt <= SAME_EVENT_MS) {
      known.count++;
      known.lastAt = now;
      return known;
    }
    const { name: about } = input.subject;
    const name = input.state !== undefined ? nameWith(about, hashOf(key)) : eventName(about, now, this.#random());
    const record = { ...input, name, count: 1, firstAt: now, lastAt: now, isCreated: false, tries: 0 };
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

/** `<object>.<hex>`; the hex is the time and 20 random bits. */
export function eventName(object: string, now: number, random: number): string {
  const bits = Math.floor(random * 2 ** 20).toString(16);
  return nameWith(object, `${now.toString(16)}${bits.padStart(5, '0')}`);
}

/** `<object>.<hex>`, with the name of the object cut so that the whole is a valid name. */
function nameWith(object: string, hex: string): string {
  return `${object.slice(0, 252 - hex.length).replace(/[.-]+$/u, '')}.${hex}`;
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 20);
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
