/**
 * The running operator: makes the backends and the controllers of a Config, and gives them log and metrics.
 *
 *   open ──caches synced──▶ standby ──elected (or no election)──▶ leading ──▶ stopped
 *
 * A standby has warm caches and writes nothing.
 */
import type { Config } from '../config/config.ts';
import type { ControllerContext } from '../controllers/common/context.ts';
import { CONTROLLER_LIST } from '../controllers/list.ts';
import { ClusterBackend } from '../copy/cluster/backend.ts';
import type { WatchTrouble } from '../copy/cluster/cluster.ts';
import type { Controller } from '../copy/controller.ts';
import { Manager } from '../copy/manager.ts';
import { parseResourceKey } from '../copy/model/keys.ts';
import { CONFIG_MAP, type Kind, SECRET } from '../copy/model/kind.ts';
import { VaultBackend } from '../copy/vault/backend.ts';
import type { KubeApi } from '../kube/api.ts';
import { ApiError } from '../kube/errors.ts';
import type { CheckResult } from '../observe/checks.ts';
import type { Log } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics.ts';
import { parseAddressPattern } from '../runtime/address-patterns.ts';
import { systemClock } from '../runtime/clock.ts';
import { VaultAddresses } from '../vault/client/addresses.ts';
import { Events } from './events.ts';
import { vaultHooks } from './vault-hooks.ts';

export interface OperatorOptions {
  readonly config: Config;
  readonly api: KubeApi;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Kinds that are replicated besides Secrets and ConfigMaps. */
  readonly extraKinds?: readonly Kind[];
  /** @see ClusterOptions.onRollback */
  readonly onRollback: (what: string) => void;
}

/** How long running writes may take to end at a stop, ms. */
const DRAIN_MS = 3000;
/** How long the last events may take then, ms. */
const EVENTS_DRAIN_MS = 1000;
/** Limit of a whole stop, ms: half a second less than the limit of the process, which still has to release its Lease. */
const STOP_MS = 4000;
/** Minimum left for the last steps of a stop, ms. */
const MIN_LEFT_MS = 100;

export class Operator {
  readonly #options: OperatorOptions;
  readonly #manager: Manager;
  readonly #events: Events;
  #leading = false;

