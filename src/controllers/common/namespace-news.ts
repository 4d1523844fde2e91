/**
 * Tells a system's rules of namespaces that came or went, in slices: which rules a namespace concerns may take thousands of patterns
 * to find out.
 *
 * State: namespaces that are still to be told of, in the order of their events. As long as there are any (`isBusy`) nobody may say what a rule does not want: what
 * stands in a new namespace already (a backup that was restored) may be one of its copies.
 */
import type { Slices, Steps } from '../../runtime/slices.ts';
import type { OnNamespace } from '../../copy/cluster/namespaces.ts';

/** Goes through the rules that a namespace may concern, and has them evaluated again. */
export type TellRules = (...news: Parameters<OnNamespace>) => Steps<void>;

export class NamespaceNews {
  readonly #slices: Slices;
  readonly #tell: TellRules;
  readonly #waiting: Parameters<OnNamespace>[] = [];
  #busy = false;
  #stopped = false;

  constructor(slices: Slices, tell: TellRules) {
    this.#slices = slices;
    this.#tell = tell;
  }

  /** Some rules have not been told yet. */
  get isBusy(): boolean {
    return this.#busy;
  }

  /** What is told in less than a slice is told when this returns. */
  add(...news: Parameters<OnNamespace>): void {
    if (this.#stopped) return;
    this.#waiting.push(news);
    if (!this.#busy) void this.#work();
  }

  stop(): void {
    this.#stopped = true;
    this.#waiting.length = 0;
  }

  async #work(): Promise<void> {
    this.#busy = true;
    try {
      for (let next = 0; next < this.#waiting.length; next += 1) {
        const news = this.#waiting[next];
        if (news !== undefined) await this.#slices.run(this.#tell(...news));
      }
    } finally {
      this.#waiting.length = 0;
      this.#busy = false;
    }
  }
}
