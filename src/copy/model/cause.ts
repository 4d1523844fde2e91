/**
 * Why something is not done, and whose fault that is. Whoever makes a cause knows both, and says so: no reader decides it from a text, because texts
 * hold the names, paths and messages of users and servers.
 */

/** Who can end it: the author of the rule, or whoever runs Keyferry, its clusters and Vault. `nobody`: work is under way. */
export type Fault = 'user' | 'operator' | 'nobody';

/** As in a condition of Kubernetes: one word in CamelCase, and a text for people. */
export interface Cause<Reason extends string = string> {
  readonly reason: Reason;
  readonly message: string;
  readonly fault: Fault;
  /**
   * The message for a tenant: the same, or another text where it has names that a tenant may not know (quotas, webhooks, addresses, rules of
   * others).
   */
  readonly publicMessage: string;
}

/** The author of the rule can end it: a mistake in it, or the state of an object or entry that it names. */
export function userCause<R extends string>(reason: R, message: string, publicMessage = message): Cause<R> {
  return { reason, message, fault: 'user', publicMessage };
}

/** Whoever runs Keyferry, its clusters and Vault can end it: permissions of Keyferry, servers that do not answer, and all that is not known. */
export function operatorCause<R extends string>(reason: R, message: string, publicMessage = message): Cause<R> {
  return { reason, message, fault: 'operator', publicMessage };
}

/** Nothing is wrong: work is under way, or is not needed any more. */
export function nobodyCause<R extends string>(reason: R, message: string, publicMessage = message): Cause<R> {
  return { reason, message, fault: 'nobody', publicMessage };
}

/** Only the cause of an outcome, plan or view. */
export function causeOf<R extends string>({ reason, message, fault, publicMessage }: Cause<R>): Cause<R> {
  return { reason, message, fault, publicMessage };
}

export function sameCause(a: Cause | undefined, b: Cause | undefined): boolean {
  return (
    a?.reason === b?.reason &&
    a?.message === b?.message &&
    a?.fault === b?.fault &&
    a?.publicMessage === b?.publicMessage
  );
}
