/**
 * What a short text has in common with long ones, in time that grows with their sizes and not with how alike they are: a value of a
 * million equal letters must not keep the process busy.
 *
 * The text is held as a suffix automaton: each state stands for substrings that end at the same places, of lengths from that of its
 * `link` (exclusive) to its own. A form is run through it; `matched` says how long a piece of any form ends at the places of a state.
 */

interface State {
  readonly length: number;
  link: State | undefined;
  readonly next: Map<number, State>;
  /** Longest piece of a form that ended here; 0: none that counts. */
  matched: number;
}

export class CommonPieces {
  readonly #shortest: number;
  /** Half of the shortest piece, so that any piece holds a part that begins at a multiple of it. */
  readonly #step: number;
  readonly #root: State = { length: 0, link: undefined, next: new Map(), matched: 0 };
  readonly #states: State[] = [this.#root];
  /** By place in the text: the state of what ends there. */
  readonly #prefixes: State[] = [];
  readonly #grams = new Set<string>();

  /** @param shortest length of the shortest piece that counts, even */
  constructor(text: string, shortest: number) {
    this.#shortest = shortest;
    this.#step = shortest / 2;
    let last = this.#root;
    for (let at = 0; at < text.length; at += 1) {
      last = this.#append(last, text.charCodeAt(at));
      this.#prefixes.push(last);
      if (at + this.#step <= text.length) this.#grams.add(text.slice(at, at + this.#step));
    }
  }

  /** Takes note of all pieces of a form that are in the text. */
  match(form: string): void {
    const step = this.#step;
    let done = 0;
    for (let at = 0; at + step <= form.length; at += step) {
      if (at + step <= done || !this.#grams.has(form.slice(at, at + step))) continue;
      done = this.#run(form, Math.max(0, at - step + 1), at + step);
    }
  }

  /** Marks the characters of the text that are in any piece. */
  mark(taken: Uint8Array): void {
    const byLength = this.#states.toSorted((a, b) => a.length - b.length);
    // Where a piece ends, its shorter ends do too, also where these stand alone.
    for (const { matched, link } of byLength.toReversed()) {
      if (matched > 0 && link !== undefined && link.length >= this.#shortest) link.matched = link.length;
    }
    for (const state of byLength) if (state.matched === 0) state.matched = state.link?.matched ?? 0;
    for (const [at, { matched }] of this.#prefixes.entries()) taken.fill(1, at + 1 - matched, at + 1);
  }

  /** From `start` to beyond `least`, as long as there is something in common. @returns where it ended */
  #run(form: string, start: number, least: number): number {
    let state = this.#root;
    let length = 0;
    for (let at = start; at < form.length; at += 1) {
      const letter = form.charCodeAt(at);
      while (state.link !== undefined && !state.next.has(letter)) {
        state = state.link;
        length = state.length;
      }
      const next = state.next.get(letter);
      if (next !== undefined) {
        state = next;
        length += 1;
      }
      if (length >= this.#shortest) state.matched = Math.max(state.matched, length);
      if (at + 1 >= least && length < this.#step) return at + 1;
    }
    return form.length;
  }

  #append(last: State, letter: number): State {
    const added: State = { length: last.length + 1, link: this.#root, next: new Map(), matched: 0 };
    this.#states.push(added);
    let from: State | undefined = last;
    for (; from !== undefined && !from.next.has(letter); from = from.link) from.next.set(letter, added);
    const met = from?.next.get(letter);
    if (from === undefined || met === undefined) return added;
    if (met.length === from.length + 1) {
      added.link = met;
      return added;
    }
    const copy: State = { length: from.length + 1, link: met.link, next: new Map(met.next), matched: 0 };
    this.#states.push(copy);
    for (; from !== undefined && from.next.get(letter) === met; from = from.link) from.next.set(letter, copy);
    met.link = copy;
    added.link = copy;
    return added;
  }
}
