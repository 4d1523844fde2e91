/** Checks the paths below `/v1/` that users write, and encodes them for a URL. */
import { VaultError } from './errors.ts';

/** The path is malformed. The message has the path and the problem. */
export class VaultPathError extends Error {
  override readonly name = 'VaultPathError';
}

/**
 * The path without leading, trailing and doubled slashes.
 * @throws VaultPathError for an empty path, a `.` or `..` segment (which Vault would resolve to another path), a
 *   control character or a lone surrogate
 */
export function normalizePath(path: string): string {
  const segments = path.split('/').filter((segment) => segment !== '');
  if (segments.length === 0) throw new VaultPathError(`the path ${JSON.stringify(path)} is empty`);
  if (segments.includes('.') || segments.includes('..')) {
    throw new VaultPathError(`the path ${JSON.stringify(path)} has a "." or ".." segment`);
  }
  // oxlint-disable-next-line no-control-regex
  if (/[\u0000-\u001F\u007F]/.test(path) || !path.isWellFormed()) {
    throw new VaultPathError(`the path ${JSON.stringify(path)} has an invalid character`);
  }
  return segments.join('/');
}

/** `normalizePath` for a call to `addr`. @param what first words of the message @throws VaultError `invalidPath` */
export function callPath(path: string, addr: string, what = ''): string {
  try {
    return normalizePath(path);
  } catch (cause) {
    if (!(cause instanceof VaultPathError)) throw cause;
    throw new VaultError(`${what}${cause.message}`, { kind: 'invalidPath', addr, cause });
  }
}

/** Percent-encodes every segment of the path and keeps the slashes. */
export function encodePath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/');
}
