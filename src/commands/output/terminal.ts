/**
 * Output that only a terminal gets: colors, and a progress line on standard error, which is erased at the end. The
 * operator loads this file, too.
 */
import { styleText } from 'node:util';
import type { Lister } from '../snapshot/inventory.ts';
import { type Clock, systemClock } from '../../runtime/clock.ts';

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

/** Work that ends within this time shows no progress line, ms. */
const DELAY_MS = 1000;
/** Shortest time between two updates of the progress line, ms. */
const INTERVAL_MS = 100;
/** Terminal codes that move to the beginning of the line and erase it. */
const CLEAR = '\r\u001B[K';
const COLUMNS = 80;

/** The part of `process.stderr` that the progress line needs. */
export interface ProgressStream {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

export class Progress implements Disposable {
  readonly #stream: ProgressStream;
  readonly #clock: Clock;
  readonly #isOn: boolean;
  #nextAt: number;
  #isShown = false;
  #isEnded = false;

  /** @param term `$TERM`. A terminal with the value `dumb` cannot erase a line, so it gets no progress line */
  constructor(stream: ProgressStream, term: string | undefined, clock: Clock = systemClock) {
    this.#stream = stream;
    this.#clock = clock;
    this.#isOn = stream.isTTY === true && term !== 'dumb';
    this.#nextAt = clock.monotonic() + DELAY_MS;
  }

  /** Shows the text, if the work has lasted 1 s and has not ended. Cheap enough to be called for each object. */
  show(text: () => string): void {
    if (!this.#isOn || this.#isEnded) return;
    const now = this.#clock.monotonic();
    if (now < this.#nextAt) return;
    this.#nextAt = now + INTERVAL_MS;
    this.#isShown = true;
    this.#stream.write(`${CLEAR}${text().slice(0, (this.#stream.columns ?? COLUMNS) - 1)}`);
  }

  /** Erases the progress line. Call it after the work, before the output. */
  end(): void {
    this.#isEnded = true;
    if (this.#isShown) this.#stream.write(CLEAR);
    this.#isShown = false;
  }

  [Symbol.dispose](): void {
    this.end();
  }
}

/** A lister that also shows how many objects it has read. */
export function withProgress(lister: Lister, progress: Progress): Lister {
  let count = 0;
  return async (collection, namespace, take, options) =>
    await lister(
      collection,
      namespace,
      (item) => {
        count += 1;
        progress.show(() => `reading the cluster: ${count} objects`);
        take(item);
      },
      options,
    );
}
