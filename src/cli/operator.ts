/**
 * The running operator: one engine, the clusters that it works on, and the controllers whose APIs are installed.
 *
 *   opening watches ──all listed──▶ standby ──elected (or no election)──▶ working ──▶ stopped
 *
 * A standby has everything but the loops: its caches are warm, and it writes nothing.
 */
import type { Config } from '../config/config.ts';
import { startMirrors, type MirrorsController } from '../controllers/mirrors/controller.ts';
import { CrdTrouble } from '../controllers/mirrors/crd-trouble.ts';
import type { MirrorEvent } from '../controllers/mirrors/status.ts';
import {
  MIRRORS_API_PATH,
  MIRRORS_API_VERSION,
  MIRRORS_EVENT_COMPONENT,
  SECRET_MIRROR_KIND,
  SECRET_MIRROR_PLURAL,
  type SecretMirror,
} from '../controllers/mirrors/api.ts';
import {
  REPLICATOR_EVENT_COMPONENT,
  startReplicator,
  type ReplicatorController,
} from '../controllers/replicator/controller.ts';
import { annotationNames, isReplicators } from '../controllers/replicator/annotations.ts';
import { isReadOfCopies } from '../controllers/mirrors/shape.ts';
import type { Cluster } from '../copy/cluster/cluster.ts';
import { ClusterBackend } from '../copy/cluster/backend.ts';
import { Engine } from '../copy/engine.ts';
import { parseResourceKey } from '../copy/model/keys.ts';
import { CONFIG_MAP, type Kind, SECRET } from '../copy/model/kind.ts';
import type { KubeApi } from '../kube/api.ts';
import { ApiError, isNotFound, retryAfterMs } from '../kube/errors.ts';
import type { WatchHealth } from '../kube/watch/watcher.ts';
import type { EventInput } from '../kube/event-correlator.ts';
import { EventRecorder } from '../kube/events.ts';
import type { CheckResult } from '../observe/checks.ts';
import type { Log } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics.ts';
import type { VaultBackend } from '../copy/vault/backend.ts';
import { VaultAddresses } from '../vault/addresses.ts';
import { parseAddressPattern } from '../runtime/address-patterns.ts';
import { addVault } from './vault.ts';
import { orAborted, sleep } from '../runtime/abort.ts';
import { KeyedBackoff } from '../runtime/backoff.ts';
import { systemClock } from '../runtime/clock.ts';

export interface OperatorOptions {
  readonly config: Config;
  readonly api: KubeApi;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Kinds that the replicator copies beside Secrets and ConfigMaps. */
  readonly extraKinds?: readonly Kind[];
  /** @see ClusterOptions.onRollback */
  readonly onRollback: (what: string) => void;
}

/** Between log lines about events that could not be written, ms. */
const DROPPED_EVENTS_TOLD_MS = 60_000;
/** How long a watch may be without a connection before we say that we are not up to date, ms. */
const DISCONNECTED_LIMIT_MS = 3000;
/** How often it is looked whether an API has been installed since, ms. Only while it is not; it is to be noticed within 5 s. */
const DISCOVERY_INTERVAL_MS = 4000;
/** First wait where it could not be found out, ms; it grows to the above. */
const DISCOVERY_RETRY_MS = 1000;
/** How long the start waits to see whether an API is there that only some of the controllers need, ms. */
const FIRST_LOOK_MS = 1000;
/** How long running writes may take to end at a stop, ms. */
const DRAIN_MS = 3000;
/** How long the last events may take then, ms. */
const EVENTS_DRAIN_MS = 1000;
/** What all of a stop may take, ms: half a second less than what ends the process, for the Lease of the election. */
const STOP_MS = 4000;
/** What is left to the last steps of a stop whatever the first took, ms. */
const MIN_LEFT_MS = 100;
/** A worker that takes longer than any of its calls may is stuck, ms. */
const STUCK_MS = 300_000;

export class Operator {
  readonly #options: OperatorOptions;
  readonly #engine: Engine;
  readonly #cluster: Cluster;
  /** By component: each system reports under the name of its original. */
  readonly #events = new Map<string, EventRecorder>();
  /** Monotonic; until then no event that was dropped is told. */
  #tellDroppedFrom = 0;
  readonly #mirrorControllers: MirrorsController[] = [];
  readonly #vault: VaultBackend;
  readonly #crd: CrdTrouble;
  readonly #vaultAddresses: VaultAddresses;
  #replicator: ReplicatorController | undefined;
  #working = false;

