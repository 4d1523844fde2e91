/**
 * Builds the servers of the demo in the order in which its parts need them, while earlier parts are shown.
 *
 *   wanted ──▶ building ──▶ there
 *     │           └───────▶ failed, or dropped: no part that is still to come needs the server
 *     └───────────────────▶ there at once: the server was built before
 */
import { orAborted } from '../src/runtime/abort.ts';
import { type ServerName, serverRecipe } from '../test/servers/catalogue.ts';
import { ensureServer, findServer } from '../test/servers/ensure.ts';
import type { Screen } from './screen.ts';

/** Seconds that a first build takes on two cores; that of kube-controller-manager uses what kube-apiserver's has compiled. */
const USUAL_SECONDS: Partial<Record<ServerName, number>> = {
  etcd: 30,
  'kube-apiserver': 270,
  vault: 330,
  'external-secrets': 120,
  'kube-controller-manager': 100,
};
const DEFAULT_SECONDS = 120;
/** A build that has taken as long as expected is expected to need so much more of its time. */
const OVERTIME = 1.1;
const BAR_INTERVAL_MS = 1000;
/** A build begins a moment after it was asked for. */
const FIRST_BAR_MS = 100;

export interface BuildState {
  /** What a first build usually takes, seconds. */
  readonly usual: number;
  /** Seconds since the build began; `undefined`: it has not begun. */
  readonly elapsed: number | undefined;
  readonly isBuilt: boolean;
}

/** How far some builds are, and the seconds that they still need, from the pace of this machine so far. */
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
  /** `performance.now()` */
  startedAt: number | undefined;
  endedAt: number | undefined;
}

export interface BuildsOptions {
  readonly screen: Pick<Screen, 'bar' | 'progress'>;
  readonly signal: AbortSignal;
  /** Default: `ensureServer` and `findServer`. */
  readonly servers?: { readonly ensure: typeof ensureServer; readonly find: typeof findServer };
}

export class Builds implements AsyncDisposable {
  readonly #screen: BuildsOptions['screen'];
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;
  readonly #servers: NonNullable<BuildsOptions['servers']>;
  /** In the order of the builds. */
  readonly #jobs = new Map<ServerName, Job>();

  constructor({ screen, signal, servers = { ensure: ensureServer, find: findServer } }: BuildsOptions) {
    this.#screen = screen;
    this.#signal = AbortSignal.any([signal, this.#stop.signal]);
    this.#servers = servers;
  }

  /** Builds these servers one after another, after those that were named before. Servers that exist are not built. */
  start(names: readonly ServerName[], options: { readonly lowPriority: boolean }): void {
    for (const name of names) {
      if (this.#jobs.has(name) || this.#servers.find(name) !== undefined) continue;
      const previous = [...this.#jobs.values()].at(-1)?.done ?? Promise.resolve();
      this.#jobs.set(name, this.#job(name, previous, options.lowPriority));
    }
  }

  /**
   * Waits until these servers are there, and shows a bar meanwhile.
   * @param hint what the reader can do meanwhile
   * @throws ServerUnavailableError naming what is missing to build a server; the reason of `signal`
   */
  async ready(names: readonly ServerName[], signal: AbortSignal, hint = ''): Promise<void> {
    this.start(names, { lowPriority: false });
    const wanted = names.flatMap((name) => this.#jobs.get(name) ?? []);
    if (wanted.every(({ endedAt }) => endedAt !== undefined)) return;
    const all = [...this.#jobs.values()];
    // Builds run one after another, so those before the last one that is wanted take their time first.
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
   * Waits for the build of a server, without a bar.
   * @returns whether the server is there: not if nobody builds it
   * @throws ServerUnavailableError naming what is missing to build it
   */
  async finished(name: ServerName): Promise<boolean> {
    const job = this.#jobs.get(name);
    if (job === undefined) return this.#servers.find(name) !== undefined;
    await job.done;
    return true;
  }

  /** Ends the builds that nothing needs any more. */
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
    // A failed build does not keep the next one from its turn.
    const done = previous.then(run, run);
    // The part that needs the server may never come.
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
    // Another process may hold the lock of the builds.
    if (current === undefined) return this.#screen.progress(`waiting for ${jobs.at(-1)?.name ?? 'servers'}`);
    const { name, version } = serverRecipe(current.name);
    this.#screen.bar(`building ${name} ${version}`, { ...estimate(states), hint });
  }
}

async function allOf(jobs: readonly Job[]): Promise<void> {
  await Promise.all(jobs.map(({ done }) => done));
}
