/** The words for an author about a failure of Vault or of the API server. */
import { vaultFault, type VaultLogin } from '../../../copy/vault/access/access.ts';
import { failureOf } from '../../../copy/model/cause.ts';
import { missingCredential } from '../../../copy/vault/access/login-tokens.ts';
import { ApiError, ConnectionError } from '../../../kube/errors.ts';
import { isVaultError, type VaultErrorKind } from '../../../vault/errors.ts';
import { TimeLimitError } from '../../../runtime/abort.ts';
import type { Problem } from '../request/requests.ts';
import { StoreError } from '../store/store-spec.ts';

/** What was answered is not shown: the server may be any server that the author named. */
const UNSHOWN: Partial<Record<VaultErrorKind, string>> = {
  badResponse: 'the server of the store did not answer as Vault does',
  redirect: 'the server of the store redirects to another one, and credentials are not sent there',
};

/**
 * A failure as a problem.
 * @param field where it is: a store, or a field of the ExternalSecret
 * @param auth whose credentials Vault got; `undefined`: Vault was not called
 * @returns `undefined` for an error that is not about a store, Vault, the API server or a credential
 */
export function problemOf(error: unknown, field: string, auth: VaultLogin['auth'] | undefined): Problem | undefined {
  if (error instanceof StoreError) return { reason: error.reason, field, message: error.message, fault: error.fault };
  const missing = missingCredential(error);
  if (missing !== undefined) return { reason: 'ErrorCreating', field, message: missing.message, fault: missing.fault };
  if (isVaultError(error)) {
    const { kind, reason, addr, path, transient } = error;
    // Which call fails first while the server is down differs from try to try, and the message must not.
    const call = path === undefined || transient ? '' : `${path}: `;
    const message = UNSHOWN[kind] ?? `vault ${addr}: ${call}${reason}`;
    return { reason: 'ErrorCreating', field, message, fault: vaultFault(error, auth) };
  }
  // The message of the API server names the missing permission and its namespace.
  if (error instanceof ApiError)
    return { reason: 'ErrorCreating', field, message: error.statusMessage, fault: failureOf(error).fault };
  if (error instanceof ConnectionError || error instanceof TimeLimitError)
    return { reason: 'ErrorCreating', field, message: error.message, fault: 'operator' };
  return undefined;
}
