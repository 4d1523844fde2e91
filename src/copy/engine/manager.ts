/**
 * Joins the engine, its backends and its controllers. No other file does.
 *
 *   new ──open──▶ opening ──home cluster synced──▶ standby ──start──▶ leading ──drain──▶ drained ──stop──▶ stopped
 *
 * - A controller that waits for its API delays no other.
 * - The home cluster is the one that this process runs in: `open` and the readiness depend on its watches alone. Any
 *   other backend that does not answer delays only its own targets (`Backends.start`).
 */
import type { CheckResult } from '../../observe/routes.ts';
import { orAborted, sleep } from '../../runtime/abort.ts';
import type { WatchHealth } from '../../kube/watch/watch-target.ts';
import type { Backend } from './backend.ts';
import type { Controller, RuleReadiness, NamedQueue } from './controller.ts';
import { Engine, type EngineOptions } from './engine.ts';

export interface ManagerOptions {
  /** Name of the home cluster's backend. */
  readonly home: string;
  readonly onError: EngineOptions['onError'];
  readonly onWritten?: EngineOptions['onWritten'];
}

/** How long the start waits for the APIs of the other controllers once one is open, ms. */
const API_WAIT_MS = 1000;
/** A watch that is disconnected for longer makes the process not ready, ms. */
const DISCONNECTED_LIMIT_MS = 3000;
/** A worker is stuck after this time, ms: longer than any of its calls may take. */
const STUCK_MS = 300_000;

export class Manager {
  readonly engine: Engine;
  readonly #home: string;
  readonly #controllers: Controller[] = [];
  readonly #open: Controller[] = [];
  #started = false;

  constructor({ home, ...options }: ManagerOptions) {
    this.#home = home;
    this.engine = new Engine(options);
  }

  addController(controller: Controller): void {
    this.#controllers.push(controller);
  }

  /** Opens the watches of all controllers. Settles when they are listed: a warm standby. */
  async open(signal: AbortSignal): Promise<void> {
    const opening = this.#controllers.map(async (controller) => {
      await controller.installed?.(signal);
      if (controller.reconciler !== undefined) this.engine.addReconciler(controller.reconciler);
      this.#open.push(controller);
      controller.open();
      if (this.#started) controller.work?.start();
    });
    const all = Promise.all(opening);
    // Any error but an abort is a bug, and ends the process, also after `open` has settled.
    all.catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
    await orAborted(Promise.race([all, Promise.any(opening)]), signal, 'waiting for an API');
    await Promise.race([all, sleep(API_WAIT_MS, signal)]);
    const listed = this.#homeBackend().synced?.();
    if (listed !== undefined) await orAborted(listed, signal, 'waiting for the first lists of the home cluster');
  }

  /** Starts the loops. Settles when the rules were evaluated once. */
  async start(signal: AbortSignal): Promise<void> {
    await this.engine.start(signal);
    this.#started = true;
    for (const { work } of this.#open) work?.start();
  }

  /** First part of a stop: running work may end within `drainMs`, then the controllers receive no more events. */
  async drain(drainMs: number): Promise<void> {
    const { backends } = this.engine;
    this.#started = false;
    await Promise.all([
      this.engine.stop(drainMs),
      ...backends.all.map(async (backend) => await backend.drain?.()),
      ...this.#open.map(async (controller) => await controller.work?.drain(drainMs)),
    ]);
    for (const controller of this.#open.splice(0)) controller.stop?.();
  }

  /** Second part of a stop: closes the backends. */
  async stop(limitMs: number): Promise<void> {
    await Promise.all(this.engine.backends.all.map(async (backend) => await backend.stop(limitMs)));
  }

  /** Whether the caches are complete and fresh. */
  readiness(): CheckResult[] {
    const { watches } = this.#homeBackend();
    const missing = this.#controllers.flatMap((one) => one.missing ?? []).map((message) => ({ ok: false, message }));
    const results = [...watches.map(freshness), ...missing];
    return results.length === 0 ? [{ ok: false, message: 'no watch is open yet' }] : results;
  }

  /** The watches of the other backends. The process is ready without them. */
  get otherWatches(): readonly (CheckResult & { readonly backend: string })[] {
    const others = this.engine.backends.all.filter(({ name }) => name !== this.#home);
    return others.flatMap(({ name, watches }) => watches.map((watch) => ({ backend: name, ...freshness(watch) })));
  }

  /** The queues of the engine, and of controllers with queues of their own. */
  get queues(): readonly NamedQueue[] {
    return [...this.engine.queues, ...this.#open.flatMap(({ work }) => work?.queues ?? [])];
  }

  /** Whether the rules of all controllers are ready; empty before the start. */
  *ruleReadiness(): Iterable<RuleReadiness> {
    if (!this.#started) return;
    yield* this.engine.readiness();
    for (const { work } of this.#open) yield* work?.readiness() ?? [];
  }

  /** Whether no worker is stuck. */
  liveness(): CheckResult {
    for (const { name, queue } of this.queues) {
      const { longestRunningMs } = queue.metrics();
      if (longestRunningMs > STUCK_MS) {
        return { ok: false, message: `a worker of ${name} has been busy for ${Math.round(longestRunningMs / 1000)} s` };
      }
    }
    return { ok: true };
  }

  #homeBackend(): Backend {
    const backend = this.engine.backends.all.find(({ name }) => name === this.#home);
    if (backend === undefined) throw new Error(`no backend for the cluster ${this.#home}`);
    return backend;
  }
}

function freshness(watch: WatchHealth): CheckResult {
  const { connected, advice, isExcused } = watch;
  const result = ageOf(watch);
  if (connected || advice === undefined) return result;
  const ok = result.ok || isExcused === true;
  return { ok, message: ok ? advice : `${result.message ?? ''}; ${advice}` };
}

function ageOf({ name, synced, connected, silentMs, error }: WatchHealth): CheckResult {
  const because = error === undefined ? '' : `: ${error}`;
  const seconds = Math.round(silentMs / 1000);
  if (!synced) return { ok: false, message: `${name}: the first list is not complete${because}` };
  if (!connected && silentMs > DISCONNECTED_LIMIT_MS) {
    return { ok: false, message: `the watch of ${name} has been broken for ${seconds} s${because}` };
  }
  return { ok: true, message: `${name}: last activity ${seconds} s ago` };
}
