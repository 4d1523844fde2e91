/**
 * For all fault tests: a control plane, a fault proxy in front of it, and Keyferry as a process that connects through
 * the proxy. Five rules copy five sources into ten namespaces. The test itself connects directly. A watch of the test
 * records every event of a copy, and the test sends probes five times a second.
 */
import assert from 'node:assert/strict';

import { startControlPlane, type ControlPlane, type ControlPlaneOptions } from '../servers/control-plane.ts';
import type { FaultProxy } from '../servers/fault-proxy.ts';
import { proxied } from '../servers/proxied.ts';
import type { Json, TestApi } from '../support/api.ts';
import { findCanaries, makeCanary } from '../support/canary.ts';
import { Keyferry } from '../support/keyferry.ts';
import { PATIENCE_MS, waitFor } from '../support/wait-for.ts';
import { within } from '../support/yardstick.ts';
import type { WatchEvent, Watcher } from '../support/watcher.ts';
import { ProbeLog } from './probe-log.ts';
import { type FaultController, MIRRORING, mirrorPath, RULES } from './controllers.ts';

export const NAMESPACES = 10;
export const COPIES = RULES * NAMESPACES;
/** Limit from the end of a fault until all copies are up to date on an idle machine, ms. */
export const RECOVERY_MS = 10_000;

const EVENTS = '/api/v1/events';
const MIRRORS_PATH = '/apis/mirrors.kts.studio/v1alpha2/secretmirrors';

export interface SceneOptions extends ControlPlaneOptions {
  /** The controller that is tested. Default: `mirrors`. */
  readonly controller?: FaultController;
  readonly keyferryArgs?: readonly string[];
  /** The user as which the operator connects. Default: `admin`. */
  readonly user?: string;
}

export class FaultScene implements AsyncDisposable {
  readonly plane: ControlPlane;
  readonly proxy: FaultProxy;
  readonly kubeconfig: string;
  readonly canary = makeCanary('source');
  /** All events of copies that the watch of the test got. */
  readonly events: WatchEvent[] = [];
  readonly #options: SceneOptions;
  readonly #controller: FaultController;
  readonly #operators: Keyferry[] = [];
  readonly #probes: ProbeLog[] = [];
  #watch: Watcher | undefined;
  #round = 0;
  #restarts = 0;

  private constructor(plane: ControlPlane, proxy: FaultProxy, kubeconfig: string, options: SceneOptions) {
    this.plane = plane;
    this.proxy = proxy;
    this.kubeconfig = kubeconfig;
    this.#options = options;
    this.#controller = options.controller ?? MIRRORING;
  }

