/**
 * Builds the servers of the demo while earlier parts are shown, in the order in which the parts need them.
 *
 *   wanted ──▶ building ──▶ built
 *     │           └───────▶ failed, or stopped because no later part needs the server
 *     └───────────────────▶ no build: the server was built before
 */
import { orAborted } from '../src/runtime/abort.ts';
import { type ServerName, serverRecipe } from '../test/servers/catalogue.ts';
import { ensureServer, findServer } from '../test/servers/ensure.ts';
import { about, type Screen } from './screen.ts';

/**
 * How long a first build takes on two cores, in seconds. The build of kube-controller-manager is short, because it
 * reuses packages that were compiled for kube-apiserver.
 */
const USUAL_SECONDS: Partial<Record<ServerName, number>> = {
  etcd: 30,
  'kube-apiserver': 270,
  vault: 330,
  'external-secrets': 120,
  'kube-controller-manager': 100,
};
const DEFAULT_SECONDS = 120;
/** If a build takes longer than usual, the estimate for it is 1.1 times the time that it has taken so far. */
const OVERTIME = 1.1;
const BAR_INTERVAL_MS = 1000;
/** Delay before the first progress bar, ms: a build begins shortly after it was requested. */
const FIRST_BAR_MS = 100;

export interface BuildState {
  /** How long a first build of the server usually takes, in seconds. */
  readonly usual: number;
  /** Seconds since the build began; `undefined` if it has not begun yet. */
  readonly elapsed: number | undefined;
  readonly isBuilt: boolean;
}

/**
 * Estimates how much of some builds is done (0 to 1), and how many seconds are left. Uses the usual times, and the
 * speed of this machine so far.
 */
export function estimate(builds: readonly BuildState[]): { readonly fraction: number; readonly secondsLeft: number } {
  const built = builds.filter(({ isBuilt }) => isBuilt);
  const total = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);
  const usual = total(built.map((build) => build.usual));
  const pace = usual === 0 ? 1 : total(built.map(({ elapsed = 0 }) => elapsed)) / usual;
  const parts = builds.map((build) => {
    const { elapsed = 0, isBuilt } = build;
    const expected = isBuilt ? elapsed : Math.max(build.usual * pace, elapsed * OVERTIME);
    return { elapsed, expected };
  });
  const expected = total(parts.map((part) => part.expected));
  const done = total(parts.map((part) => part.elapsed));
  return { fraction: expected === 0 ? 1 : done / expected, secondsLeft: expected - done };
}

interface Job {
  readonly name: ServerName;
  readonly stop: AbortController;
  readonly done: Promise<void>;
  /** When the build began, as `performance.now()`; `undefined` if it has not begun yet. */
  startedAt: number | undefined;
  endedAt: number | undefined;
}

export interface BuildsOptions {
  readonly screen: Pick<Screen, 'bar' | 'progress'>;
  readonly signal: AbortSignal;
  /** Builds and finds servers. Tests give their own functions. Default: `ensureServer` and `findServer`. */
  readonly servers?: { readonly ensure: typeof ensureServer; readonly find: typeof findServer };
}

export class Builds implements AsyncDisposable {
  readonly #screen: BuildsOptions['screen'];
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;
  readonly #servers: NonNullable<BuildsOptions['servers']>;
  /** The builds by server, in the order in which they run. */
  readonly #jobs = new Map<ServerName, Job>();

  constructor({ screen, signal, servers = { ensure: ensureServer, find: findServer } }: BuildsOptions) {
    this.#screen = screen;
    this.#signal = AbortSignal.any([signal, this.#stop.signal]);
    this.#servers = servers;
  }

