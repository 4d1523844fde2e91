/** The answers of a running operator to its probes, five times a second. State: running → stopped. */
import assert from 'node:assert/strict';

import type { Keyferry } from '../support/keyferry.ts';
import { PATIENCE_MS, waitFor } from '../support/wait-for.ts';
import { assertWithin, Yardstick } from '../support/yardstick.ts';

/** Time limit of /healthz. The kubelet's default is a second; here the processes of a whole cluster share the machine. */
const ALIVE_MS = 2000;

/** Between two probes. An answer that takes longer is measured anyway. */
const PAUSE_MS = 200;

interface Look {
  /** `performance.now()`, ms. */
  readonly at: number;
  /** When both probes had answered. */
  readonly ms: number;
  /** 0: no answer. */
  readonly ready: number;
  readonly live: number;
}

export class ProbeLog {
  readonly #keyferry: Keyferry;
  readonly #looks: Look[] = [];
  readonly #yardstick = new Yardstick();
  #timer: NodeJS.Timeout | undefined;
  /** The test stopped or paused the operator, so failing probes are expected. */
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

  /** Waits until /readyz answers with this status. @returns ms that it took */
  async ready(status: 200 | 503, timeoutMs = PATIENCE_MS): Promise<number> {
    const from = performance.now();
    await waitFor(() => this.#looks.some((look) => look.at >= from && look.ready === status), {
      timeoutMs,
      message: `/readyz to answer ${status}`,
    });
    return performance.now() - from;
  }

  /** @throws AssertionError if /healthz ever failed or took too long, or the process has exited */
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
      // Status 0 stands for it.
      return 0;
    }
  }
}
