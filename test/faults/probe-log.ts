/** Records the answers of an operator to its probes, five times a second. States: running → stopped. */
import assert from 'node:assert/strict';

import type { Keyferry } from '../support/keyferry.ts';
import { PATIENCE_MS, waitFor } from '../support/wait-for.ts';
import { assertWithin, Yardstick } from '../support/yardstick.ts';

/** Time limit for /healthz, ms. The kubelet's default is a second, but here a whole cluster shares one machine. */
const ALIVE_MS = 2000;

/** Pause between two probes, ms. An answer that takes longer is measured, too. */
const PAUSE_MS = 200;

interface Look {
  /** The time of the probes by `performance.now()`, ms. */
  readonly at: number;
  /** The time until both probes had answered, ms. */
  readonly ms: number;
  /** HTTP status of /readyz; 0 without an answer. */
  readonly ready: number;
  readonly live: number;
}

export class ProbeLog {
  readonly #keyferry: Keyferry;
  readonly #looks: Look[] = [];
  readonly #yardstick = new Yardstick();
  #timer: NodeJS.Timeout | undefined;
  /** Whether failing probes are expected, because the test stopped or paused the operator. */
  excused = false;

  constructor(keyferry: Keyferry) {
    this.#keyferry = keyferry;
    this.#timer = setTimeout(() => void this.#look(), 0);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#yardstick[Symbol.dispose]();
  }

  /** Whether /readyz failed at any time since `at`. */
  wasUnready(at: number): boolean {
    return this.#looks.some((look) => look.at >= at && look.ready === 503);
  }

  /** Waits until /readyz answers with this status. @returns the time that it took, ms */
  async ready(status: 200 | 503, timeoutMs = PATIENCE_MS): Promise<number> {
    const from = performance.now();
    await waitFor(() => this.#looks.some((look) => look.at >= from && look.ready === status), {
      timeoutMs,
      message: `/readyz to answer ${status}`,
    });
    return performance.now() - from;
  }

  /** @throws AssertionError if /healthz ever failed or took too long, or if the process has exited */
  assertAlive(): void {
    if (this.excused) return;
    assert.deepEqual(
      this.#looks.filter(({ live }) => live !== 200),
      [],
      'liveness failed',
    );
    const worstMs = Math.max(0, ...this.#looks.map(({ ms }) => ms));
    assertWithin(worstMs, ALIVE_MS, 'an answer of /healthz', this.#yardstick.worst);
    assert.ok(this.#keyferry.running, 'the process is alive');
  }

  async #look(): Promise<void> {
    const at = performance.now();
    const [ready, live] = await Promise.all([this.#ask('/readyz'), this.#ask('/healthz')]);
    if (this.#timer === undefined) return;
    const listens = this.#looks.length > 0 || live !== 0;
    if (listens && !this.excused) this.#looks.push({ at, ms: performance.now() - at, ready, live });
    this.#timer = setTimeout(() => void this.#look(), PAUSE_MS);
  }

  async #ask(path: string): Promise<number> {
    try {
      return (await this.#keyferry.probe(path)).status;
    } catch {
      // No answer.
      return 0;
    }
  }
}