  constructor(options: OperatorOptions) {
    const { api, log, metrics, config } = options;
    this.#options = options;
    this.#crd = new CrdTrouble(api);
    this.#engine = new Engine({
      onError: (loop, key, error, retryInMs) => {
        log.warn('will be tried again', {
          queue: loop,
          [loop === 'targets' ? 'target' : 'owner']: key,
          error,
          retryInMs,
        });
      },
    });
    const engine = this.#engine;
    const replicatorNames = annotationNames(config.replicator.annotationsPrefix);
    const backend = new ClusterBackend({
      engine,
      api,
      kinds: [SECRET, CONFIG_MAP, ...(options.extraKinds ?? [])],
      concurrency: config.kube.maxConcurrentWrites,
      clock: systemClock,
      idleLimitMs: config.kube.watchIdleMs,
      isRead: (annotation) => isReadOfCopies(annotation) || isReplicators(replicatorNames, annotation),
      onRollback: options.onRollback,
      onNamespace: (name, there, initial) => {
        for (const controller of this.#mirrorControllers) controller.namespaceChanged(name, there, initial);
        this.#replicator?.namespaceChanged(name, there, initial);
      },
      onObject: (key, before, after, initial) => {
        engine.objectChanged(key, before, after, initial);
        this.#vault.objectChanged(key);
        this.#replicator?.objectChanged(key, before, after, initial);
      },
      onKnown: (key) => {
        engine.touchSource(key);
        engine.touchTarget(key);
        this.#vault.objectChanged(key);
      },
      onTrouble: (watch, error, retryInMs) => {
        const reason = error instanceof ApiError ? error.reason : error instanceof Error ? error.name : 'unknown';
        // Without the name of the object that it may follow: users choose those, and a series is never removed.
        const [plural = watch] = watch.split('/', 1);
        metrics.watchRestarts.inc({ cluster: api.cluster, kind: plural, reason });
        const fields = { cluster: api.cluster, watch, error, retryInMs };
        const before = this.#crd.kind;
        if (watch === SECRET_MIRROR_PLURAL) this.#crd.failed(error);
        const { kind, advice } = watch === SECRET_MIRROR_PLURAL ? this.#crd : {};
        // It may stay away for as long as it likes, and is asked for every few seconds: that is told once.
        if (kind === 'missing' && before === 'missing') log.debug('a watch broke and will be opened again', fields);
        else
          log.warn('a watch broke and will be opened again', {
            ...fields,
            ...(advice === undefined ? {} : { advice }),
          });
      },
      onWrite: (target, verb, ok, claim) => {
        const { cluster, kind, namespace, name } = parseResourceKey(target);
        metrics.writes.inc({ cluster, kind, verb, result: ok ? 'ok' : 'error' });
        if (!ok) return;
        log.info(`${verb}d`, { kind, namespace, name, ...(claim === undefined ? {} : { owner: claim.owner.title }) });
      },
    });
    this.#cluster = backend.cluster;
    engine.addBackend(backend);
    const { vaultTimeoutMs: timeoutMs, vault: environment } = config.mirrors;
    this.#vaultAddresses = new VaultAddresses(config.mirrors.vaultAddresses.map(parseAddressPattern));
    const addresses = this.#vaultAddresses;
    this.#vault = addVault({
      engine,
      cluster: this.#cluster,
      log,
      metrics,
      addresses,
      timeoutMs,
      environment,
    });
    this.#addMetrics();
  }

  /** Opens the watches of every controller that may run. Settles when they are listed, so that we are a warm standby. */
  async open(signal: AbortSignal): Promise<void> {
    const { config, log } = this.#options;
    if (config.controllers.includes('replicator')) {
      this.#cluster.watchNamespaces();
      this.#replicator = startReplicator({
        engine: this.#engine,
        cluster: this.#cluster,
        config: config.replicator,
        extraKinds: this.#options.extraKinds ?? [],
        recordEvent: ({ kind, namespace, name, uid }, event) => {
          this.#logEvent(event, { kind: kind.kind, namespace, name });
          const subject = { apiVersion: kind.apiVersion, kind: kind.kind, namespace, name, uid };
          this.#recorder(REPLICATOR_EVENT_COMPONENT).record({ subject, ...event });
        },
      });
    }
    if (config.controllers.includes('mirrors')) {
      const installed = config.controllersNamed
        ? Promise.resolve()
        : this.#installed(signal, MIRRORS_API_PATH, 'mirrors');
      if (this.#replicator === undefined) await installed;
      // The replicator needs no API of its own, so it does not wait for one.
      void installed.then(
        () => this.#startMirrors(),
        (error: unknown) => log.debug('stopped waiting for an API', { controller: 'mirrors', error }),
      );
      await Promise.race([installed, sleep(FIRST_LOOK_MS, signal)]);
    }
    await orAborted(this.#synced(), signal, 'listing what there is');
    log.info('caches are synced');
  }

  /** Every watch is listed, or every other one where the CRD is why the mirrors cannot be: the rest works without them. */
  async #synced(): Promise<void> {
    const all = this.#cluster.synced();
    if (this.#replicator === undefined) return await all;
    const others = this.#crd.found.then(async () => await this.#cluster.synced(SECRET_MIRROR_PLURAL));
    await Promise.race([all, others]);
  }

  #startMirrors(): void {
    const { config, metrics } = this.#options;
    this.#cluster.watchNamespaces();
    this.#mirrorControllers.push(
      startMirrors({
        engine: this.#engine,
        cluster: this.#cluster,
        vault: this.#vault,
        vaultAddresses: this.#vaultAddresses,
        config: config.mirrors,
        log: this.#options.log,
        metrics: metrics.mirrors,
        recordEvent: (mirror, event) => {
          this.#recordEvent(mirror, event);
        },
        deletionTimeoutMs: config.deletionTimeoutMs,
        now: () => systemClock.now(),
      }),
    );
  }

  /** Starts the loops: we are the one that writes. */
  async work(signal: AbortSignal): Promise<void> {
    this.#options.metrics.leader.set({}, 1);
    this.#options.log.info('working');
    await this.#engine.start(signal);
    this.#working = true;
  }

  async stop(): Promise<void> {
    this.#options.metrics.leader.set({}, 0);
    const until = systemClock.monotonic() + STOP_MS;
    await Promise.all([this.#engine.stop(this.#working ? DRAIN_MS : 0), this.#vault.drain()]);
    this.#replicator?.stop();
    for (const controller of this.#mirrorControllers) controller.stop();
    const leftMs = Math.max(MIN_LEFT_MS, until - systemClock.monotonic());
    const events = [...this.#events.values()].map(
      async (recorder) => await recorder.stop({ drainMs: Math.min(EVENTS_DRAIN_MS, leftMs) }),
    );
    await Promise.all([...events, this.#vault.stop(leftMs)]);
    await this.#cluster.stop();
  }

  /** Whether the picture is complete and fresh. */
  readiness(): CheckResult[] {
    const health = this.#cluster.health;
    if (health.length === 0) return [{ ok: false, message: 'no watch is open yet' }];
    return health.map((watch) =>
      watch.name === SECRET_MIRROR_PLURAL ? this.#mirrorsFreshness(watch) : freshness(watch),
    );
  }

  /** As of any watch; where the CRD is why it is broken, that is said. */
  #mirrorsFreshness(watch: WatchHealth): CheckResult {
    const { kind, advice } = this.#crd;
    const result = freshness(watch);
    if (watch.connected || advice === undefined) return result;
    // As at a start: without the CRD there is nothing that we are behind with, unless mirrors were asked for by name.
    const ok = result.ok || (kind === 'missing' && !this.#options.config.controllersNamed);
    return { ok, message: ok ? advice : `${result.message ?? ''}; ${advice}` };
  }

  /** The kinds of the replicator of which, or of whose namespaces, the first list is not complete. */
  unsyncedKinds(): readonly string[] {
    const synced = new Set(this.#cluster.health.filter((watch) => watch.synced).map(({ name }) => name));
    const { runReplicators } = this.#options.config.replicator;
    return runReplicators.filter((kind) => !synced.has('namespaces') || !synced.has(`${kind}s/all`));
  }

  /** Whether a worker hangs. */
  liveness(): CheckResult {
    for (const { name, queue } of this.#engine.queues) {
      const { longestRunningMs } = queue.metrics();
      if (longestRunningMs > STUCK_MS) {
        return { ok: false, message: `a worker of ${name} has been busy for ${Math.round(longestRunningMs / 1000)} s` };
      }
    }
    return { ok: true };
  }

  /** Settles when the API is there. */
  async #installed(signal: AbortSignal, path: string, controller: string): Promise<void> {
    const backoff = new KeyedBackoff({ baseMs: DISCOVERY_RETRY_MS, maxMs: DISCOVERY_INTERVAL_MS });
    for (let told: string | undefined; ;) {
      try {
        await this.#options.api.request({ method: 'GET', path, signal });
        return;
      } catch (error) {
        signal.throwIfAborted();
        const missing = isNotFound(error);
        const news = missing ? 'missing' : String(error);
        if (told !== news) {
          this.#options.log.warn(missing ? 'its API is not installed; waiting for it' : 'cannot look for its API', {
            controller,
            path,
            ...(missing ? {} : { error }),
          });
          told = news;
        }
        if (missing) backoff.reset(path);
        const waitMs = missing ? DISCOVERY_INTERVAL_MS : backoff.next(path, retryAfterMs(error));
        await sleep(waitMs, signal);
      }
    }
  }

  #recorder(component: string): EventRecorder {
    let recorder = this.#events.get(component);
    if (recorder === undefined) {
      const { api, config, metrics } = this.#options;
      recorder = new EventRecorder({
        api,
        component,
        instance: config.leaderElect.identity,
        onDrop: ({ subject, reason }, error) => {
          metrics.eventsDropped.inc({ reason });
          this.#tellDropped(subject, reason, error);
        },
      });
      this.#events.set(component, recorder);
    }
    return recorder;
  }

  /** Not each of them: whoever may not write events writes none, and the metric counts. */
  #tellDropped({ kind, namespace, name }: EventInput['subject'], reason: string, error: Error): void {
    const now = systemClock.monotonic();
    if (now < this.#tellDroppedFrom) return;
    this.#tellDroppedFrom = now + DROPPED_EVENTS_TOLD_MS;
    this.#options.log.warn('an event could not be written', { kind, namespace, name, reason, error });
  }

  #logEvent({ type, reason, message }: MirrorEvent, fields: Readonly<Record<string, string>>): void {
    const { log } = this.#options;
    if (type === 'Warning') log.warn(message, { ...fields, reason });
    else log.info(message, { ...fields, reason });
  }

  #recordEvent(mirror: SecretMirror, event: MirrorEvent): void {
    const { name, namespace = '', uid } = mirror.metadata;
    this.#logEvent(event, { mirror: `${namespace}/${name}` });
    this.#recorder(MIRRORS_EVENT_COMPONENT).record({
      subject: { apiVersion: MIRRORS_API_VERSION, kind: SECRET_MIRROR_KIND, namespace, name, uid },
      ...event,
    });
  }

  #addMetrics(): void {
    const { metrics, api } = this.#options;
    metrics.queues.add(() =>
      this.#engine.queues.map(({ name, queue }) => {
        const { depth, oldestWaitingMs, retries } = queue.metrics();
        return { queue: name, depth, oldestAgeSeconds: oldestWaitingMs / 1000, retries };
      }),
    );
    metrics.watches.add(() =>
      this.#cluster.health.map(({ name, synced, silentMs }) => {
        const [kind = name, ...rest] = name.split('/');
        return { cluster: api.cluster, kind, watch: rest.join('/') || 'all', synced, idleSeconds: silentMs / 1000 };
      }),
    );
    metrics.claims.add(() =>
      [...this.#engine.book.counts()].map(([key, count]) => {
        const [system = '', state = ''] = key.split(' ');
        return { system, state, count };
      }),
    );
    metrics.payloadCacheBytes.add(() => [{ labels: {}, value: this.#cluster.cachedBytes }]);
  }
}

function freshness({ name, synced, connected, silentMs, error }: WatchHealth): CheckResult {
  const because = error === undefined ? '' : `: ${error}`;
  if (!synced) return { ok: false, message: `the watch of ${name} has not been listed yet${because}` };
  if (!connected && silentMs > DISCONNECTED_LIMIT_MS) {
    return {
      ok: false,
      message: `the watch of ${name} has been broken for ${Math.round(silentMs / 1000)} s${because}`,
    };
  }
  return { ok: true, message: `${name}: last heard of ${Math.round(silentMs / 1000)} s ago` };
}
