export const EXIT_DONE = 0;
export const EXIT_FAILED = 1;
export const EXIT_USAGE = 2;
/** Of `plan` and `migrate`: a copy would be lost or refused. Of `migrate` also: something needs a decision. */
export const EXIT_LOSS_OR_REFUSAL = 3;
