/** A bad command line or environment variable. The process exits with code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

const MAX_SHOWN = 120;

/** A value for an error message: in quotes, with escaped control characters, and shortened. */
export function quoted(value: string): string {
  return JSON.stringify(value.length <= MAX_SHOWN ? value : `${value.slice(0, MAX_SHOWN)}…`);
}
