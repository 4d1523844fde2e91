/**
 * The data that all open pages see. Each page gets everything once, and then the rules that changed.
 *
 * A page that reads slowly gets nothing until it has read what was sent, and then the newest data: so nothing piles up.
 */
import type { PageData, PageMessage, Trouble } from '../data.ts';

interface Version {
  readonly data: PageData;
  /** The rules as JSON, by their ids. */
  readonly texts: ReadonlyMap<string, string>;
}

/** An open page. @returns whether it takes more now; if not, it calls `resume` later */
export type Send = (message: PageMessage) => boolean;

export class Feed {
  #version: Version | undefined;
  #trouble: Trouble | null = null;
  readonly #updates = new Set<() => void>();

  get data(): PageData | undefined {
    return this.#version?.data;
  }

  put(data: PageData): void {
    this.#version = { data, texts: new Map(data.rules.map((rule) => [rule.id, JSON.stringify(rule)])) };
    for (const update of this.#updates) update();
  }

  /** @param message `undefined`: the connection is there. @param now RFC 3339 */
  setTrouble(message: string | undefined, now: string): void {
    if (message === this.#trouble?.message) return;
    this.#trouble = message === undefined ? null : { since: this.#trouble?.since ?? now, message };
    for (const update of this.#updates) update();
  }

  add(send: Send): { readonly resume: () => void; readonly remove: () => void } {
    let has: Version | undefined;
    let knows: Trouble | null = null;
    let isReady = true;
    const update = (): void => {
      if (isReady && this.#version !== undefined && has !== this.#version) {
        const message = messageFor(has, this.#version);
        has = this.#version;
        isReady = send(message);
      }
      if (!isReady || knows === this.#trouble) return;
      knows = this.#trouble;
      isReady = send({ trouble: this.#trouble });
    };
    const resume = (): void => {
      isReady = true;
      update();
    };
    this.#updates.add(update);
    update();
    return { resume, remove: () => void this.#updates.delete(update) };
  }
}

function messageFor(before: Version | undefined, { data, texts }: Version): PageMessage {
  const { rules, ...frame } = data;
  if (before === undefined) return { frame, rules, gone: 'others' };
  return {
    frame,
    rules: rules.filter(({ id }) => before.texts.get(id) !== texts.get(id)),
    gone: [...before.texts.keys()].filter((id) => !texts.has(id)),
  };
}
