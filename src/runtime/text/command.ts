/** A command of Keyferry in a message, as the reader can type it: with `npx` where that has started this process. @param words `crds` */
export function command(words: string): string {
  return `${process.env['npm_command'] === 'exec' ? 'npx ' : ''}keyferry ${words}`;
}
