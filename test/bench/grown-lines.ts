/** The lines added to a file since the last read: an audit log that a server is writing. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

const CHUNK_BYTES = 1024 * 1024;

export class GrownLines {
  readonly #file: string;
  #offset = 0;
  /** The beginning of a line whose end has not been written yet. */
  #rest = '';

  constructor(file: string) {
    this.#file = file;
  }

  /** Complete lines, in order. The log is read as ASCII. @throws if the file cannot be read */
  *read(): Generator<string, void, undefined> {
    const descriptor = openSync(this.#file, 'r');
    try {
      const { size } = fstatSync(descriptor);
      const chunk = Buffer.alloc(CHUNK_BYTES);
      while (this.#offset < size) {
        const count = readSync(descriptor, chunk, 0, chunk.length, this.#offset);
        this.#offset += count;
        const lines = (this.#rest + chunk.toString('latin1', 0, count)).split('\n');
        this.#rest = lines.pop() ?? '';
        yield* lines;
      }
    } finally {
      closeSync(descriptor);
    }
  }
}
