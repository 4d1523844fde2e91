/** Styles of output on a terminal. */
import { styleText } from 'node:util';

const FORMATS = { good: 'green', bad: 'red', waiting: 'yellow', quiet: 'gray', title: 'bold' } as const;

export type Style = keyof typeof FORMATS;

/** Text with a style, or plain text. */
export type Cell = string | { readonly text: string; readonly style: Style };

/** Adds the codes of a style to a text. */
export type Paint = (text: string, style: Style) => string;

/** For everything but terminals. */
export const unpainted: Paint = (text) => text;

/**
 * The styles of a stream. Only a terminal has any; it has none with `NO_COLOR`, `NODE_DISABLE_COLORS` or `TERM=dumb`.
 * @param stream `process.stdout`: Node gives it `hasColors` only on a terminal
 */
export function paintFor(stream: { readonly hasColors?: () => boolean }): Paint {
  if (stream.hasColors?.() !== true) return unpainted;
  return (text, style) => styleText(FORMATS[style], text, { validateStream: false });
}

export function textOf(cell: Cell): string {
  return typeof cell === 'string' ? cell : cell.text;
}
