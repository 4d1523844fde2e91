/**
 * One open stream of a watch: turns its bytes into events, and closes the stream when it is silent for too long.
 *
 *   open ──the server ends the response──▶ ended
 *     ├──the connection breaks, or a line is cut off──▶ failed
 *     └──no byte for longer than the limit──▶ stalled (`StalledWatchError`)
 */
import type { Clock, Timer } from '../../runtime/clock.ts';
import type { KubeObject, KubeStream } from '../api.ts';
import { ApiError, statusOf } from '../errors.ts';
import { parseJson } from '../json.ts';

export interface WatchEvent {
  readonly type: string;
  readonly object: KubeObject;
}

/** The stream was closed because no byte had come for too long. */
export class StalledWatchError extends Error {
  override readonly name = 'StalledWatchError';
}

/** Default of the longest silence of a stream, ms: a bookmark comes every 60 to 75 s. */
const IDLE_LIMIT_MS = 90_000;
/** Longest line, to limit memory; a longer one is an error. An object in etcd has at most 1.5 MB. */
const MAX_LINE_BYTES = 16 * 1024 * 1024;

export class WatchStream {
  /** Monotonic, ms. */
  readonly openedAt: number;
  readonly #stream: KubeStream;
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #splitter = new LineSplitter();
  readonly #clock: Clock;
  readonly #idleLimitMs: number;
  #lastByteAt: number;
  #timer: Timer;
  #stalledMs: number | undefined;

  /** @param idleLimitMs longest silence, ms */
  constructor(stream: KubeStream, clock: Clock, idleLimitMs = IDLE_LIMIT_MS) {
    this.#stream = stream;
    this.#chunks = stream.chunks[Symbol.asyncIterator]();
    this.#clock = clock;
    this.#idleLimitMs = idleLimitMs;
    this.openedAt = clock.monotonic();
    this.#lastByteAt = this.openedAt;
    this.#timer = this.#arm();
  }

  /** When the last byte arrived, or else the stream was opened: monotonic, ms. */
  get lastByteAt(): number {
    return this.#lastByteAt;
  }

  /**
   * Waits for the next bytes, and calls `onEvent` for each event that they complete.
   * @returns false if the server has ended the stream
   * @throws StalledWatchError, errors of `onEvent`, and errors of the connection
   */
  async next(onEvent: (event: WatchEvent) => void): Promise<boolean> {
    let ended: boolean;
    try {
      const chunk = await this.#chunks.next();
      ended = chunk.done === true;
      if (chunk.done !== true) {
        this.#lastByteAt = this.#clock.monotonic();
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

  /** The error if the stream was closed because of its silence; else `undefined`. */
  #stall(cause?: unknown): StalledWatchError | undefined {
    if (this.#stalledMs === undefined) return undefined;
    const message = `no byte for ${Math.round(this.#stalledMs)} ms`;
    return new StalledWatchError(message, cause === undefined ? undefined : { cause });
  }

  #arm(): Timer {
    return this.#clock.setTimeout(() => this.#check(), this.#idleLimitMs / 4, { unref: true });
  }

  #check(): void {
    const silentMs = this.#clock.monotonic() - this.#lastByteAt;
    if (silentMs < this.#idleLimitMs) {
      this.#timer = this.#arm();
      return;
    }
    this.#stalledMs = silentMs;
    this.#stream.close();
  }
}

/** Makes the error of an ERROR event from its object, which should be a Status. */
export function watchError(path: string, object: unknown): ApiError {
  const status = statusOf(object) ?? { reason: 'InternalError', message: 'not a Status', causes: [] };
  const { code } = object as { readonly code?: unknown };
  return new ApiError({ method: 'GET', path }, typeof code === 'number' ? code : 500, status);
}

/**
 * Splits a stream of chunks into lines. A watch sends one JSON document in each line.
 *
 * Invariant: `#rest` holds the bytes of at most one incomplete line. A line within one chunk is not copied; only a line
 * that is spread over several chunks is joined.
 */
export class LineSplitter {
  #rest: Buffer[] = [];
  #restBytes = 0;

  /**
   * Calls `onLine` for every line that `chunk` completes, without the newline. Empty lines are skipped.
   * @throws RangeError for a line above `MAX_LINE_BYTES`
   */
  push(chunk: Buffer, onLine: (line: Buffer) => void): void {
    let start = 0;
    for (let end = chunk.indexOf(0x0a, start); end !== -1; end = chunk.indexOf(0x0a, start)) {
      const piece = chunk.subarray(start, end);
      start = end + 1;
      if (this.#restBytes > 0) {
        const line = Buffer.concat([...this.#rest, piece], this.#restBytes + piece.length);
        this.#rest = [];
        this.#restBytes = 0;
        onLine(line);
      } else if (piece.length > 0) {
        onLine(piece);
      }
    }
    if (start < chunk.length) {
      const tail = chunk.subarray(start);
      this.#restBytes += tail.length;
      if (this.#restBytes > MAX_LINE_BYTES) {
        throw new RangeError(`a line of the stream is longer than ${MAX_LINE_BYTES} bytes`);
      }
      this.#rest.push(tail);
    }
  }

  /** Bytes of the incomplete line. If there are any at the end of the stream, this line was cut off. */
  get pendingBytes(): number {
    return this.#restBytes;
  }
}
