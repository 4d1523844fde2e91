/** Writing to whoever reads us, as long as somebody does: `keyferry status | head -1` closes the pipe before the end. */
import type { Writable } from 'node:stream';

/**
 * A function that writes text to a stream. Once its reader has gone, nothing is written any more and nothing is said of it; the exit
 * code stays what the command makes it.
 * @throws as an uncaught error what else the stream fails with
 */
export function writerTo(stream: Writable): (text: string) => void {
  let isOpen = true;
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    isOpen = false;
  });
  return (text) => {
    if (isOpen) stream.write(text);
  };
}
