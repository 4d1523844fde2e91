/**
 * Bounds the memory for large answers of all servers: a few are in memory at a time, and the others wait with their connections paused.
 *
 * A server that answers slowly must not delay others. So a server is *proven* when it has finished a large answer promptly, and loses that
 * with a slow one. Then it has to finish twice as many as the last time. Servers that are not proven share half of the slots. The one whose
 * answers took the shortest time goes first.
 */
import { type ServerSlots, serverSlots } from './mount-gates.ts';

/** Large answers at a time, of all servers: each takes up to 10 MiB while it is parsed. */
const AT_A_TIME = 4;
/** A slot may be held for this time, ms, by a server that counts as prompt. A Vault sends 2 MiB in a few milliseconds. */
const PROMPT_MS = 1_000;
/** Expected of a server that has not answered yet, ms: less than of those that stall (5 s). */
const UNKNOWN_MS = 2_500;
/** Most prompt answers that a server must finish. */
const MOST_REQUIRED = 1_024;

/** Shared by all connections of a process. */
export function largeAnswerSlots(): ServerSlots {
  return serverSlots(AT_A_TIME);
}

/** The place of one large answer. */
export interface LargeAnswer {
  /** The answer is out of memory. @param wasFinished it arrived as a whole */
  readonly end: (wasFinished: boolean) => void;
}

/** The large answers of one server. */
export class LargeAnswers {
  readonly #slots: ServerSlots;
  /** Prompt answers since the last slow one, and how many make the server proven. */
  #prompt = 0;
  #required = 1;
  /** How long the next one holds its slot, ms: half of it is what the last one took. */
  #expectedMs = UNKNOWN_MS;

  constructor(slots: ServerSlots) {
    this.#slots = slots;
  }

  /** Waits for a slot. @throws AbortedError */
  async begin(signal: AbortSignal): Promise<LargeAnswer> {
    const held = new DisposableStack();
    try {
      if (!this.#isProven) held.use(await this.#slots.unproven.take(signal, this.#expectedMs));
      held.use(await this.#slots.all.take(signal, this.#expectedMs));
    } catch (error) {
      held.dispose();
      throw error;
    }
    const since = performance.now();
    const end = (wasFinished: boolean): void => {
      held.dispose();
      this.#ended(performance.now() - since, wasFinished);
    };
    return { end };
  }

  get #isProven(): boolean {
    return this.#prompt >= this.#required;
  }

  #ended(tookMs: number, wasFinished: boolean): void {
    this.#expectedMs = (this.#expectedMs + tookMs) / 2;
    if (wasFinished && tookMs < PROMPT_MS) {
      this.#prompt++;
      return;
    }
    if (this.#isProven) this.#required = Math.min(2 * this.#required, MOST_REQUIRED);
    this.#prompt = 0;
  }
}
