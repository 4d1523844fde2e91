/** What a rule that cannot be carried out wishes for the copies that it has: that nobody touches them, and why. */
import type { Desire, Shape } from './claim.ts';

export class LeaveShape implements Shape {
  readonly id: string;
  readonly #desire: Desire;

  constructor(reason: string, message: string) {
    this.id = `leave ${reason} ${message}`;
    this.#desire = { kind: 'fail', reason, message };
  }

  desire(): Desire {
    return this.#desire;
  }

  heldVersion(): undefined {
    return undefined;
  }
}
