/** The keys of the demo on a terminal: `s` skips the part that is shown, and Ctrl-C stops the demo. */
const CTRL_C = '\u0003';

export type KeyInput = Pick<NodeJS.ReadStream, 'isTTY' | 'on' | 'off' | 'pause' | 'resume' | 'setRawMode'>;

export class Keys implements Disposable {
  readonly #input: KeyInput;
  readonly #stop: () => void;
  #isReading: boolean;
  #part = new AbortController();

  /** @param options.stop function for Ctrl-C, because Ctrl-C sends no signal while the terminal is in raw mode */
  constructor(input: KeyInput, { enabled, stop }: { readonly enabled: boolean; readonly stop: () => void }) {
    this.#input = input;
    this.#stop = stop;
    this.#isReading = enabled && input.isTTY;
    if (!this.#isReading) return;
    input.setRawMode(true);
    input.on('data', this.#read);
    input.resume();
  }

  /** The text that tells the reader which key to press; empty if no keys are read. */
  get hint(): string {
    return this.#isReading ? 's skips this part' : '';
  }

  /** Returns a signal for the part that begins now. The key `s` aborts it until the next call. */
  nextPart(): AbortSignal {
    this.#part = new AbortController();
    return this.#part.signal;
  }

  [Symbol.dispose](): void {
    if (!this.#isReading) return;
    this.#isReading = false;
    this.#input.off('data', this.#read);
    this.#input.setRawMode(false);
    this.#input.pause();
  }

  readonly #read = (bytes: Buffer): void => {
    for (const key of bytes.toString()) {
      if (key === CTRL_C) this.#stop();
      else if (key === 's') this.#part.abort(new Error('skipped'));
    }
  };
}
