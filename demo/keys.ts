/**
 * Reads keys on a terminal while the demo runs: Enter goes on to the next section, `s` skips the part that is shown, Ctrl-C
 * stops the demo.
 */
import { orAborted } from '../src/runtime/abort.ts';
import type { Screen } from './screen.ts';

const CTRL_C = '\u0003';

export type KeyInput = Pick<NodeJS.ReadStream, 'isTTY' | 'on' | 'off' | 'pause' | 'resume' | 'setRawMode'>;

export class Keys implements Disposable {
  readonly #input: KeyInput;
  readonly #stop: () => void;
  #isReading: boolean;
  #part = new AbortController();
  #goOn: () => void = () => undefined;

  /** @param options.stop called for Ctrl-C: a terminal in raw mode gives the key to the program and sends no signal */
  constructor(input: KeyInput, { enabled, stop }: { readonly enabled: boolean; readonly stop: () => void }) {
    this.#input = input;
    this.#stop = stop;
    this.#isReading = enabled && input.isTTY;
    if (!this.#isReading) return;
    input.setRawMode(true);
    input.on('data', this.#read);
    input.resume();
  }

  /** A text that says which key the reader can press; '' if the demo reads no keys. */
  get hint(): string {
    return this.#isReading ? 's skips this part' : '';
  }

  /** Call it when a part begins. @returns a signal for this part; the key `s` aborts the signal of the newest part */
  nextPart(): AbortSignal {
    this.#part = new AbortController();
    return this.#part.signal;
  }

  /** Waits until the reader presses Enter. Returns at once if the demo reads no keys. @throws the reason of `signal` */
  async enter(screen: Pick<Screen, 'progress'>, signal: AbortSignal): Promise<void> {
    if (!this.#isReading) return;
    screen.progress(`Enter goes on, ${this.hint}`);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#goOn = resolve;
    await orAborted(promise, signal, 'waiting for Enter');
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
      else if (key === '\r' || key === '\n') this.#goOn();
      else if (key === 's') this.#part.abort(new Error('skipped'));
    }
  };
}
