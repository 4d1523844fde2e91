/** Writes kubeconfig files for the servers of a test. */
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { stringify } from 'yaml';

export interface KubeconfigOptions {
  /** The URL of the API server, or of a proxy in front of it. */
  readonly server: string;
  /** The CA of the server's certificate, as PEM. Default: the public CAs. */
  readonly caPem?: string;
  readonly token?: string;
  readonly clientCertPem?: string;
  readonly clientKeyPem?: string;
  /** The default namespace of the context. */
  readonly namespace?: string;
}

/** The text of a kubeconfig with a single context, named `test`. */
export function kubeconfigYaml(options: KubeconfigOptions): string {
  const base64 = (text: string): string => Buffer.from(text).toString('base64');
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'test',
        cluster: {
          server: options.server,
          ...(options.caPem === undefined ? {} : { 'certificate-authority-data': base64(options.caPem) }),
        },
      },
    ],
    users: [
      {
        name: 'test',
        user: {
          ...(options.token === undefined ? {} : { token: options.token }),
          ...(options.clientCertPem === undefined ? {} : { 'client-certificate-data': base64(options.clientCertPem) }),
          ...(options.clientKeyPem === undefined ? {} : { 'client-key-data': base64(options.clientKeyPem) }),
        },
      },
    ],
    contexts: [
      {
        name: 'test',
        context: {
          cluster: 'test',
          user: 'test',
          ...(options.namespace === undefined ? {} : { namespace: options.namespace }),
        },
      },
    ],
    'current-context': 'test',
  });
}

/** Writes a kubeconfig as a new file in `folder`. Only its owner can read the file. @returns the path */
export async function writeKubeconfigFile(folder: string, options: KubeconfigOptions): Promise<string> {
  const file = path.join(folder, `kubeconfig-${randomUUID().slice(0, 8)}.yaml`);
  await writeFile(file, kubeconfigYaml(options), { mode: 0o600 });
  return file;
}
