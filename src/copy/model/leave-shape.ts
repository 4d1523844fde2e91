/** The desired state of the copies of a rule that is not valid: unchanged, with a reason. */
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

/** Claims that keep the copies of a rule unchanged. */
export function leavingClaims(owner: Owner, targets: Iterable<ResourceKey>, reason: string, message: string): Claim[] {
  const leave = { owner, mode: 'own', source: undefined, shape: new LeaveShape(reason, message) } as const;
  return Array.from(targets, (target) => ({ ...leave, target }));
}
