/**
 * Prints the output of the demo. On a terminal it has colors, lines are broken at its width, and each line replaces the
 * progress line before it. In a log or a pipe it has plain lines, and few progress lines.
 */
import type { Writable } from 'node:stream';

import { wrapped } from '../src/runtime/text/wrapped.ts';

export interface ScreenOptions {
  readonly out: Writable & { readonly isTTY?: boolean; readonly columns?: number };
  readonly env: NodeJS.ProcessEnv;
}

/** Shortest time between two progress lines in a log, ms. */
const LOG_PROGRESS_MS = 30_000;

const INDENT = '  ';

/** Width of the bar in characters. */
const BAR_WIDTH = 20;

export interface BarState {
  /** How much of the work is done, from 0 to 1. */
  readonly fraction: number;
  readonly secondsLeft: number;
  /** A text that says which key the reader can press. */
  readonly hint?: string;
}

type Style = 'bold' | 'dim' | 'green' | 'cyan' | 'yellow' | 'red';
const CODES: Readonly<Record<Style, string>> = {
  bold: '1',
  dim: '2',
  green: '32',
  cyan: '36',
  yellow: '33',
  red: '31',
};

export class Screen {
  readonly #out: ScreenOptions['out'];
  readonly #tty: boolean;
  readonly #colour: boolean;
  #progressShown = false;
  #progressKind = '';
  #progressAt = -Infinity;
  #sections = 0;
  /** Label and quarter of the last progress bar, so that a log gets one line for each quarter. */
  #quarter = '';

  constructor({ out, env }: ScreenOptions) {
    this.#out = out;
    this.#tty = out.isTTY === true && env['TERM'] !== 'dumb';
    // https://no-color.org: if the variable is set and not empty, programs print no colors.
    this.#colour = this.#tty && (env['NO_COLOR'] ?? '') === '';
  }

  /** How long a line of a table may be. */
  get tableWidth(): number {
    return this.#width - INDENT.length;
  }

  title(text: string): void {
    this.#line(`\n${this.#paint('bold', this.#broken(text, ''))}`);
  }

  /** Prints the title of a section, with the next number. */
  section(text: string): void {
    this.#sections += 1;
    this.#line(`\n${this.#paint('bold', this.#broken(`${this.#sections}. ${text}`, '   '))}\n`);
  }

  /** Prints a command that the user could run. A long one is broken so that a shell can read it. */
  command(text: string): void {
    const words = text.match(/(?:'[^']*'|\S)+/g) ?? [];
    const shown = wrapped(words, this.#width - 4 * INDENT.length).join(` \\\n${INDENT}${INDENT}${INDENT}`);
    this.#line(`${INDENT}${this.#paint('cyan', '$')} ${this.#paint('bold', this.#tty ? shown : text)}`);
  }

  /** Prints the output of a command. */
  output(lines: readonly string[]): void {
    for (const line of lines) this.#line(`  ${line}`);
  }

  note(text: string): void {
    this.#line(INDENT + this.#paint('dim', this.#broken(text, INDENT)));
  }

  done(text: string, detail = ''): void {
    const gap = text.length + detail.length + 6 > this.#width ? `\n${INDENT}${INDENT}` : '  ';
    const rest = detail === '' ? '' : gap + this.#paint('dim', this.#broken(detail, INDENT + INDENT));
    this.#line(`${INDENT}${this.#paint('green', '✓')} ${text}${rest}`);
  }

  warn(text: string): void {
    this.#line(`  ${this.#paint('yellow', '!')} ${text}`);
  }

  failure(text: string): void {
    this.#line(`\n${this.#paint('red', '✗')} ${text}`);
  }

  blank(): void {
    this.#line('');
  }

  /** Prints a progress line. On a terminal, the next line replaces it. In a log, it stays. */
  progress(text: string): void {
    if (this.#tty) {
      this.#out.write(`\r\x1b[K${this.#paint('dim', `  … ${text}`.slice(0, this.#width - 1))}`);
      this.#progressShown = true;
      return;
    }
    const kind = text.replace(/:? \d+ s.*/, '');
    const now = performance.now();
    if (kind === this.#progressKind && now - this.#progressAt < LOG_PROGRESS_MS) return;
    this.#progressKind = kind;
    this.#progressAt = now;
    this.#line(`  … ${text}`);
  }

  /**
   * Prints a progress bar with the time left. On a terminal, the next line replaces it. A log gets one line for each
   * quarter of the work, and one line when the label changes.
   */
  bar(label: string, { fraction, secondsLeft, hint = '' }: BarState): void {
    const percent = Math.floor(fraction * 100);
    const rest = `${percent} %, ${about(secondsLeft)} left`;
    if (this.#tty) {
      const full = Math.round(fraction * BAR_WIDTH);
      const bar = '█'.repeat(full) + '░'.repeat(BAR_WIDTH - full);
      this.progress(`${bar} ${rest}: ${label}${hint === '' ? '' : ` (${hint})`}`);
      return;
    }
    const quarter = `${label} ${Math.floor(percent / 25)}`;
    if (quarter === this.#quarter) return;
    this.#quarter = quarter;
    this.#line(`  … ${label}: ${rest}`);
  }

  /** Infinite in a log. */
  get #width(): number {
    return this.#tty ? this.#out.columns || 80 : Infinity;
  }

  /** Breaks a text at blanks. @param indent the begin of each further line */
  #broken(text: string, indent: string): string {
    return wrapped(text, this.#width - indent.length).join(`\n${indent}`);
  }

  #line(text: string): void {
    if (this.#progressShown) this.#out.write('\r\x1b[K');
    this.#progressShown = false;
    this.#out.write(`${text}\n`);
  }

  #paint(style: Style, text: string): string {
    return this.#colour ? `\x1b[${CODES[style]}m${text}\x1b[0m` : text;
  }
}

/** A measured duration as text: `34 ms`, `4.2 s`. */
export function took(ms: number): string {
  return ms < 1000 ? `${Math.max(1, Math.round(ms))} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** An estimated duration as text: `about 40 s`, `about 3 min`. */
export function about(seconds: number): string {
  if (seconds < 10) return 'a few seconds';
  return seconds < 90 ? `about ${Math.round(seconds / 10) * 10} s` : `about ${Math.round(seconds / 60)} min`;
}
