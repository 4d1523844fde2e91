/**
 * The running operator: makes the backends and controllers of a Config, and connects them with log and metrics.
 *
 *   open ──caches synced──▶ standby ──elected (or no election)──▶ leading ──▶ stopped
 *
 * A standby has synced caches and writes nothing.
 */
import type { Config } from '../config/config.ts';
import type { ControllerContext, ControllerEntry } from '../controllers/common/context.ts';
import { SUSPEND_ANNOTATION } from '../controllers/common/annotated/values.ts';
import { goneRuleEvents } from '../copy/engine/life/warnings.ts';
import { NamespaceChanges } from '../controllers/common/namespaces/namespace-changes.ts';
import { reachOf } from '../controllers/common/namespaces/reach.ts';
import { CONTROLLER_LIST } from '../controllers/list.ts';
import { Cluster, type WatchTrouble } from '../copy/cluster/cluster.ts';
import { Manager } from '../copy/engine/manager.ts';
import { controllerOf, namespaceOf, parseResourceKey, type RuleKey, ruleName } from '../copy/model/keys.ts';
import { type IsRead, PLACE_ANNOTATION } from '../copy/model/observed.ts';
import { OVERWRITTEN_MARK } from '../copy/plan/plan-write.ts';
import { CONFIG_MAP, type Kind, SECRET } from '../copy/model/kind.ts';
import type { RuleReadiness } from '../copy/engine/controller.ts';
import { VaultBackend } from '../copy/vault/backend.ts';
import { environmentToken } from '../copy/vault/access/login-tokens.ts';
import type { KubeApi } from '../kube/api.ts';
import { ApiError } from '../kube/errors.ts';
import { type EventInput, EventRecorder } from '../kube/event-recorder.ts';
import { ServedNamespaces } from '../kube/watch/served-namespaces.ts';
import { watchName } from '../kube/watch/watch-target.ts';
import type { Reply } from '../observe/routes.ts';
import type { Log } from '../observe/log.ts';
import type { Metrics, RuleSnapshot } from '../observe/metrics/metrics.ts';
import { parseAddressPattern } from '../runtime/text/address-patterns.ts';
import { systemClock } from '../runtime/clock.ts';
import { VaultAddresses } from '../vault/client/server.ts';
import { vaultHooks } from './vault-hooks.ts';

/** The client of another cluster, with the context that names it. */
interface OtherApi {
  readonly context: string;
  readonly namespace: string | undefined;
  readonly api: KubeApi;
}

interface OperatorOptions {
  readonly config: Config;
  /** The cluster that this process runs in. */
  readonly api: KubeApi;
  /** The namespace of the Pod, or of the kubeconfig's context. */
  readonly namespace: string;
  /** The management cluster; `undefined`: no CCM runs. */
  readonly management?: KubeApi | undefined;
  /** The clusters of `--config-syncer-kubeconfig-file`. */
  readonly others?: readonly OtherApi[];
  readonly log: Log;
  readonly metrics: Metrics;
  /** @see ClusterOptions.onRollback */
  readonly onRollback: (what: string) => void;
}

/** The source component of events that belong to no controller. */
const EVENT_COMPONENT = 'keyferry';
/** Time for running writes to end at a stop, ms. */
const DRAIN_MS = 3000;
/** Time after that in which the last events can be sent, ms. */
const EVENTS_DRAIN_MS = 1000;
/** Limit of the whole stop, ms. It is 0.5 s less than the limit of the process, which then still releases its Lease. */
const STOP_MS = 4000;
/** Pause between log lines about dropped events, ms. A metric counts all of them. */
const DROPPED_LOG_MS = 60_000;
/** Minimum time for the steps of a stop after the writes, ms, even if the writes took the whole limit. */
const MIN_LEFT_MS = 100;

export class Operator {
  readonly #options: OperatorOptions;
  readonly manager: Manager;
  readonly #events: EventRecorder;
  readonly #entries: typeof CONTROLLER_LIST;
  readonly #cluster: Cluster;
  #leading = false;

