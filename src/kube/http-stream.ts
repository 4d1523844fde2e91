/**
 * A response that stays open, read in chunks. State: open → ended by the server, by `close`, by the signal or by a
 * broken connection. At the end it disposes the time limit of the call.
 */
import type { IncomingMessage } from 'node:http';
import type { KubeStream } from './api.ts';
import type { CallLimit } from './call-limit.ts';
import { toConnectionError } from './errors.ts';

interface HttpStreamListener {
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
  /** Reads only as fast as the caller iterates: a slow reader slows the server, and does not fill the memory. */
  async function* read(): AsyncGenerator<Buffer, void, undefined> {
    try {
      for await (const chunk of incoming) {
        onChunk();
        yield chunk as Buffer;
      }
      // After an abort destroyed `incoming`, the loop ends as if the server had ended the response.
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
