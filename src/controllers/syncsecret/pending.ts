/**
 * Since when the state of a rule is not final. Such a state is written only if it lasts: most rules are done before, and each write costs as
 * much as a copy. While others get done, a rule may simply be waiting for its turn, so it waits longer.
 */
import type { RuleKey } from '../../copy/model/keys.ts';

/** A state is written if it lasts longer than this, ms. */
const WAIT_MS = 1500;
/** Between two looks at a rule that waits for its turn, ms. */
const TURN_MS = 3000;
/** Written after this time in any case, ms. */
const MAX_WAIT_MS = 15_000;

export class Pending {
  readonly #since = new Map<RuleKey, number>();
  #doneAt = -Infinity;

  /**
   * @param isTurn nothing is known to be wrong: it may be waiting for its turn
   * @param now wall clock, ms
   * @returns how long to wait before the state is written, ms; 0: it is to be written now
   */
  waitMs(rule: RuleKey, isTurn: boolean, now: number): number {
    const since = this.#since.get(rule) ?? now;
    this.#since.set(rule, since);
    const remaining = since + WAIT_MS - now;
    if (remaining > 0) return remaining;
    const isBusy = isTurn && now - this.#doneAt < TURN_MS && now - since < MAX_WAIT_MS;
    return isBusy ? TURN_MS : 0;
  }

  /** The state of a rule is final. */
  done(rule: RuleKey, now: number): void {
    if (this.#since.delete(rule)) this.#doneAt = now;
  }

  forget(rule: RuleKey): void {
    this.#since.delete(rule);
  }
}
