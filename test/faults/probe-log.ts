/** Sends probes to an operator five times a second, and records the answers. States: running → stopped. */
import assert from 'node:assert/strict';

import type { Keyferry } from '../support/keyferry.ts';
import { PATIENCE_MS, waitFor } from '../support/wait-for.ts';
import { assertWithin, Yardstick } from '../support/yardstick.ts';

/** Time limit for /healthz, ms. The kubelet's default is 1 s, but here all servers of a cluster share one machine. */
const ALIVE_MS = 2000;

/** Pause between two probes, ms. Answers that take longer are recorded, too. */
const PAUSE_MS = 200;

interface Look {
  /** When the probes were sent, as `performance.now()`, ms. */
  readonly at: number;
  /** How long it took until both probes had an answer, ms. */
  readonly ms: number;
  /** Status of /readyz; 0 if there was no answer. */
  readonly ready: number;
  readonly live: number;
}

export class ProbeLog {
  readonly #keyferry: Keyferry;
  readonly #looks: Look[] = [];
  readonly #yardstick = new Yardstick();
  #timer: NodeJS.Timeout | undefined;
  /** Whether probes may fail, because the test has stopped or suspended the operator. */
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

  /** Whether /readyz answered 503 at any time since `at`. */
  wasUnready(at: number): boolean {
    return this.#looks.some((look) => look.at >= at && look.ready === 503);
  }

  /** Waits until /readyz answers with this status. @returns how long it took, ms */
  async ready(status: 200 | 503, timeoutMs = PATIENCE_MS): Promise<number> {
    const from = performance.now();
    await waitFor(() => this.#looks.some((look) => look.at >= from && look.ready === status), {
      timeoutMs,
      message: `/readyz to answer ${status}`,
    });
    return performance.now() - from;
  }

  /** @throws AssertionError if /healthz has failed or was too slow at any time, or if the process has exited */
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
      // There was no answer.
      return 0;
    }
  }
}