  constructor(options: OperatorOptions) {
    const { api, log, metrics, config, extraKinds = [] } = options;
    this.#options = options;
    this.#events = new Events({ api, instance: config.leaderElect.identity, log, metrics });
    this.#manager = new Manager({
      home: api.cluster,
      onError: (queue, key, error, retryInMs) => {
        const subject = queue === 'targets' ? { target: key } : { rule: key };
        log.warn('reconcile failed, retrying', { queue, ...subject, error, retryInMs });
      },
    });
    const { engine } = this.#manager;
    const cluster = this.#manager.addBackend(this.#clusterBackend(api, extraKinds));
    const vault = this.#manager.addBackend(
      new VaultBackend({
        engine,
        secrets: cluster.store(SECRET),
        clock: systemClock,
        random: Math.random,
        timeoutMs: config.vault.timeoutMs,
        addresses: new VaultAddresses(config.vault.addresses.map(parseAddressPattern)),
        environment: config.vault.environment,
        ...vaultHooks(log, metrics),
      }),
    );
    const context: ControllerContext = {
      config,
      engine,
      cluster,
      vault,
      extraKinds,
      log,
      metrics,
      clock: systemClock,
      recordEvent: (...event) => {
        this.#events.record(...event);
      },
    };
    for (const entry of CONTROLLER_LIST) {
      if (config.controllers.includes(entry.name)) this.#manager.addController(entry.create(context));
    }
    this.#addMetrics();
  }

  /** Opens the watches. Settles when they are listed: a warm standby. */
  async open(signal: AbortSignal): Promise<void> {
    await this.#manager.open(signal);
    this.#options.log.info('caches are synced');
  }

  /** Starts the loops: this process is the one that writes. */
  async work(signal: AbortSignal): Promise<void> {
    this.#options.metrics.leader.set({}, 1);
    this.#options.log.info('controllers started');
    await this.#manager.start(signal);
    this.#leading = true;
  }

  /** Writes end first, then events and backends. Safe to call again. */
  async stop(): Promise<void> {
    this.#options.metrics.leader.set({}, 0);
    const until = systemClock.monotonic() + STOP_MS;
    await this.#manager.drain(this.#leading ? DRAIN_MS : 0);
    const leftMs = Math.max(MIN_LEFT_MS, until - systemClock.monotonic());
    await Promise.all([this.#events.stop(Math.min(EVENTS_DRAIN_MS, leftMs)), this.#manager.stop(leftMs)]);
  }

  readiness(): CheckResult[] {
    return this.#manager.readiness();
  }

  liveness(): CheckResult {
    return this.#manager.liveness();
  }

  /** The `/healthz` of the program that we replace, where its controller was started alone under its own name. */
  get healthz(): Controller['healthz'] {
    return this.#options.config.controllersNamed ? this.#manager.healthz : undefined;
  }

  #clusterBackend(api: KubeApi, extraKinds: readonly Kind[]): ClusterBackend {
    const { config, log, metrics, onRollback } = this.#options;
    const readers = CONTROLLER_LIST.map((entry) => entry.annotationReader(config));
    return new ClusterBackend({
      api,
      engine: this.#manager.engine,
      events: this.#manager,
      kinds: [SECRET, CONFIG_MAP, ...extraKinds],
      concurrency: config.kube.maxConcurrentWrites,
      clock: systemClock,
      idleLimitMs: config.kube.watchIdleMs,
      isRead: (annotation) => {
        for (const isRead of readers) {
          const read = isRead(annotation);
          if (read !== false) return read;
        }
        return false;
      },
      onRollback,
      onTrouble: (trouble) => {
        this.#watchFailed(api.cluster, trouble);
      },
      onWrite: (target, verb, ok, claim) => {
        const { cluster, kind, namespace, name } = parseResourceKey(target);
        metrics.writes.inc({ cluster, kind, verb, result: ok ? 'ok' : 'error' });
        if (!ok) return;
        log.info(`${verb}d`, { kind, namespace, name, ...(claim === undefined ? {} : { rule: claim.owner.key }) });
      },
    });
  }

  #watchFailed(cluster: string, { watch, error, retryInMs, advice, isKnown }: WatchTrouble): void {
    const { log, metrics } = this.#options;
    const reason = error instanceof ApiError ? error.reason : error instanceof Error ? error.name : 'unknown';
    // Without the name of a single object: users choose it, and a series is never removed.
    const [kind = watch] = watch.split('/', 1);
    metrics.watchRestarts.inc({ cluster, kind, reason });
    const fields = { cluster, watch, error, retryInMs };
    if (isKnown) log.debug('watch failed, retrying', fields);
    else log.warn('watch failed, retrying', { ...fields, ...(advice === undefined ? {} : { advice }) });
  }

  #addMetrics(): void {
    const { metrics } = this.#options;
    const { engine } = this.#manager;
    metrics.queues.add(() => {
      const queues = engine.queues.map(({ name, queue }) => ({ name, ...queue.metrics() }));
      const all = [...queues, ...engine.backends.flatMap((backend) => backend.queues ?? [])];
      return all.map(({ name, depth, oldestWaitingMs, retries }) => {
        return { queue: name, depth, oldestAgeSeconds: oldestWaitingMs / 1000, retries };
      });
    });
    metrics.watches.add(() =>
      engine.backends.flatMap((backend) =>
        backend.watches.map(({ name, synced, silentMs }) => {
          const [kind = name, ...rest] = name.split('/');
          return { cluster: backend.name, kind, watch: rest.join('/') || 'all', synced, idleSeconds: silentMs / 1000 };
        }),
      ),
    );
    metrics.claims.add(() =>
      [...engine.book.counts()].map(([key, count]) => {
        const [system = '', state = ''] = key.split(' ');
        return { system, state, count };
      }),
    );
    metrics.payloadCacheBytes.add(() =>
      engine.backends.map(({ cachedBytes }) => {
        return { labels: {}, value: cachedBytes };
      }),
    );
  }
}
