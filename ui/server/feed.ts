/** The data that all open pages see. */
import type { PageData, PageMessage } from '../data.ts';

interface Version extends Omit<PageMessage, 'gone'> {
  /** The rules as JSON by their ids, and the frame by ''. */
  readonly texts: ReadonlyMap<string, string>;
}

const NOTHING: Version = { at: '', trouble: null, rules: [], texts: new Map() };

export class Feed {
  #version = NOTHING;
  #next = Promise.withResolvers<void>();

  put({ at, rules, ...frame }: PageData): void {
    const texts = new Map(rules.map((rule) => [rule.id, JSON.stringify(rule)]));
    texts.set('', JSON.stringify(frame));
    this.#set({ at, trouble: this.#version.trouble, rules, frame, texts });
  }

  /** @param message `undefined`: the connection is there */
  setTrouble(message: string | undefined): void {
    const before = this.#version.trouble;
    if (message === before?.message) return;
    const trouble = message === undefined ? null : { since: before?.since ?? new Date().toISOString(), message };
    this.#set({ ...this.#version, trouble });
  }

  /**
   * What one page does not have yet, as lines of JSON: everything at first, and then what has changed. A page that reads
   * slowly gets the newest data when it has read what was sent, so nothing piles up.
   */
  async *lines(): AsyncGenerator<string> {
    for (let has = NOTHING; ;) {
      const [version, { promise }] = [this.#version, this.#next];
      if (version === has) await promise;
      else yield `${JSON.stringify(messageFor(has, version))}\n`;
      has = version;
    }
  }

  #set(version: Version): void {
    this.#version = version;
    this.#next.resolve();
    this.#next = Promise.withResolvers();
  }
}

function messageFor({ texts: before }: Version, { at, trouble, rules, frame, texts }: Version): PageMessage {
  const isNew = (id: string): boolean => before.get(id) !== texts.get(id);
  return {
    at,
    trouble,
    ...(frame !== undefined && isNew('') && { frame }),
    rules: rules.filter(({ id }) => isNew(id)),
    gone: [...before.keys()].filter((id) => !texts.has(id)),
  };
}
