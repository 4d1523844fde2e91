/**
 * How a test file borrows servers from `npm test`. It connects to the socket in `SOCKET_VARIABLE`, and sends a `Wish`
 * as a line of JSON; the lender answers with an `Offer`. When the file no longer needs the servers, it writes `RETURN`.
 * If it needs servers again, it writes the next `Wish`, and gets the same servers, cleaned and as it wishes. The connection stays open
 * until the process of the file ends. After that, the next file gets the servers. If the process ends without `RETURN`,
 * the servers are stopped.
 */
import { KEYFERRY_ACCOUNT } from '../../support/service-account.ts';
import type { UserOptions } from '../control-plane-files.ts';
import type { ControlPlaneAccess } from '../control-plane-servers.ts';

/**
 * The environment variable with the path of the lender's socket. If it is not set, each test starts its own servers.
 */
export const SOCKET_VARIABLE = 'KEYFERRY_TEST_LENDER';

export const RETURN = 'return';

/**
 * The users of each lent control plane, besides `admin`: all that test files ask for. They have no permissions until a
 * test grants some, and `baseline.ts` takes these away.
 */
export const LENT_USERS: readonly UserOptions[] = [
  KEYFERRY_ACCOUNT,
  ...['alice', 'bob', 'both', 'keyferry', 'limited', 'nobody', 'reader', 'served', 'tenant'].map((name) => ({ name })),
];

/** The properties that the borrowed servers must have. Lent servers always write an audit log. */
export interface Wish {
  /** Whether the CRDs of Keyferry are in place. */
  readonly crds: boolean;
}

export type Offer = { readonly access: ControlPlaneAccess; readonly apiServerPid: number } | { readonly error: string };
