/** There is no credential for a login. Its message is used for events and conditions. */
export class VaultAuthMissingError extends Error {
  override readonly name = 'VaultAuthMissingError';
}

/** The missing credential that caused a login to fail, if there is one. */
export function missingCredential(error: unknown): VaultAuthMissingError | undefined {
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof VaultAuthMissingError) return cause;
  }
  return undefined;
}
