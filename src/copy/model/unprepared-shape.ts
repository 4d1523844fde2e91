/** The desired state of the targets of a rule that is not prepared: unchanged, until its finalizer is on the server. */
import { nobodyCause } from './cause.ts';
import { type DesiredState, PENDING, type Shape } from './claim.ts';

const WAIT: DesiredState = {
  kind: 'wait',
  for: 'watch',
  ...nobodyCause(PENDING.reason, 'the finalizer of the rule is being written'),
};

export const UNPREPARED: Shape = { id: 'unprepared', desiredState: () => WAIT, heldVersion: () => undefined };
