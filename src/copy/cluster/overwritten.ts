/**
 * A mutating admission policy or webhook can make the server store something else than was written. The answer to a write says so:
 * - of labels and annotations always, because every answer has the metadata;
 * - of data only where it was asked for in full. Neither metadata nor managedFields show it: these name what was sent.
 *
 * Answers in full cost no request, but bytes: as many as were sent. So they are asked for within a budget that leaves room for all
 * everyday writes; of a burst (the first copies of a thousand) it is one for each content, and what the budget allows. A target that
 * was found overwritten carries `OVERWRITTEN_MARK`: its metadata are then not taken for a proof of its data, after a restart either.
 */
import type { Outcome } from '../model/claim.ts';
import type { Content } from '../model/content.ts';
import type { Written } from './object-writer.ts';
import { type Observed, observe } from '../model/observed.ts';
import { matches, OVERWRITTEN_MARK, type DesiredObject } from '../plan/desired.ts';

/** What users are told. */
export const OVERWRITTEN: Outcome = {
  state: 'error',
  reason: 'Overwritten',
  message:
    'the server stored something else than was written: an admission policy or webhook changes it; Keyferry writes it again at growing intervals',
};

/** Answers that may come at once, in bytes, and how many more each second. A Secret of a few values takes 2 KiB. */
const BURST_BYTES = 32 * 1024;
const BYTES_PER_SECOND = 4096;

/** Decides which writes are answered in full. Safe to lose: it starts again with a full budget. */
export class ProofBudget {
  /** Wall clock, ms. */
  readonly #now: () => number;
  readonly #asked = new WeakSet<Content>();
  #bytes = BURST_BYTES;
  #at: number;

  constructor(now: () => number) {
    this.#now = now;
    this.#at = now();
  }

  /** Whether the answer to the next write of `content` is to bring what was stored. Takes it off the budget. */
  isDue(content: Content): boolean {
    const now = this.#now();
    const seconds = Math.max(0, now - this.#at) / 1000;
    this.#at = now;
    this.#bytes = Math.min(BURST_BYTES, this.#bytes + seconds * BYTES_PER_SECOND);
    const isFirst = !this.#asked.has(content);
    this.#asked.add(content);
    const isAffordable = content.weight <= this.#bytes;
    if (isAffordable) this.#bytes -= content.weight;
    return isFirst || isAffordable;
  }
}

/** Whether a target was found overwritten when it was written last. */
export function isMarked(observed: Observed | undefined): boolean {
  return observed?.annotations[OVERWRITTEN_MARK] !== undefined;
}

/** The same desired for a target that was found overwritten: the mark is written along with the data. */
export function withMark(desired: DesiredObject): DesiredObject {
  return { ...desired, annotations: { ...desired.annotations, [OVERWRITTEN_MARK]: 'true' } };
}

/** Whether the server stored something else than was wished for. @param content what was written, if it was data */
export function isOverwritten(
  { meta, stored }: Written,
  desired: DesiredObject,
  content: Content | undefined,
): boolean {
  if (!matches(desired, observe(meta))) return true;
  if (stored === undefined || content === undefined) return false;
  const type = desired.type ?? content.type;
  return stored.digest !== content.digest || (type !== '' && stored.type !== type);
}
