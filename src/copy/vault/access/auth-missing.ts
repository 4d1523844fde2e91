import type { Fault } from '../../model/cause.ts';

/** There is no credential for a login. Its message is used for events and conditions. */
export class VaultAuthMissingError extends Error {
  override readonly name = 'VaultAuthMissingError';
  readonly fault: Fault;

  constructor(message: string, fault: Fault, options?: ErrorOptions) {
    super(message, options);
    this.fault = fault;
  }
}

/** The missing credential that caused a login to fail, if there is one. */
export function missingCredential(error: unknown): VaultAuthMissingError | undefined {
  return causedBy(error, VaultAuthMissingError);
}

/** The first error of a class among an error and its causes. */
export function causedBy<E extends Error>(error: unknown, of: abstract new (...args: never[]) => E): E | undefined {
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof of) return cause;
  }
  return undefined;
}
