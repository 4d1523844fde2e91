/** Runtime configuration and labels of the image. The `Dockerfile` has the same ones; a test compares them. */

/** ID of the user `nonroot`. Other minimal images use the same number. */
export const USER_ID = 65532;
export const NODE_PATH = '/usr/local/bin/node';
export const ENTRY_POINT = '/usr/local/bin/keyferry';

/** The field `config` in the configuration of the image (OCI image-spec v1.1). */
export const RUNTIME = {
  User: `${USER_ID}:${USER_ID}`,
  Env: ['PATH=/usr/local/bin', 'HOME=/home/nonroot', 'SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt'],
  Entrypoint: [ENTRY_POINT],
  WorkingDir: '/home/nonroot',
} as const;

/** Version and Git commit from which the program was built. */
export interface ImageSource {
  readonly version: string;
  /** The Git commit; `undefined` if it is not known. */
  readonly revision: string | undefined;
}

/** The labels of the image. The manifests have the same texts as annotations. */
export function imageLabels({ version, revision }: ImageSource): Readonly<Record<string, string>> {
  const label = (name: string, value: string): [string, string] => [`org.opencontainers.image.${name}`, value];
  return Object.fromEntries([
    label('title', 'keyferry'),
    label(
      'description',
      'Copies Secrets and ConfigMaps between namespaces and clusters, and Secrets to and from Vault',
    ),
    label('version', version),
    ...(revision === undefined ? [] : [label('revision', revision)]),
    label('licenses', 'Apache-2.0'),
    label('source', 'https://github.com/keyferry/keyferry'),
  ]);
}
