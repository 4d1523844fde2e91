/** The token of the process, as Vault's own client finds it: $VAULT_TOKEN, else the file that `vault login` writes. */
import { readFileSync } from 'node:fs';

import { SecretBytes } from '../../../runtime/secret-bytes.ts';
import type { EnvironmentToken } from './credentials.ts';

export interface TokenSource {
  /** $VAULT_TOKEN */
  readonly token: SecretBytes | undefined;
  /** `~/.vault-token` */
  readonly file: string | undefined;
}

/** The file is read again at each call, so that a new login is used at once. */
export function environmentToken({ token, file }: TokenSource): EnvironmentToken {
  let last: SecretBytes | undefined;
  return () => {
    if (token !== undefined || file === undefined) return token;
    const bytes = readIfThere(file);
    if (bytes === undefined || bytes.byteLength === 0) return undefined;
    const read = SecretBytes.fromBytes(bytes);
    if (last === undefined || !last.bytes().equals(bytes)) last = read;
    return last;
  };
}

function readIfThere(file: string): Buffer | undefined {
  try {
    return readFileSync(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
