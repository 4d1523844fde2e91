import type { AuthHeaders, CredentialSource, TlsMaterial } from '../../src/kube/connection.ts';

/** Credentials that never change. */
export function staticCredentials(
  headers: AuthHeaders,
  tls: TlsMaterial = { rejectUnauthorized: true },
): CredentialSource {
  return { headers: () => headers, tls: () => tls, invalidate: () => undefined };
}
