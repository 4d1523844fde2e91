/**
 * How a test file borrows servers from `npm test`. It connects to the socket in `SOCKET_VARIABLE`, and each side sends
 * a line of JSON: a `Wish`, and an `Offer`. The connection stays open until the process of the test file ends. Before
 * that, the borrower writes `RETURN` when it has stopped all that used the servers, and then the next file can get
 * them. Without `RETURN`, they are stopped.
 */
import type { ControlPlaneAccess } from '../control-plane-servers.ts';

/** The environment variable with the path of the lender's socket. Without it, every test starts its own servers. */
export const SOCKET_VARIABLE = 'KEYFERRY_TEST_LENDER';

export const RETURN = 'return';

/** What the borrower needs of the servers. */
export interface Wish {
  readonly audit: boolean;
}

export type Offer = { readonly access: ControlPlaneAccess } | { readonly error: string };
