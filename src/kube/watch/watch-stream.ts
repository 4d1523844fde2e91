/**
 * One open stream of a watch: turns its bytes into events, and closes it when it is silent for too long.
 *
 *   open ──the server ends the response──▶ ended
 *     ├──the connection breaks, or a line is cut off──▶ failed
 *     └──no byte for longer than the limit──▶ stalled (`StalledWatchError`)
 */
import type { Clock, Timer } from '../../runtime/clock.ts';
import type { KubeObject, KubeStream } from '../api.ts';
import { parseJson } from '../json.ts';
import { LineSplitter } from './line-splitter.ts';

export interface WatchEvent {
  readonly type: string;
  readonly object: KubeObject;
}

/** The stream brought nothing for too long. */
export class StalledWatchError extends Error {
  override readonly name = 'StalledWatchError';
}

export interface WatchStreamOptions {
  readonly clock: Clock;
  /** Longest silence, ms. Read at every check, because it depends on what the stream has brought. */
  readonly idleLimitMs: () => number;
  /** Time between two checks, ms. */
  readonly checkEveryMs: number;
}

export class WatchStream {
  /** Monotonic, ms. */
  readonly openedAt: number;
  readonly #stream: KubeStream;
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #splitter = new LineSplitter();
  readonly #options: WatchStreamOptions;
  #heardAt: number;
  #timer: Timer;
  #stalledMs: number | undefined;

  constructor(stream: KubeStream, options: WatchStreamOptions) {
    this.#stream = stream;
    this.#chunks = stream.chunks[Symbol.asyncIterator]();
    this.#options = options;
    this.openedAt = options.clock.monotonic();
    this.#heardAt = this.openedAt;
    this.#timer = this.#arm();
  }

  /** When the last byte came, or the stream was opened: monotonic, ms. */
  get heardAt(): number {
    return this.#heardAt;
  }

  /**
   * Waits for the next bytes and calls `onEvent` for each event that they complete.
   * @returns false when the server has ended the stream
   * @throws StalledWatchError, what `onEvent` throws, and errors of the connection
   */
  async next(onEvent: (event: WatchEvent) => void): Promise<boolean> {
    let ended: boolean;
    try {
      const chunk = await this.#chunks.next();
      ended = chunk.done === true;
      if (chunk.done !== true) {
        this.#heardAt = this.#options.clock.monotonic();
        this.#splitter.push(chunk.value, (line) => onEvent(parseJson(line, 'a line of the watch') as WatchEvent));
      } else if (this.#splitter.pendingBytes > 0) throw new Error('the watch was cut off in the middle of a line');
    } catch (error) {
      throw this.#stall(error) ?? error;
    }
    const stall = ended ? this.#stall() : undefined;
    if (stall !== undefined) throw stall;
    return !ended;
  }

  /** Ends the connection. Safe to call more than once. */
  close(): void {
    this.#timer.cancel();
    this.#stream.close();
  }

  /** The reason of the end, if the stream was closed because of its silence. */
  #stall(cause?: unknown): StalledWatchError | undefined {
    if (this.#stalledMs === undefined) return undefined;
    const message = `no byte for ${Math.round(this.#stalledMs)} ms`;
    return new StalledWatchError(message, cause === undefined ? undefined : { cause });
  }

  #arm(): Timer {
    return this.#options.clock.setTimeout(() => this.#check(), this.#options.checkEveryMs, { unref: true });
  }

  #check(): void {
    const silentMs = this.#options.clock.monotonic() - this.#heardAt;
    if (silentMs < this.#options.idleLimitMs()) {
      this.#timer = this.#arm();
      return;
    }
    this.#stalledMs = silentMs;
    this.#stream.close();
  }
}
