/** Functions that are asked for their present state when somebody wants to know: at a scrape, at a status request. */
export class SourceSet<T> {
  readonly #sources = new Set<() => Iterable<T>>();

  /** Adds a source; the answer takes it out again. */
  add(read: () => Iterable<T>): () => void {
    this.#sources.add(read);
    return () => void this.#sources.delete(read);
  }

  /** What all sources say now. @throws what a source throws. */
  read(): T[] {
    const all: T[] = [];
    for (const source of this.#sources) for (const item of source()) all.push(item);
    return all;
  }
}
