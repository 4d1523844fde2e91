/** A command of Keyferry for a message, as its reader can type it: with `npx`, if npx started this process. */
export function command(words: string): string {
  return `${process.env['npm_command'] === 'exec' ? 'npx ' : ''}keyferry ${words}`;
}
