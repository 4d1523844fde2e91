/** Writes to a pipe until its reader closes it: `keyferry status | head -1` closes the pipe before all output is written. */
import type { Writable } from 'node:stream';

/**
 * A function that writes text to a stream. After the reader has closed the pipe, output is dropped without an error, and the
 * command keeps its exit code. Other errors of the stream are uncaught errors.
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
