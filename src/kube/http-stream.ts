/**
 * A response that stays open. State: open → ended (by the server, by `close`, by the signal, or broken); the first one
 * counts, and takes the call's listener off the signal.
 */
import type { IncomingMessage } from 'node:http';
import type { KubeStream } from './api.ts';
import type { CallLimit } from './call-limit.ts';
import { toConnectionError } from './errors.ts';

export interface HttpStreamListener {
  /** A sign of life of the server. */
  readonly onChunk: () => void;
  /** Called once, when the connection is done with. */
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
    limit.onOver = () => {
      incoming.destroy();
    };
    incoming.once('close', () => {
      limit[Symbol.dispose]();
      onEnd();
    });
  }

  close(): void {
    this.#closed = true;
    this.#incoming.destroy();
  }

  /** Reads no faster than it is asked to, so that a slow reader slows the server and not fills the memory. */
  async *#read(): AsyncGenerator<Buffer, void, undefined> {
    try {
      for await (const chunk of this.#incoming) {
        this.#onChunk();
        yield chunk as Buffer;
      }
      // The end that our own destroy() made looks like the server's.
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
