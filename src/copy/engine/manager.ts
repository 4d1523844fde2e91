/**
 * Joins the engine, its backends and its controllers. No other file does this.
 *
 *   new ──open──▶ opening ──home cluster synced──▶ standby ──start──▶ leading ──drain──▶ drained ──stop──▶ stopped
 *
 * - A controller whose API is not installed delays no other controller. But the start waits until the server has said
 *   whether it serves the API: without its rules, a controller's marks on shared copies count as those of nobody.
 * - `open` and the readiness depend only on the watches of the home cluster, in which this process runs. If another
 *   backend does not answer, only its own targets wait (`Backends.start`).
 */
import type { CheckResult } from '../../observe/routes.ts';
import { orAborted } from '../../runtime/abort.ts';
import type { WatchHealth } from '../../kube/watch/watch-target.ts';
import type { RuleKey } from '../model/keys.ts';
import type { Backend } from './backend.ts';
import type { Controller, RuleReadiness, NamedQueue } from './controller.ts';
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
  readonly #controllers: { readonly name: string; readonly made: Promise<Controller> }[] = [];
  /** By controller that the start waits for: settles when it need not wait. */
  readonly #awaited = new Map<string, PromiseWithResolvers<void>>();
  readonly #open: Controller[] = [];
  #started = false;

  readonly #life: ManagerOptions['life'];
  readonly #ended = new AbortController();
  /** By controller that is not made yet: what is missing, if the process is not ready without it. */
  readonly #missing = new Map<string, string>();

  constructor({ home, life, ...options }: ManagerOptions) {
    this.#home = home;
    this.#life = life;
    this.engine = new Engine(options);
  }

  /** @param make makes the controller when the API of its rules is installed */
  addController(name: string, make: () => Controller | Promise<Controller>): void {
    this.#awaited.set(name, Promise.withResolvers());
    const made = Promise.resolve(make());
    // `open` handles an error. If the process stops before, nobody does.
    made.catch(() => undefined);
    this.#controllers.push({ name, made });
  }

  /** The start does not wait for this controller. @param missing what it lacks, if the process is not ready without it */
  startWithout(controller: string, missing?: string): void {
    this.#awaited.get(controller)?.resolve();
    if (missing === undefined) this.#missing.delete(controller);
    else this.#missing.set(controller, missing);
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
    const opening = this.#controllers.map(async ({ name, made }) => {
      const controller = await made;
      this.startWithout(name);
      const enqueueStatus = (rule: RuleKey): void => this.engine.enqueueStatus(rule);
      const life = new RuleLife(controller, {
        ...this.#life,
        enqueueStatus,
        onListed: () => this.engine.listed(controller.rules),
      });
      this.engine.add(life);
      this.#open.push(controller);
      life.open(this.ended).catch(failed);
      if (this.#started) controller.work?.start();
    });
    const all = Promise.all(opening);
    all.catch(failed);
    const answered = this.#controllers.map(async ({ name }, at) => {
      await Promise.race([opening[at], this.#awaited.get(name)?.promise]);
      this.#awaited.delete(name);
    });
    await orAborted(Promise.all([Promise.any(opening), ...answered]), signal, 'waiting for an API');
    const listed = this.#homeBackend().synced?.();
    if (listed !== undefined) await orAborted(listed, signal, 'waiting for the first lists of the home cluster');
  }

  /** Starts the loops. Settles when the first evaluations are over. */
  async start(signal: AbortSignal): Promise<void> {
    await this.engine.start(signal);
    this.#started = true;
    for (const { work } of this.#open) work?.start();
  }

  /** First part of a stop: running work may end within `drainMs`. Then the controllers receive no more events. */
  async drain(drainMs: number): Promise<void> {
    const { backends } = this.engine;
    this.#started = false;
    await Promise.all([
      this.engine.stop(drainMs),
      ...backends.all.map(async (backend) => await backend.drain?.()),
      ...this.#open.map(async (controller) => await controller.work?.drain(drainMs)),
    ]);
    this.#open.splice(0);
    this.#ended.abort();
  }

  /** Second part of a stop: closes the backends. */
  async stop(limitMs: number): Promise<void> {
    await Promise.all(this.engine.backends.all.map(async (backend) => await backend.stop(limitMs)));
  }

  /** Whether the caches of the home cluster are complete and up to date. */
  readiness(): CheckResult[] {
    const { watches } = this.#homeBackend();
    const unknown = Array.from(
      this.#awaited.keys(),
      (name) => `${name}: the server has not said yet whether it serves the API`,
    );
    const missing = [...unknown, ...this.#missing.values()].map((message) => ({ ok: false, message }));
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
    const works = this.#open.flatMap(({ work }) => work ?? []);
    return [...queues, ...[...backends.all, ...works].flatMap((part) => part.queues)];
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
