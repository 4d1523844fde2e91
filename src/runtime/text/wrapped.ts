/** Breaks texts into lines, for terminals. */

/**
 * Breaks a text at blanks. A word that is longer than the width has a line of its own.
 * @param text its words, where a word may have blanks
 * @param width longest line with its indent, in characters. Infinity: one line
 * @param indent the begin of each line
 */
export function wrapped(text: string | readonly string[], width: number, indent = ''): string[] {
  const lines: string[] = [];
  for (const word of typeof text === 'string' ? text.split(' ') : text) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(indent + word);
  }
  return lines;
}