  /**
   * Requests builds of those servers that do not exist. Builds run one after the other, in the order of the requests.
   */
  start(names: readonly ServerName[], options: { readonly lowPriority: boolean }): void {
    for (const name of names) {
      if (this.#jobs.has(name) || this.#servers.find(name) !== undefined) continue;
      const previous = [...this.#jobs.values()].at(-1)?.done ?? Promise.resolve();
      this.#jobs.set(name, this.#job(name, previous, options.lowPriority));
    }
  }

  /**
   * Waits until these servers are built. Meanwhile shows a progress bar.
   * @param hint text for the progress bar: which keys the reader can press
   * @throws ServerUnavailableError that says what is missing to build a server; the abort reason of `signal`
   */
  async ready(names: readonly ServerName[], signal: AbortSignal, hint = ''): Promise<void> {
    this.start(names, { lowPriority: false });
    const wanted = names.flatMap((name) => this.#jobs.get(name) ?? []);
    if (wanted.every(({ endedAt }) => endedAt !== undefined)) return;
    const all = [...this.#jobs.values()];
    // Builds run one after the other, so these servers also wait for the builds that were requested before.
    const ahead = all.slice(0, Math.max(...wanted.map((job) => all.indexOf(job))) + 1);
    const draw = (): void => this.#draw(ahead, hint);
    const first = setTimeout(draw, FIRST_BAR_MS);
    const timer = setInterval(draw, BAR_INTERVAL_MS);
    try {
      await orAborted(allOf(wanted), signal, 'building servers');
    } finally {
      clearTimeout(first);
      clearInterval(timer);
    }
  }

  /**
   * Waits for the build of a server. Shows no progress bar.
   * @returns whether the server exists; `false` also if its build was not requested
   * @throws ServerUnavailableError that says what is missing to build the server
   */
  async finished(name: ServerName): Promise<boolean> {
    const job = this.#jobs.get(name);
    if (job === undefined) return this.#servers.find(name) !== undefined;
    await job.done;
    return true;
  }

  /** Stops the build of each server that is not in `needed`. */
  dropAllBut(needed: ReadonlySet<ServerName>): void {
    for (const { name, stop, endedAt } of this.#jobs.values()) {
      if (needed.has(name) || endedAt !== undefined) continue;
      stop.abort(new Error(`no part of the demo needs ${name}`));
      this.#jobs.delete(name);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('the demo is over'));
    await Promise.allSettled([...this.#jobs.values()].map(({ done }) => done));
  }

  #job(name: ServerName, previous: Promise<void>, lowPriority: boolean): Job {
    const stop = new AbortController();
    const signal = AbortSignal.any([this.#signal, stop.signal]);
    const run = async (): Promise<void> => {
      await this.#servers.ensure(name, { signal, lowPriority, onBuild: () => (job.startedAt = performance.now()) });
      job.endedAt = performance.now();
    };
    // If the previous build fails, this one begins all the same.
    const done = previous.then(run, run);
    // If no part of the demo waits for this server, nobody else handles the error of its build.
    done.catch(() => undefined);
    const job: Job = { name, stop, done, startedAt: undefined, endedAt: undefined };
    return job;
  }

  #draw(jobs: readonly Job[], hint: string): void {
    const now = performance.now();
    const states = jobs.map(({ name, startedAt, endedAt }) => ({
      usual: USUAL_SECONDS[name] ?? DEFAULT_SECONDS,
      elapsed: startedAt === undefined ? undefined : ((endedAt ?? now) - startedAt) / 1000,
      isBuilt: endedAt !== undefined,
    }));
    const current = jobs.find(({ startedAt, endedAt }) => startedAt !== undefined && endedAt === undefined);
    // This process builds nothing now: another one builds the server, and holds the lock.
    const next = jobs.find(({ endedAt }) => endedAt === undefined);
    if (current === undefined) {
      if (next === undefined) return;
      const usual = about(USUAL_SECONDS[next.name] ?? DEFAULT_SECONDS);
      return this.#screen.progress(`another process builds ${next.name}, which usually takes ${usual}`);
    }
    const { name, version } = serverRecipe(current.name);
    this.#screen.bar(`building ${name} ${version}`, { ...estimate(states), hint });
  }
}

async function allOf(jobs: readonly Job[]): Promise<void> {
  await Promise.all(jobs.map(({ done }) => done));
}
