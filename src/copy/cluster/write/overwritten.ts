/**
 * A mutating admission policy or webhook can change an object before the server stores it. The response to a write shows it:
 * - for labels and annotations always, because every response has the metadata;
 * - for data only in a full response. Neither metadata nor managedFields show it: these name the fields that were sent.
 *
 * A full response costs no request, but as many bytes as were sent. So there is a budget. It is enough for all usual writes; in a burst
 * (the first thousand copies) each content gets one full response, and others as the budget allows. A target that was overwritten
 * carries `OVERWRITTEN_MARK`: then its metadata do not show its data, also after a restart.
 */
import { userCause } from '../../model/cause.ts';
import type { Outcome, DesiredObject } from '../../model/claim.ts';
import type { Content } from '../../model/content.ts';
import type { Written } from './object-writer.ts';
import { type Observed, observe } from '../../model/observed.ts';
import { matches, OVERWRITTEN_MARK } from '../../plan/plan-write.ts';

export const OVERWRITTEN: Outcome = {
  state: 'error',
  ...userCause(
    'Overwritten',
    'the server stored something else than was written: an admission policy or webhook changes it; backing off',
  ),
};

/** Size of the budget, and its growth. A Secret of a few values takes 2 KiB. */
const BURST_BYTES = 32 * 1024;
const BYTES_PER_SECOND = 4096;

/** Decides which writes request a full response. After a restart the budget is full again. */
export class FullResponseBudget {
  /** Wall clock, ms. */
  readonly #now: () => number;
  readonly #checked = new WeakSet<Content>();
  #bytes = BURST_BYTES;
  #at: number;

  constructor(now: () => number) {
    this.#now = now;
    this.#at = now();
  }

  /** Whether the next write of `content` requests a full response. Subtracts it from the budget. */
  isDue(content: Content): boolean {
    const now = this.#now();
    const seconds = Math.max(0, now - this.#at) / 1000;
    this.#at = now;
    this.#bytes = Math.min(BURST_BYTES, this.#bytes + seconds * BYTES_PER_SECOND);
    const isFirst = !this.#checked.has(content);
    this.#checked.add(content);
    const isAffordable = content.weight <= this.#bytes;
    if (isAffordable) this.#bytes -= content.weight;
    return isFirst || isAffordable;
  }
}

/** Whether the last write of a target was overwritten. */
export function isMarkedOverwritten(observed: Observed | undefined): boolean {
  return observed?.annotations[OVERWRITTEN_MARK] !== undefined;
}

/** The desired object of a target that was overwritten: with the mark. */
export function withOverwrittenMark(desired: DesiredObject): DesiredObject {
  return { ...desired, annotations: { ...desired.annotations, [OVERWRITTEN_MARK]: 'true' } };
}

/**
 * Whether the server stored another object than the desired one.
 * @param content the data that were written, if any
 * @param kept the stored part of the response's metadata, if known
 */
export function isOverwritten(
  { meta, stored }: Written,
  desired: DesiredObject,
  content: Content | undefined,
  kept?: Observed,
): boolean {
  const observed = kept === undefined || kept.trimmed === true ? observe(meta) : kept;
  if (!matches(desired, observed)) return true;
  if (stored === undefined || content === undefined) return false;
  const type = desired.type ?? content.type;
  return stored.digest !== content.digest || (type !== '' && stored.type !== type);
}
