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

export function openStream(
  incoming: IncomingMessage,
  limit: CallLimit,
  { onChunk, onEnd }: HttpStreamListener,
): KubeStream {
  let isClosed = false;
  const close = (): void => {
    isClosed = true;
    incoming.destroy();
  };
  /** Reads only as fast as the caller iterates, so that a slow reader slows the server instead of filling the memory. */
  async function* read(): AsyncGenerator<Buffer, void, undefined> {
    try {
      for await (const chunk of incoming) {
        onChunk();
        yield chunk as Buffer;
      }
      // The end after our own destroy() looks like the server's.
      limit.signal.throwIfAborted();
    } catch (error) {
      if (isClosed) return;
      limit.signal.throwIfAborted();
      throw toConnectionError(limit.call, error);
    } finally {
      close();
    }
  }
  limit.stopClock();
  limit.stage = 'reading the stream';
  limit.onOver = () => incoming.destroy();
  incoming.once('close', () => {
    limit[Symbol.dispose]();
    onEnd();
  });
  return { chunks: read(), close };
}
