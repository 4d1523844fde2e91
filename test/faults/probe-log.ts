/** What the probes of a running Keyferry say, ten times a second. State: looking → stopped. */
import assert from 'node:assert/strict';

import type { Keyferry } from '../support/keyferry.ts';
import { waitFor } from '../support/wait-for.ts';

interface Look {
  /** `performance.now()`, ms. */
  readonly at: number;
  /** 0: no answer. */
  readonly ready: number;
  readonly live: number;
}

export class ProbeLog {
  readonly #keyferry: Keyferry;
  readonly #looks: Look[] = [];
  #timer: NodeJS.Timeout | undefined;
  /** Not answering is expected: it was stopped or paused by the test. */
  excused = false;

  constructor(keyferry: Keyferry) {
    this.#keyferry = keyferry;
    this.#timer = setTimeout(() => void this.#look(), 0);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Whether /readyz said no at any time since `at`. */
  wasUnready(at: number): boolean {
    return this.#looks.some((look) => look.at >= at && look.ready === 503);
  }

  /** Waits until a look says this. @returns ms that it took */
  async ready(status: 200 | 503, timeoutMs: number): Promise<number> {
    const from = performance.now();
    await waitFor(() => this.#looks.some((look) => look.at >= from && look.ready === status), {
      timeoutMs,
      message: `/readyz to answer ${status}`,
    });
    return performance.now() - from;
  }

  /** @throws AssertionError if /healthz ever failed, or the process is gone */
  assertAlive(): void {
    if (this.excused) return;
    assert.deepEqual(
      this.#looks.filter(({ live }) => live !== 200),
      [],
      'liveness failed',
    );
    assert.ok(this.#keyferry.running, 'the process is alive');
  }

  async #look(): Promise<void> {
    const at = performance.now();
    const [ready, live] = await Promise.all([this.#ask('/readyz'), this.#ask('/healthz')]);
    if (this.#timer === undefined) return;
    const listens = this.#looks.length > 0 || live !== 0;
    if (listens && !this.excused) this.#looks.push({ at, ready, live });
    this.#timer = setTimeout(() => void this.#look(), 100);
  }

  async #ask(path: string): Promise<number> {
    try {
      return (await this.#keyferry.probe(path)).status;
    } catch {
      // No answer is what 0 stands for.
      return 0;
    }
  }
}
