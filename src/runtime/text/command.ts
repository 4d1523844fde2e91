/**
 * Writes a command of Keyferry so that the reader of a message can type it: with `npx` if npx started this process.
 * `--no`: where Keyferry is not installed, npx would run what has its name in the registry.
 */
export function command(words: string): string {
  return `${process.env['npm_command'] === 'exec' ? 'npx --no ' : ''}keyferry ${words}`;
}
