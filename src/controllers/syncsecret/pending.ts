/**
 * Decides when to write a status that is not final, such as `Pending`. Each write costs as much as a copy, and most
 * rules are done soon. So such a state is written only if it lasts. While other rules are being completed, a rule
 * probably just waits in the queue. Then it is written only after a long time.
 */
import type { RuleKey } from '../../copy/model/keys.ts';

/** A state is written if it lasts longer than this, ms. */
const WAIT_MS = 1500;
/** Pause before a rule that probably waits in the queue is checked again, ms. */
const TURN_MS = 3000;
/** A state that lasts longer than this is written, whatever becomes of other rules, ms. */
const LONG_MS = 60_000;

export class Pending {
  /** When each rule began to wait, monotonic ms. */
  readonly #since = new Map<RuleKey, number>();
  #doneAt = -Infinity;

  /**
   * @param isTurn whether the rule may just wait in the queue, because no problem is known
   * @param now monotonic clock, ms
   * @returns ms until the next check; 0: write the state now
   */
  waitMs(rule: RuleKey, isTurn: boolean, now: number): number {
    const since = this.#since.get(rule) ?? now;
    this.#since.set(rule, since);
    const remaining = since + WAIT_MS - now;
    if (remaining > 0) return remaining;
    return isTurn && now - this.#doneAt < TURN_MS && now - since < LONG_MS ? TURN_MS : 0;
  }

  /** Call it when the state of a rule is final. */
  done(rule: RuleKey, now: number): void {
    if (this.#since.delete(rule)) this.#doneAt = now;
  }

  forget(rule: RuleKey): void {
    this.#since.delete(rule);
  }
}