  /** Starts a control plane, and creates namespaces, sources and rules. Starts no operator. */
  static async open(options: SceneOptions = {}): Promise<FaultScene> {
    const plane = await startControlPlane({ controllerManager: false, crds: true, ...options });
    const { proxy, kubeconfig } = await proxied(plane, options.user);
    const scene = new FaultScene(plane, proxy, kubeconfig, options);
    await scene.namespaces(...namespaceNames());
    for (let n = 0; n < RULES; n += 1) {
      await scene.#controller.make(scene, n);
    }
    const query = { labelSelector: scene.#controller.copyLabel };
    scene.#watch = await scene.api.watch('/api/v1/secrets', (event) => scene.events.push(event), query);
    return scene;
  }

  get api(): TestApi {
    return this.plane.api;
  }

  /** Starts Keyferry behind the proxy, and waits until all copies exist. */
  async start(...args: readonly string[]): Promise<Keyferry> {
    const keyferry = await this.operator(...args);
    await keyferry.ready();
    await this.converged();
    return keyferry;
  }

  /**
   * Ends all faults, stops the operators, and starts a new operator.
   * @throws AssertionError if an operator has exited before it was stopped
   */
  async restart(...args: readonly string[]): Promise<{ keyferry: Keyferry; probes: ProbeLog }> {
    for (const probes of this.#probes.splice(0)) {
      probes.stop();
      probes.assertAlive();
    }
    for (const operator of this.#operators) if (operator.running) assert.equal((await operator.stop()).code, 0);
    this.proxy.clearRules();
    const from = await this.caughtUp();
    const keyferry = await this.start(...args);
    await this.watchesOpen();
    const written = await this.writesSince(from);
    if (this.#restarts > 0) assert.equal(written.size, 0, 'a start writes nothing');
    this.#restarts += 1;
    return { keyferry, probes: this.watchProbes(keyferry) };
  }

  /** Waits until all watches of the operator are open. */
  async watchesOpen(): Promise<void> {
    const { watches } = this.#controller;
    await waitFor(() => this.proxy.live({ isWatch: true }).filter(({ status }) => status === 200).length === watches, {
      message: `${watches} open watches`,
    });
  }

  /** Starts Keyferry behind the proxy. Does not wait. */
  async operator(...args: readonly string[]): Promise<Keyferry> {
    const keyferry = await Keyferry.start({
      kubeconfig: this.kubeconfig,
      args: [`--controllers=${this.#controller.name}`, ...(this.#options.keyferryArgs ?? []), ...args],
    });
    this.#operators.push(keyferry);
    return keyferry;
  }

  /** Begins to send probes to an operator, and to record the answers. */
  watchProbes(keyferry: Keyferry): ProbeLog {
    const log = new ProbeLog(keyferry);
    this.#probes.push(log);
    return log;
  }

  async namespaces(...names: readonly string[]): Promise<void> {
    await this.api.createNamespaces(names);
  }

  async source(n: number, annotations: Readonly<Record<string, string>> = {}): Promise<void> {
    const metadata = { name: `source-${n}`, namespace: 'default', annotations };
    await this.api.create({ apiVersion: 'v1', kind: 'Secret', metadata, data: { value: this.value() } });
  }

  async mirror(n: number, namespaces: readonly string[]): Promise<void> {
    await this.api.create({
      apiVersion: 'mirrors.kts.studio/v1alpha2',
      kind: 'SecretMirror',
      metadata: { name: `mirror-${n}`, namespace: 'default' },
      spec: { source: { name: `source-${n}` }, destination: { namespaces } },
    });
  }

  /** The value that each source has now, in base64. */
  value(): string {
    return Buffer.from(`${this.canary} ${this.#round}`).toString('base64');
  }

  /** Gives every source a new value. */
  async changeSources(): Promise<void> {
    this.#round += 1;
    for (let n = 0; n < RULES; n += 1) {
      await this.api.patch(`/api/v1/namespaces/default/secrets/source-${n}`, { data: { value: this.value() } });
    }
  }

  /** The copies that do not exist, or do not have the value of their source. */
  async missing(namespaces: readonly string[] = namespaceNames()): Promise<string[]> {
    const copies = await this.api.list('/api/v1/secrets', { labelSelector: this.#controller.copyLabel });
    const held = new Map(copies.map(({ metadata, data }: Json) => [`${metadata.namespace}/${metadata.name}`, data]));
    const wanted = namespaces.flatMap((namespace) =>
      Array.from({ length: RULES }, (_, n) => `${namespace}/source-${n}`),
    );
    return wanted.filter((key) => held.get(key)?.['value'] !== this.value());
  }

  /** Waits until rule `n` is gone, with its copies. */
  async dropped(n: number): Promise<void> {
    const none = async (): Promise<boolean> => {
      const labelled = await this.api.list('/api/v1/secrets', { labelSelector: this.#controller.copyLabel });
      return labelled.every(({ metadata }) => metadata.name !== `source-${n}`);
    };
    await waitFor(none, { message: () => `the copies of source-${n} to go; ${this.logTail()}` });
    if (this.#controller === MIRRORING)
      await waitFor(async () => (await this.api.find(mirrorPath(n))) === undefined, { message: 'the mirror to go' });
  }

  /** Waits until all copies are up to date. @throws AssertionError at the time limit @returns how long it took, ms */
  async converged(limitMs = RECOVERY_MS, namespaces?: readonly string[]): Promise<number> {
    const from = performance.now();
    let missing: string[] = [];
    const look = async (): Promise<boolean> => (missing = await this.missing(namespaces)).length === 0;
    const message = (): string => `copies: ${missing.join(', ')}; ${this.logTail()}`;
    await within(limitMs, 'recovery', async () => await waitFor(look, { timeoutMs: 5 * PATIENCE_MS, message }));
    return performance.now() - from;
  }

  /**
   * Counts the writes of each copy since `at`, including deletions. First waits until the watch has all events. If
   * copies were written before, `at` must be a result of `caughtUp`.
   */
  async writesSince(at: number): Promise<ReadonlyMap<string, number>> {
    await this.caughtUp();
    const counts = new Map<string, number>();
    for (const { object, at: when } of this.events) {
      const { namespace, name } = object?.metadata ?? {};
      if (when < at || namespace === 'marker') continue;
      counts.set(`${namespace}/${name}`, (counts.get(`${namespace}/${name}`) ?? 0) + 1);
    }
    return counts;
  }

  /** Checks that `count` copies were written since `at`, each exactly `times` times, and no others. */
  async assertWrites(at: number, times: number, count = COPIES): Promise<void> {
    const writes = await this.writesSince(at);
    const others = [...writes].filter(([, n]) => n !== times);
    assert.deepEqual(others, [], `each copy is written ${times} time(s)`);
    assert.equal(writes.size, times === 0 ? 0 : count);
  }

  /** The largest number of requests that arrived at the proxy within one second, since `at`. */
  busiestSecond(at: number, filter: (request: { isWatch: boolean; method: string }) => boolean = () => true): number {
    const times = this.proxy.requests.filter((request) => request.at >= at && filter(request)).map(({ at }) => at);
    let most = 0;
    let first = 0;
    for (const [index, time] of times.entries()) {
      while ((times[first] ?? time) < time - 1000) first += 1;
      most = Math.max(most, index - first + 1);
    }
    return most;
  }

  logTail(): string {
    return this.#operators.map((one) => one.output.trimEnd().split('\n').slice(-8).join('\n')).join('\n---\n');
  }

  /** Checks that no value has leaked into logs and other output, then stops everything. */
  async close(): Promise<void> {
    try {
      await this.#assertNothingLeaked();
      for (const probes of this.#probes) {
        probes.stop();
        probes.assertAlive();
      }
    } finally {
      for (const probes of this.#probes) probes.stop();
      for (const operator of this.#operators) await operator.kill9();
      await this.#watch?.stop();
      await this.proxy.stop();
      await this.plane.stop();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #assertNothingLeaked(): Promise<void> {
    const texts: Record<string, string> = {
      events: JSON.stringify(await this.api.list(EVENTS)),
      mirrors: JSON.stringify(await this.api.list(MIRRORS_PATH)),
      copies: JSON.stringify(this.events.map(({ object }) => object?.metadata ?? null)),
    };
    for (const [n, operator] of this.#operators.entries()) {
      texts[`log of ${n}`] = operator.output;
      if (!operator.running) continue;
      for (const path of ['/metrics', '/readyz?verbose', '/healthz?verbose']) {
        texts[`${path} of ${n}`] = (await operator.probe(path)).text;
      }
    }
    for (const [where, text] of Object.entries(texts)) {
      assert.deepEqual(findCanaries(where, text, { source: this.canary }), [], 'a secret value came to light');
    }
  }

  /**
   * Waits until the watch of the test has the events of all earlier writes. On a busy machine, a list shows a copy
   * before the watch does. So this creates an object that the watch sees, too, and waits for its event, which is the
   * last one.
   * @returns a time after all these events, for `writesSince`
   */
  async caughtUp(): Promise<number> {
    if ((await this.api.find('/api/v1/namespaces/marker')) === undefined) await this.namespaces('marker');
    const name = `marker-${performance.now().toFixed(3)}`;
    const metadata = { name, namespace: 'marker', labels: { [this.#controller.copyLabel]: 'marker' } };
    await this.api.create({ apiVersion: 'v1', kind: 'Secret', metadata });
    await waitFor(() => this.events.some(({ object }) => object?.metadata.name === name), {
      message: 'the observer to see the last event',
    });
    return performance.now();
  }
}

export function namespaceNames(): string[] {
  return Array.from({ length: NAMESPACES }, (_, n) => `team-${n}`);
}
