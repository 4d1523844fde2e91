/** A bad command line or environment variable. The process exits with code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

const MAX_SHOWN = 120;

/** A value for an error message: in quotes, with control characters escaped, and at most 120 characters of it. */
export function quoted(value: string): string {
  return JSON.stringify(value.length <= MAX_SHOWN ? value : `${value.slice(0, MAX_SHOWN)}…`);
}
