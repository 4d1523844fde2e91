import type { TlsMaterial } from '../../src/http/agent.ts';
import type { AuthHeaders, CredentialSource } from '../../src/kube/connection.ts';

/** Credentials that never change. */
export function staticCredentials(
  headers: AuthHeaders,
  tls: TlsMaterial = { rejectUnauthorized: true },
): CredentialSource {
  return { headers: async () => headers, tls: async () => tls, invalidate: () => undefined };
}
