/** Reads the lines that were added to a file since the last read. For logs that a server is still writing. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { StringDecoder } from 'node:string_decoder';

const CHUNK_BYTES = 1024 * 1024;

export class GrownLines {
  readonly #file: string;
  readonly #decoder = new StringDecoder('utf8');
  #offset = 0;
  /** The beginning of a last line that was not complete at the last read. */
  #rest = '';

  constructor(file: string) {
    this.#file = file;
  }

  /** The new complete lines, in order. @throws an error of `node:fs` if the file cannot be read */
  *read(): Generator<string, void, undefined> {
    const descriptor = openSync(this.#file, 'r');
    try {
      const { size } = fstatSync(descriptor);
      const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, size - this.#offset));
      while (this.#offset < size) {
        const count = readSync(descriptor, chunk, 0, chunk.length, this.#offset);
        this.#offset += count;
        const lines = (this.#rest + this.#decoder.write(chunk.subarray(0, count))).split('\n');
        this.#rest = lines.pop() ?? '';
        yield* lines;
      }
    } finally {
      closeSync(descriptor);
    }
  }
}
