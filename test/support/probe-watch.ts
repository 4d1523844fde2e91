/**
 * Measures how long the operator takes to answer its probes. Two delays that the machine causes are subtracted: how
 * long an idle process takes to answer at the same time (this includes delays of the test), and how long the operator
 * waited for a processor. (The scheduler prefers an idle process to one that computes.)
 *
 * State: running → stopped.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { TestContext } from 'node:test';

import { Reaper } from '../servers/reaper.ts';
import { HttpClient } from './http.ts';
import type { Keyferry } from './keyferry.ts';
import { waitFor } from './wait-for.ts';

const IDLER = `const server = require('node:http').createServer((_, answer) => answer.end('ok'));
server.listen(0, '127.0.0.1', () => console.log(server.address().port));`;
const EVERY_MS = 50;
/** The longest time that an answer may take, ms. It is the kubelet's default limit for a probe. */
const LIMIT_MS = 1000;
/** Time limit of a request, ms. It is longer than any answer takes, so that slow answers can be measured. */
const TIMEOUT_MS = 60_000;
/** The largest resident memory that the operator may use, MiB: in the worst case, with functions that Maglev compiled. */
const MAX_MIB = 120;

interface Look {
  readonly ms: number;
  readonly idleMs: number;
  /** How long the operator waited for a processor while it answered, ms. */
  readonly waitMs: number;
}

class ProbeWatch implements AsyncDisposable {
  readonly #keyferry: Keyferry;
  readonly #idler: ChildProcess;
  readonly #idle: HttpClient;
  readonly #probed: HttpClient;
  readonly #looks: Look[] = [];
  readonly #looking: Promise<void>;
  #stopped = false;

  private constructor(keyferry: Keyferry, idler: ChildProcess, port: string) {
    this.#keyferry = keyferry;
    this.#idler = idler;
    this.#idle = new HttpClient(`http://127.0.0.1:${port}`);
    this.#probed = new HttpClient(keyferry.statusUrl);
    this.#looking = this.#look();
  }

  /** Starts to send probes. Resolves when the operator has answered for the first time. */
  static async start(keyferry: Keyferry): Promise<ProbeWatch> {
    await waitFor(async () => (await keyferry.probe('/healthz')).status > 0, {
      timeoutMs: TIMEOUT_MS,
      message: 'the first answer to a probe',
    });
    const idler = spawn(process.execPath, ['-e', IDLER], { stdio: ['ignore', 'pipe', 'inherit'] });
    if (idler.pid !== undefined) Reaper.shared().addProcess(idler.pid);
    const [port] = (await once(idler.stdout, 'data')) as [Buffer];
    return new ProbeWatch(keyferry, idler, port.toString().trim());
  }

  /** The longest time that an answer took, without the delays of the machine, ms. */
  get worstMs(): number {
    return Math.max(0, ...this.#looks.map(({ ms, idleMs, waitMs }) => ms - idleMs - waitMs));
  }

  /** @throws AssertionError if an answer took too long */
  assertQuick(): void {
    assert.ok(this.#looks.length > 0, 'it was looked at');
    // If even an idle process answers late, the machine delays the operator by more than the measured delays.
    const idleMs = Math.max(...this.#looks.map((look) => look.idleMs));
    assert.ok(
      this.worstMs <= LIMIT_MS + 5 * idleMs,
      `a probe took ${this.worstMs.toFixed(0)} ms besides the delays of the machine (${idleMs.toFixed(0)} ms for an idle process)`,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true;
    await this.#looking;
    this.#idle.close();
    this.#probed.close();
    this.#idler.kill('SIGKILL');
    await once(this.#idler, 'exit');
    if (this.#idler.pid !== undefined) Reaper.shared().removeProcess(this.#idler.pid);
  }

  async #look(): Promise<void> {
    while (!this.#stopped) {
      const before = await this.#keyferry.waitMs();
      const [ms, idleMs] = await Promise.all([time(this.#probed, '/healthz'), time(this.#idle, '/')]);
      this.#looks.push({ ms, idleMs, waitMs: (await this.#keyferry.waitMs()) - before });
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    }
  }
}

/**
 * Runs `work`, and checks that the operator meanwhile answers its probes in time and stays below its memory limit.
 * @throws AssertionError if it does not
 */
export async function staysResponsive(t: TestContext, operator: Keyferry, work: () => Promise<void>): Promise<void> {
  await using probes = await ProbeWatch.start(operator);
  await work();
  probes.assertQuick();
  const mib = (await operator.memory()).peakRss / 2 ** 20;
  t.diagnostic(`slowest probe: ${probes.worstMs.toFixed(0)} ms; ${mib.toFixed(1)} MiB at the peak`);
  assert.ok(mib <= MAX_MIB, `${mib.toFixed(1)} MiB at the peak`);
}

async function time(client: HttpClient, path: string): Promise<number> {
  const from = performance.now();
  try {
    await client.send(path, { timeoutMs: TIMEOUT_MS });
  } catch (error) {
    // The server had just closed the idle connection. The kubelet opens a new connection for each probe, so this is no
    // fault.
    if ((error as NodeJS.ErrnoException).code !== 'ECONNRESET') throw error;
    await client.send(path, { timeoutMs: TIMEOUT_MS });
  }
  return performance.now() - from;
}