  constructor(options: OperatorOptions) {
    const { api, management, log, metrics, config } = options;
    this.#options = options;
    this.#events = eventRecorder(api, config.leaderElect.identity, log, metrics);
    this.manager = new Manager({
      home: api.cluster,
      adoptOrphans: config.limits.adoptOrphans,
      life: {
        api,
        clock: systemClock,
        log,
        deletionTimeoutMs: config.deletionTimeoutMs,
        recordEvent: (rule, event) => recordEvent(componentOf(entryOf(rule)), event),
        isOutdated: async (...one) => await namespaceChanges.isOutdated(...one),
      },
      onError: (queue, key, error, retryInMs) => {
        const subject = queue === 'targets' ? { target: key } : { rule: key };
        log.warn('reconcile failed, retrying', { queue, ...subject, error, retryInMs });
      },
      onWritten: (rule, ms) => {
        metrics.copySeconds.observe({ system: controllerOf(rule) }, ms / 1000);
      },
      onGone: (rule, undeleted) => {
        const hasTenants = entryOf(rule)?.hasTenants === true;
        for (const event of goneRuleEvents(rule, undeleted, hasTenants)) recordEvent(EVENT_COMPONENT, event);
      },
    });
    const { engine, ended } = this.manager;
    const entries = (this.#entries = CONTROLLER_LIST.filter((entry) => config.controllers.includes(entry.name)));
    const entryOf = (rule: RuleKey): ControllerEntry | undefined => {
      return entries.find(({ name }) => name === controllerOf(rule));
    };
    const kinds = [SECRET, CONFIG_MAP, ...entries.flatMap((entry) => entry.kinds ?? [])];
    const cluster = (this.#cluster = this.#addCluster(api, kinds));
    const { environment } = config.vault;
    const vault = engine.backends.add(
      new VaultBackend({
        engine,
        secrets: cluster.store(SECRET),
        clock: systemClock,
        timeoutMs: config.vault.timeoutMs,
        addresses: new VaultAddresses(config.vault.addresses.map(parseAddressPattern)),
        environment,
        environmentToken: environmentToken({ token: environment.token, file: environment.tokenFile }),
        ...vaultHooks(log, metrics),
      }),
    );
    const recordEvent = (component: string, event: EventInput): void => {
      const { type, reason, message, subject } = event;
      const { kind, namespace, name } = subject;
      log[type === 'Warning' ? 'warn' : 'info'](message, { kind, namespace, name, reason });
      this.#events.record(component, event);
    };
    const reach = reachOf(config.limits);
    const namespaceChanges = new NamespaceChanges({ engine, cluster, clock: systemClock, log, signal: ended });
    const context: Omit<ControllerContext, 'recordEvent'> = {
      config,
      engine,
      cluster,
      namespace: options.namespace,
      management: management && this.#addCluster(management, kinds),
      others: (options.others ?? []).map(({ api: other, context, namespace }) => {
        return { context, namespace, cluster: this.#addCluster(other, kinds) };
      }),
      vault,
      scope: {
        cluster: cluster.name,
        config,
        namespaces: cluster.namespaces,
        served: cluster.served,
        reach,
        onRoom: (rule) => engine.enqueueRule(rule),
      },
      namespaceChanges,
      log,
      metrics,
      clock: systemClock,
    };
    for (const entry of entries) {
      const component = componentOf(entry);
      const own: ControllerContext = { ...context, recordEvent: (event) => recordEvent(component, event) };
      this.manager.addController(entry.create(own));
      metrics.copySeconds.zero({ system: entry.name });
    }
    this.#addMetrics(vault);
  }

  /** Opens the watches. Resolves when they are listed: then the process is a standby. */
  async open(signal: AbortSignal): Promise<void> {
    await this.manager.open(signal);
    this.#options.log.info('caches are synced');
  }

  /** Starts the loops: from now on this process writes. */
  async work(signal: AbortSignal): Promise<void> {
    this.#options.metrics.leader.set({}, 1);
    this.#options.log.info('controllers started');
    await this.manager.start(signal);
    this.#leading = true;
  }

  /** Ends the writes, then events and backends. May be called twice. */
  async stop(): Promise<void> {
    this.#options.metrics.leader.set({}, 0);
    const until = systemClock.monotonic() + STOP_MS;
    await this.manager.drain(this.#leading ? DRAIN_MS : 0);
    const leftMs = Math.max(MIN_LEFT_MS, until - systemClock.monotonic());
    await Promise.all([this.#events.stop({ drainMs: Math.min(EVENTS_DRAIN_MS, leftMs) }), this.manager.stop(leftMs)]);
  }

  /** The probes of an original, if `--controllers` names its controller alone. One that is absent is Keyferry's own. */
  get originalProbes(): {
    readonly healthz?: ((stuck: readonly string[]) => Reply) | undefined;
    readonly readyz?: ((isReady: boolean) => Reply) | undefined;
  } {
    const { config } = this.#options;
    const [only, ...others] = this.#entries;
    if (only === undefined || others.length > 0 || !config.controllersNamed) return {};
    const context = { cluster: this.#cluster, config };
    return { healthz: only.healthz?.bind(only, context), readyz: only.readyz?.bind(only, context) };
  }

  #addCluster(api: KubeApi, kinds: readonly Kind[]): Cluster {
    const { config, log, metrics, onRollback } = this.#options;
    const { cluster } = api;
    const isHome = api === this.#options.api;
    const { namespaces, maxConcurrentWrites, watchIdleMs } = config.kube;
    const { engine } = this.manager;
    const backend = new Cluster({
      api,
      isHome,
      served: isHome ? ServedNamespaces.of(namespaces) : undefined,
      engine,
      kinds,
      concurrency: maxConcurrentWrites,
      clock: systemClock,
      idleLimitMs: watchIdleMs,
      isRead: readAnnotations(config),
      onRollback,
      onTrouble: (trouble) => this.#watchFailed(cluster, trouble),
      onWrite: (target, verb, ok, rule) => {
        const { kind, namespace, name } = parseResourceKey(target);
        metrics.writes.inc({ cluster, kind, verb, result: ok ? 'ok' : 'error' });
        if (!ok) return;
        const where = isHome ? {} : { cluster };
        log.info(`${verb}d`, { ...where, kind, namespace, name, ...(rule === undefined ? {} : { rule }) });
      },
    });
    return engine.backends.add(backend);
  }

  #watchFailed(cluster: string, { watch, error, retryInMs, advice, isKnown }: WatchTrouble): void {
    const { log, metrics } = this.#options;
    const reason = error instanceof ApiError ? error.reason : error instanceof Error ? error.name : 'unknown';
    // The label lacks the name of a single object. Users choose such names, and a series is never removed.
    metrics.watchRestarts.inc({ cluster, kind: watch.collection, reason });
    const fields = { cluster, watch: watchName(watch), error, retryInMs };
    if (isKnown) log.debug('watch failed, retrying', fields);
    else log.warn('watch failed, retrying', { ...fields, ...(advice === undefined ? {} : { advice }) });
  }

  #addMetrics(vault: VaultBackend): void {
    const { backends, book, claims } = this.manager.engine;
    this.#options.metrics.readFrom({
      queues: () =>
        this.manager.queues.map(({ name, queue }) => {
          const { depth, oldestWaitingMs, retries } = queue.metrics();
          return { queue: name, depth, oldestAgeSeconds: oldestWaitingMs / 1000, retries };
        }),
      watches: () =>
        backends.all.flatMap((backend) =>
          backend.watches.map(({ collection, scope = 'all', synced, connected, isExcused, silentMs }) => {
            const place = { cluster: backend.name, kind: collection, watch: scope };
            const isNeeded = connected || isExcused !== true;
            return { ...place, synced, connected: isNeeded ? connected : undefined, idleSeconds: silentMs / 1000 };
          }),
        ),
      claims: () => {
        const counts = [...book.counts()].map(([key, count]) => {
          const [system = '', state = ''] = key.split(' ');
          return { system, state, count };
        });
        for (const rule of claims.owners)
          counts.push({ system: controllerOf(rule), state: 'undeleted', count: claims.undeletedOf(rule).length });
        return counts;
      },
      rules: () => Array.from(this.manager.ruleReadiness(), ruleSnapshot),
      leases: () => vault.leases.figures(),
      payloadCacheBytes: () => backends.all.reduce((sum, { cachedBytes }) => sum + cachedBytes, 0),
    });
  }
}

function eventRecorder(api: KubeApi, instance: string, log: Log, metrics: Metrics): EventRecorder {
  let nextDropLog = 0;
  return new EventRecorder({
    api,
    instance,
    onDrop: ({ subject: { kind, namespace, name }, reason }, error) => {
      metrics.eventsDropped.inc({ reason });
      const now = systemClock.monotonic();
      if (now < nextDropLog) return;
      nextDropLog = now + DROPPED_LOG_MS;
      log.warn('cannot write an event', { kind, namespace, name, reason, error });
    },
  });
}

/** The source component of a controller's events. */
function componentOf(entry: ControllerEntry | undefined): string {
  return entry?.component ?? `${EVENT_COMPONENT}-${entry?.name ?? ''}`;
}

function ruleSnapshot({ rule, cause }: RuleReadiness): RuleSnapshot {
  const system = controllerOf(rule);
  const problem = cause && { reason: cause.reason, fault: cause.fault === 'nobody' ? ('none' as const) : cause.fault };
  return { system, rule: ruleName(rule), namespace: namespaceOf(rule), problem };
}

/**
 * Selects the annotations that this process keeps at any length: those that any controller of Keyferry reads, because
 * another process may have made the object. Exception: a process that serves only tenants keeps only annotations of its
 * own controllers, because a tenant could write any number of the others.
 */
export function readAnnotations(config: Config): IsRead {
  const running = CONTROLLER_LIST.filter(({ name }) => config.controllers.includes(name));
  const isForTenants = running.every(({ hasTenants }) => hasTenants === true);
  const readers = (isForTenants ? running : CONTROLLER_LIST).map((entry) => entry.annotationReader(config));
  const always: ReadonlySet<string> = new Set([PLACE_ANNOTATION, OVERWRITTEN_MARK, SUSPEND_ANNOTATION]);
  return (annotation) => {
    if (always.has(annotation)) return true;
    for (const isRead of readers) {
      const read = isRead(annotation);
      if (read !== false) return read;
    }
    return false;
  };
}
