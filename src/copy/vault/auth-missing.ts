/** There is no credential to log in with. The message is the event's and condition's. */
export class VaultAuthMissingError extends Error {
  override readonly name = 'VaultAuthMissingError';
}

/** That there is nothing to log in with, where that is why a login failed. */
export function missingCredential(error: unknown): VaultAuthMissingError | undefined {
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof VaultAuthMissingError) return cause;
  }
  return undefined;
}
