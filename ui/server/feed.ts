/**
 * The data that all open pages see. Each page gets everything once, and then the rules that changed.
 *
 * A page that reads slowly gets nothing until it has read what was sent, and then the newest data: so nothing piles up.
 */
import type { PageData, PageMessage, PageRule, Trouble } from '../data.ts';

interface Version {
  readonly data: PageData;
  /** The rules as JSON, by their ids. An unchanged rule keeps its text, so that two versions are compared quickly. */
  readonly texts: ReadonlyMap<string, string>;
}

/** An open page. @returns whether it takes more now; if not, it calls `resume` later */
export type Send = (message: PageMessage) => boolean;

interface Reader {
  readonly send: Send;
  has: Version | undefined;
  knows: Trouble | null;
  isBusy: boolean;
}

export class Feed {
  #version: Version | undefined;
  #trouble: Trouble | null = null;
  readonly #readers = new Set<Reader>();

  get data(): PageData | undefined {
    return this.#version?.data;
  }

  put(data: PageData): void {
    const texts = new Map(
      data.rules.map((rule) => {
        const [text, before] = [JSON.stringify(rule), this.#version?.texts.get(rule.id)];
        return [rule.id, before === text ? before : text] as const;
      }),
    );
    this.#version = { data, texts };
    for (const reader of this.#readers) this.#update(reader);
  }

  /** @param message `undefined`: the connection is there. @param now RFC 3339 */
  setTrouble(message: string | undefined, now: string): void {
    if (message === this.#trouble?.message) return;
    this.#trouble = message === undefined ? null : { since: this.#trouble?.since ?? now, message };
    for (const reader of this.#readers) this.#update(reader);
  }

  add(send: Send): { readonly resume: () => void; readonly remove: () => void } {
    const reader: Reader = { send, has: undefined, knows: null, isBusy: false };
    this.#readers.add(reader);
    this.#update(reader);
    return {
      resume: () => {
        reader.isBusy = false;
        this.#update(reader);
      },
      remove: () => void this.#readers.delete(reader),
    };
  }

  #update(reader: Reader): void {
    const version = this.#version;
    if (!reader.isBusy && version !== undefined && reader.has !== version) {
      const message = messageFor(reader.has, version);
      reader.has = version;
      reader.isBusy = !reader.send(message);
    }
    if (!reader.isBusy && reader.knows !== this.#trouble) {
      reader.knows = this.#trouble;
      reader.isBusy = !reader.send({ trouble: this.#trouble });
    }
  }
}

function messageFor(before: Version | undefined, { data, texts }: Version): PageMessage {
  const { rules, ...frame } = data;
  if (before === undefined) return { frame, rules, gone: 'others' };
  const isChanged = ({ id }: PageRule): boolean => before.texts.get(id) !== texts.get(id);
  return {
    frame,
    rules: rules.filter((rule) => isChanged(rule)),
    gone: [...before.texts.keys()].filter((id) => !texts.has(id)),
  };
}
