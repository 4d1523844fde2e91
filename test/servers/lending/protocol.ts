/**
 * How a test file borrows servers from `npm test`: a connection to the socket that `SOCKET_VARIABLE` names, with a line of JSON from each side,
 * a `Wish` and an `Offer`. The connection stays open until the process of the test file ends. If the borrower has written `RETURN` by
 * then, its test has stopped all that used the servers, and the next file can get them. Otherwise they are stopped.
 */
import type { ControlPlaneAccess } from '../control-plane-servers.ts';

/** The environment variable with the path of the lender's socket. Without it, every test starts its own servers. */
export const SOCKET_VARIABLE = 'KEYFERRY_TEST_LENDER';

export const RETURN = 'return';

/** What the borrower needs. */
export interface Wish {
  readonly audit: boolean;
}

export type Offer = { readonly access: ControlPlaneAccess } | { readonly error: string };
