/** The colors that only a terminal gets. */
import { styleText } from 'node:util';

const FORMATS = { good: 'green', bad: 'red', waiting: 'yellow', quiet: 'gray', title: 'bold' } as const;

export type Style = keyof typeof FORMATS;

/** Text with a style, or plain text. */
export type Cell = string | { readonly text: string; readonly style?: Style };

/** Adds the color codes of a style to a text. */
export type Paint = (text: string, style: Style) => string;

/** Adds no colors. For output that does not go to a terminal. */
export const unpainted: Paint = (text) => text;

/**
 * The colors for a stream. Only a terminal gets any, and not with `NO_COLOR`, `NODE_DISABLE_COLORS` or `TERM=dumb`.
 * @param stream `process.stdout`. In Node, only a terminal has the method `hasColors`
 */
export function paintFor(stream: { readonly hasColors?: () => boolean }): Paint {
  if (stream.hasColors?.() !== true) return unpainted;
  return (text, style) => styleText(FORMATS[style], text, { validateStream: false });
}
