/**
 * Splits a stream of chunks into lines. A watch sends one JSON document in each line.
 *
 * Invariant: `#rest` holds the bytes of at most one incomplete line. A line within one chunk is a view of that chunk (no copy); only
 * a line that spans chunks is joined.
 */
export class LineSplitter {
  #rest: Buffer[] = [];
  #restBytes = 0;
  readonly #maxLineBytes: number;

  /** @param maxLineBytes a longer line is an error, to limit memory. An object in etcd has at most 1.5 MB. */
  constructor(maxLineBytes = 16 * 1024 * 1024) {
    this.#maxLineBytes = maxLineBytes;
  }

  /**
   * Calls `onLine` for every line that `chunk` completes, without its newline. Empty lines are skipped.
   * @throws RangeError for a line above the limit.
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
      if (this.#restBytes > this.#maxLineBytes) {
        throw new RangeError(`a line of the stream is longer than ${this.#maxLineBytes} bytes`);
      }
      this.#rest.push(tail);
    }
  }

  /** Bytes of an incomplete line. Above 0 at the end of a stream: the line was cut off. */
  get pendingBytes(): number {
    return this.#restBytes;
  }
}
