/**
 * Joins the engine, its backends and its controllers. No other file does this.
 *
 *   new ──open──▶ opening ──home cluster synced──▶ standby ──start──▶ leading ──drain──▶ drained ──stop──▶ stopped
 *
 * - A controller whose API is not installed delays no other controller: the start waits for the first controller that is
 *   open, and until each watch is listed or its API has failed.
 * - The rule sets of all controllers are known before the first watch opens, so the marks on each object are read by all.
 * - `open` and the readiness depend only on the watches of the home cluster, in which this process runs. If another
 *   backend does not answer, only its own targets wait (`Backends.start`).
 */
import type { CheckResult } from '../../observe/routes.ts';
import { orAborted } from '../../runtime/abort.ts';
import type { WatchHealth } from '../../kube/watch/watch-target.ts';
import type { RuleKey } from '../model/keys.ts';
import type { Backend } from './backend.ts';
import type { Controller, NamedQueue, OwnWork, RuleReadiness } from './controller.ts';
import { Engine, type EngineOptions } from './engine.ts';
import { RuleLife, type RuleLifeOptions } from './life/rule-life.ts';

export interface ManagerOptions {
  /** Name of the home cluster's backend. */
  readonly home: string;
  /** What the rules of all controllers need; their objects are in the home cluster. */
  readonly life: Omit<RuleLifeOptions, 'enqueueStatus'>;
  readonly adoptOrphans?: EngineOptions['adoptOrphans'];
  readonly onError: EngineOptions['onError'];
  readonly onWritten?: EngineOptions['onWritten'];
  readonly onGone?: EngineOptions['onGone'];
}

/** If a watch is disconnected for longer than this, the process is not ready, ms. */
const DISCONNECTED_LIMIT_MS = 3000;
/** If a worker is busy for longer than this, it counts as stuck, ms: no call of a worker may take so long. */
const STUCK_MS = 300_000;

export class Manager {
  readonly engine: Engine;
  readonly #home: string;
  readonly #lives: RuleLife[] = [];
  readonly #works: OwnWork[] = [];
  #started = false;

  readonly #life: ManagerOptions['life'];
  readonly #ended = new AbortController();

  constructor({ home, life, ...options }: ManagerOptions) {
    this.#home = home;
    this.#life = life;
    this.engine = new Engine(options);
  }

  /** Must be called before `open`. */
  addController(controller: Controller): void {
    const enqueueStatus = (rule: RuleKey): void => this.engine.enqueueStatus(rule);
    const life = new RuleLife(controller, { ...this.#life, enqueueStatus });
    this.engine.add(life);
    this.#lives.push(life);
    if (controller.work !== undefined) this.#works.push(controller.work);
  }

  /** Aborted at the stop, when the controllers receive no more events. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** Opens the watches of all controllers. Settles when they are listed, so that this replica can take over quickly. */
  async open(signal: AbortSignal): Promise<void> {
    // An error that is not an abort is a bug. It ends the process, also after `open` has settled.
    const failed = (error: unknown): void => {
      if (!signal.aborted && !this.ended.aborted) throw error;
    };
    const opening = this.#lives.map(async (life) => await life.open(this.ended));
    Promise.all(opening).catch(failed);
    await orAborted(Promise.any(opening), signal, 'waiting for an API');
    const listed = this.#homeBackend().synced?.();
    if (listed !== undefined) await orAborted(listed, signal, 'waiting for the first lists of the home cluster');
  }

  /** Starts the loops. Settles when the first evaluations are over. */
  async start(signal: AbortSignal): Promise<void> {
    await this.engine.start(signal);
    this.#started = true;
    for (const work of this.#works) work.start();
  }

  /** First part of a stop: running work may end within `drainMs`. Then the controllers receive no more events. */
  async drain(drainMs: number): Promise<void> {
    const { backends } = this.engine;
    this.#started = false;
    await Promise.all([
      this.engine.stop(drainMs),
      ...backends.all.map(async (backend) => await backend.drain?.()),
      ...this.#works.map(async (work) => await work.drain(drainMs)),
    ]);
    this.#ended.abort();
  }

  /** Second part of a stop: closes the backends. */
  async stop(limitMs: number): Promise<void> {
    await Promise.all(this.engine.backends.all.map(async (backend) => await backend.stop(limitMs)));
  }

  /** Whether the caches of the home cluster are complete and up to date. */
  readiness(): CheckResult[] {
    const { watches } = this.#homeBackend();
    const missing = this.#works.flatMap(({ lacks }) => lacks ?? []).map((message) => ({ ok: false, message }));
    const results = [...watches.map(freshness), ...missing];
    return results.length === 0 ? [{ ok: false, message: 'no watch is open yet' }] : results;
  }

  /** The watches of the other backends. The process is ready even if they fail. */
  get otherWatches(): readonly (CheckResult & { readonly backend: string })[] {
    const others = this.engine.backends.all.filter(({ name }) => name !== this.#home);
    return others.flatMap(({ name, watches }) => watches.map((watch) => ({ backend: name, ...freshness(watch) })));
  }

  /** The queues of the engine, of its backends, and of controllers with their own work. */
  get queues(): readonly NamedQueue[] {
    const { queues, backends } = this.engine;
    return [...queues, ...[...backends.all, ...this.#works].flatMap((part) => part.queues)];
  }

  /** For each rule of all controllers, whether it is ready; empty before the start. */
  *ruleReadiness(): Iterable<RuleReadiness> {
    if (!this.#started) return;
    yield* this.engine.readiness();
  }

  /** Fails if a worker is stuck. */
  liveness(): CheckResult {
    for (const { name, queue, pauses } of this.queues) {
      if (pauses === true) continue;
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
  const ok = result.ok || isExcused === true;
  if (connected || advice === undefined) return { ...result, ok };
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
