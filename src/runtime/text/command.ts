/** Writes a command of Keyferry so that the reader of a message can type it: with `npx` if npx started this process. */
export function command(words: string): string {
  return `${process.env['npm_command'] === 'exec' ? 'npx ' : ''}keyferry ${words}`;
}
