/** What a rule that cannot be carried out wishes for the copies that it has: that nobody touches them, and why. */
import type { Claim, DesiredState, Owner, Shape } from './claim.ts';
import type { ResourceKey } from './keys.ts';

export class LeaveShape implements Shape {
  readonly id: string;
  readonly #desired: DesiredState;

  constructor(reason: string, message: string) {
    this.id = `leave ${reason} ${message}`;
    this.#desired = { kind: 'fail', reason, message };
  }

  desiredState(): DesiredState {
    return this.#desired;
  }

  heldVersion(): undefined {
    return undefined;
  }
}

/** Claims by which a rule keeps the copies that it has made, and leaves them as they are. */
export function leavingClaims(owner: Owner, targets: Iterable<ResourceKey>, reason: string, message: string): Claim[] {
  const leave = { owner, mode: 'own', source: undefined, shape: new LeaveShape(reason, message) } as const;
  return Array.from(targets, (target) => ({ ...leave, target }));
}
