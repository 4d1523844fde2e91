/**
 * Writes the files that the servers of a control plane read: keys, certificates, users with their tokens, audit policy.
 */
import { generateKeyPairSync } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';

import type { CertificateAuthority } from './certificates.ts';
import type { Layout } from './control-plane-args.ts';

export interface UserOptions {
  readonly name: string;
  readonly groups?: readonly string[];
}

/** Writes one line when a request is answered. A watch gets another line when it begins. */
const AUDIT_POLICY = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    omitManagedFields: true
`;

/** Writes all files. @param tokens - the token of each user, by user name */
export async function writeControlPlaneFiles(
  layout: Layout,
  users: readonly UserOptions[],
  tokens: Readonly<Record<string, string>>,
  ca: CertificateAuthority,
): Promise<void> {
  await mkdir(layout.pki);
  const inPki = (name: string, text: string): Promise<void> =>
    writeFile(path.join(layout.pki, name), text, { mode: 0o600 });
  const server = await ca.server('kube-apiserver');
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const lines = users.map(({ name, groups = [] }) => `${tokens[name] ?? ''},${name},${name},"${groups.join(',')}"\n`);
  await Promise.all([
    inPki('ca.crt', ca.certPem),
    inPki('server.crt', server.certPem),
    inPki('server.key', server.keyPem),
    inPki('service-account.key', privateKey.export({ type: 'sec1', format: 'pem' }).toString()),
    writeFile(layout.tokensFile, lines.join(''), { mode: 0o600 }),
    writeFile(layout.auditPolicyFile, AUDIT_POLICY),
  ]);
}
