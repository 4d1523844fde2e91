/** The desired state of the copies of a rule that is not valid: unchanged, with a reason. */
import type { Cause } from './cause.ts';
import type { Claim, DesiredState, Owner, Shape } from './claim.ts';
import type { ResourceKey } from './keys.ts';

export class LeaveShape implements Shape {
  readonly id: string;
  readonly #desired: DesiredState;

  constructor(cause: Cause) {
    this.id = `leave ${cause.reason} ${cause.message}`;
    this.#desired = { kind: 'fail', ...cause };
  }

  desiredState(): DesiredState {
    return this.#desired;
  }

  heldVersion(): undefined {
    return undefined;
  }
}

/** Claims that keep the copies of a rule unchanged. */
export function leavingClaims(owner: Owner, targets: Iterable<ResourceKey>, cause: Cause): Claim[] {
  const leave = { owner, mode: 'own', source: undefined, shape: new LeaveShape(cause) } as const;
  return Array.from(targets, (target) => ({ ...leave, target }));
}
