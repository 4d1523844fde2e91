/**
 * A response that stays open. State: open → ended (by the server, `close`, the signal, or a broken connection); the first one
 * counts, and removes the call's listener from the signal.
 */
import type { IncomingMessage } from 'node:http';
import type { KubeStream } from './api.ts';
import type { CallLimit } from './call-limit.ts';
import { toConnectionError } from './errors.ts';

export interface HttpStreamListener {
  /** Called for each chunk. */
  readonly onChunk: () => void;
  /** Called once, when the connection is closed. */
  readonly onEnd: () => void;
}

export class HttpStream implements KubeStream {
  readonly status: number;
  readonly chunks: AsyncIterable<Buffer>;
  readonly #incoming: IncomingMessage;
  readonly #limit: CallLimit;
  readonly #onChunk: () => void;
  #closed = false;

  constructor(incoming: IncomingMessage, limit: CallLimit, { onChunk, onEnd }: HttpStreamListener) {
    this.status = incoming.statusCode ?? 0;
    this.#incoming = incoming;
    this.#limit = limit;
    this.#onChunk = onChunk;
    this.chunks = this.#read();
    limit.stopClock();
    limit.stage = 'reading the stream';
    limit.onOver = () => incoming.destroy();
    incoming.once('close', () => {
      limit[Symbol.dispose]();
      onEnd();
    });
  }

  close(): void {
    this.#closed = true;
    this.#incoming.destroy();
  }

  /** Reads only as fast as the caller iterates, so that a slow reader slows the server instead of filling the memory. */
  async *#read(): AsyncGenerator<Buffer, void, undefined> {
    try {
      for await (const chunk of this.#incoming) {
        this.#onChunk();
        yield chunk as Buffer;
      }
      // The end after our own destroy() looks like the server's.
      this.#limit.check();
    } catch (error) {
      if (this.#closed) return;
      this.#limit.check();
      throw toConnectionError(this.#limit.call, error);
    } finally {
      this.close();
    }
  }
}
