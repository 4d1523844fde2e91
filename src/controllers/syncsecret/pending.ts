/**
 * Decides when to write a state that is not final, such as `Pending`. Each write costs as much as a copy, and most
 * rules are done soon. So only a state that lasts is written. While other rules get done, a rule may just wait for its
 * turn. Then only the rule that waits longest gets its state written, after a time in which its turn should have come.
 */
import type { RuleKey } from '../../copy/model/keys.ts';

/** A state is written if it lasts longer than this, ms. */
const WAIT_MS = 1500;
/** Pause before a rule that waits for its turn is checked again, ms. */
const TURN_MS = 3000;
/** The rule that waits longest should have had its turn within this time, ms. */
const PASSED_MS = 15_000;

export class Pending {
  /** When each rule began to wait, monotonic ms, in the order of their turns. */
  readonly #since = new Map<RuleKey, number>();
  /** The rule that waits longest, and since when it is the first one, monotonic ms. */
  #first: { readonly rule: RuleKey; readonly since: number } | undefined;
  #doneAt = -Infinity;

  /**
   * @param isTurn whether the rule may just wait for its turn: nothing wrong is known
   * @param now monotonic clock, ms
   * @returns ms until the next check; 0: write the state now
   */
  waitMs(rule: RuleKey, isTurn: boolean, now: number): number {
    const since = this.#since.get(rule) ?? now;
    this.#since.set(rule, since);
    const remaining = since + WAIT_MS - now;
    if (remaining > 0) return remaining;
    return isTurn && now - this.#doneAt < TURN_MS && !this.#isPassed(rule, since, now) ? TURN_MS : 0;
  }

  #isPassed(rule: RuleKey, since: number, now: number): boolean {
    const [first] = this.#since.keys();
    if (rule !== first) return false;
    if (this.#first?.rule !== rule) this.#first = { rule, since: now };
    if (now - this.#first.since < PASSED_MS) return false;
    // The rule moves to the end, so that the next rule becomes the first.
    this.#since.delete(rule);
    this.#since.set(rule, since);
    return true;
  }

  /** Call it when the state of a rule is final. */
  done(rule: RuleKey, now: number): void {
    if (this.#since.delete(rule)) this.#doneAt = now;
  }

  forget(rule: RuleKey): void {
    this.#since.delete(rule);
  }
}
