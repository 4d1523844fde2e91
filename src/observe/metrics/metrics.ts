/** Every metric of the process that does not belong to one system, named once. Times in seconds, sizes in bytes. */
import { BoundedLabel, MAX_VAULTS } from './bounded-label.ts';
import {
  type Counter,
  type Gauge,
  type Histogram,
  type LabelValues,
  MetricRegistry,
  type Sample,
} from './metric-registry.ts';
import { addProcessMetrics } from './process-metrics.ts';
import { addRuleMetrics, type RuleSnapshot } from './rule-metrics.ts';
import { SourceSet } from './source-set.ts';

/** A work queue as it stands. */
export interface QueueSnapshot {
  readonly queue: string;
  /** Keys that wait to be worked on. */
  readonly depth: number;
  /** How long the oldest of them has waited; 0 if there is none. */
  readonly oldestAgeSeconds: number;
  /** Keys put back after a failure, since the start. */
  readonly retries: number;
}

/** A watch as it stands. */
export interface WatchSnapshot {
  readonly cluster: string;
  readonly kind: string;
  /** Tells watches of one kind apart: `copies`, `sources`, … */
  readonly watch: string;
  /** Whether the first list is complete. */
  readonly synced: boolean;
  /** A stream is open, and the list before it is complete; `undefined`: it need not be. */
  readonly connected: boolean | undefined;
  /** Time since the server last sent something, a bookmark included. */
  readonly idleSeconds: number;
}

/** How many claims of a system are in a state. The state `conflict` is also counted as a conflict. */
export interface ClaimSnapshot {
  readonly system: string;
  readonly state: string;
  readonly count: number;
}

/** A Vault lease of dynamic credentials as it stands. */
export interface LeaseSnapshot {
  /** Address of the server. */
  readonly vault: string;
  /** `live`: copies have its credentials, and it is kept alive. Others end by themselves or are being revoked. */
  readonly state: string;
  /** `fresh`, `old`: in the last third of its life; `overdue`: it should have been renewed or replaced. */
  readonly age: string;
}

export interface VaultMetrics {
  readonly requests: Counter<'vault' | 'operation' | 'code'>;
  readonly logins: Counter<'vault' | 'method' | 'result'>;
  /** New versions of a KV secret: 0 an hour in a settled cluster. */
  readonly versionsWritten: Counter<'vault' | 'system'>;
}

export interface Metrics {
  /** Where a system adds its own. */
  readonly registry: MetricRegistry;
  /** Read at each scrape, as the next five. */
  readonly queues: SourceSet<QueueSnapshot>;
  readonly watches: SourceSet<WatchSnapshot>;
  readonly claims: SourceSet<ClaimSnapshot>;
  readonly rules: SourceSet<RuleSnapshot>;
  readonly leases: SourceSet<LeaseSnapshot>;
  readonly payloadCacheBytes: SourceSet<Sample<never>>;
  readonly watchRestarts: Counter<'cluster' | 'kind' | 'reason'>;
  /** Writes of copies; `verb` is create, update, …; `result` is `ok` or the API server's reason. */
  readonly writes: Counter<'cluster' | 'kind' | 'verb' | 'result'>;
  /** From the event that made the write of a copy necessary to its end. */
  readonly copySeconds: Histogram<'system'>;
  /** `code` is the HTTP status, or `error` where there was no answer. */
  readonly kubeRequests: Counter<'cluster' | 'method' | 'code'>;
  readonly kubeRequestSeconds: Histogram<'cluster' | 'method'>;
  readonly eventsDropped: Counter<'reason'>;
  readonly vault: VaultMetrics;
  /** 1 while this process is the leader. */
  readonly leader: Gauge<never>;
  /** The Prometheus text format. */
  text(): Promise<string>;
}

/** Makes the metrics of a process, with its own registry. `version` is Keyferry's. */
export function createMetrics(version: string): Metrics {
  const registry = new MetricRegistry();
  const queues = new SourceSet<QueueSnapshot>();
  const watches = new SourceSet<WatchSnapshot>();
  const claims = new SourceSet<ClaimSnapshot>();
  const rules = new SourceSet<RuleSnapshot>();
  const leases = new SourceSet<LeaseSnapshot>();
  addProcessMetrics(registry);
  addQueueMetrics(registry, queues);
  addWatchMetrics(registry, watches);
  addClaimMetrics(registry, claims);
  addRuleMetrics(registry, rules);
  addLeaseMetrics(registry, leases);
  const build = registry.gauge('keyferry_build_info', 'Always 1; the labels are the version of Keyferry and of Node.', [
    'version',
    'node',
  ]);
  build.set({ version, node: process.versions.node }, 1);
  return {
    registry,
    queues,
    watches,
    claims,
    rules,
    leases,
    payloadCacheBytes: registry.sampled('keyferry_payload_cache_bytes', 'Size of the cached payloads for writes.', []),
    watchRestarts: registry.counter('keyferry_watch_restarts_total', 'Watches that were reopened, by reason.', [
      'cluster',
      'kind',
      'reason',
    ]),
    writes: registry.counter('keyferry_writes_total', 'Writes of copies, by result.', [
      'cluster',
      'kind',
      'verb',
      'result',
    ]),
    copySeconds: registry.histogram(
      'keyferry_copy_duration_seconds',
      'Time from the event that made the write of a copy necessary to the end of the write, retries included.',
      ['system'],
      [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300],
    ),
    kubeRequests: registry.counter('keyferry_kube_requests_total', 'Requests to API servers, by HTTP status.', [
      'cluster',
      'method',
      'code',
    ]),
    kubeRequestSeconds: registry.histogram(
      'keyferry_kube_request_duration_seconds',
      'Duration of requests to API servers; watches are not counted.',
      ['cluster', 'method'],
      [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    ),
    eventsDropped: registry.counter('keyferry_events_dropped_total', 'Kubernetes events that were not sent.', [
      'reason',
    ]),
    vault: {
      requests: registry.counter('keyferry_vault_requests_total', 'Requests to Vault, by HTTP status.', [
        'vault',
        'operation',
        'code',
      ]),
      logins: registry.counter('keyferry_vault_logins_total', 'Logins to Vault, by result.', [
        'vault',
        'method',
        'result',
      ]),
      versionsWritten: registry.counter('keyferry_vault_versions_written_total', 'Versions written to Vault KV.', [
        'vault',
        'system',
      ]),
    },
    leader: registry.gauge('keyferry_leader', '1 while this process is the leader.', []),
    text: () => registry.text(),
  };
}

/** Adds metrics with one value for each item of a source, read at each scrape. The items have the labels as fields. */
function itemMetrics<const L extends string, T extends Readonly<Record<L, string>>>(
  registry: MetricRegistry,
  source: Pick<SourceSet<T>, 'read'>,
  labelNames: readonly L[],
) {
  const labelsOf = (item: T): LabelValues<L> =>
    Object.fromEntries(labelNames.map((name) => [name, item[name]])) as Record<L, T[L]>;
  return (name: string, help: string, value: (item: T) => number, type?: 'counter'): void => {
    const read = (): Sample<L>[] => source.read().map((item) => ({ labels: labelsOf(item), value: value(item) }));
    registry.derived(name, help, labelNames, read, type);
  };
}

function addQueueMetrics(registry: MetricRegistry, queues: SourceSet<QueueSnapshot>): void {
  const add = itemMetrics(registry, queues, ['queue']);
  add('keyferry_queue_depth', 'Keys waiting in a queue.', ({ depth }) => depth);
  add(
    'keyferry_queue_oldest_age_seconds',
    'Waiting time of the oldest key of a queue.',
    (queue) => queue.oldestAgeSeconds,
  );
  add(
    'keyferry_queue_retries_total',
    'Keys put back into a queue after a failure.',
    ({ retries }) => retries,
    'counter',
  );
}

function addWatchMetrics(registry: MetricRegistry, watches: SourceSet<WatchSnapshot>): void {
  const add = itemMetrics(registry, watches, ['cluster', 'kind', 'watch']);
  const lastActivity = 'Seconds since the API server last sent something on a watch.';
  add('keyferry_watch_last_activity_seconds', lastActivity, ({ idleSeconds }) => idleSeconds);
  const state = itemMetrics(
    registry,
    { read: () => watches.read().filter(({ connected }) => connected !== undefined) },
    ['cluster', 'kind', 'watch'],
  );
  const connected = '1 while a watch is open; watches that need not be are missing.';
  state('keyferry_watch_connected', connected, (watch) => (watch.connected === true ? 1 : 0));
  add('keyferry_watch_synced', '1 once the first list of a watch is complete.', ({ synced }) => (synced ? 1 : 0));
}

function addClaimMetrics(registry: MetricRegistry, claims: SourceSet<ClaimSnapshot>): void {
  itemMetrics(registry, claims, ['system', 'state'])('keyferry_claims', 'Claims, by state.', ({ count }) => count);
  const conflicts = 'Claims on a target that Keyferry does not manage, or that another rule claims.';
  const add = itemMetrics(registry, claims, ['system']);
  add('keyferry_conflicts', conflicts, ({ state, count }) => (state === 'conflict' ? count : 0));
}

function addLeaseMetrics(registry: MetricRegistry, leases: SourceSet<LeaseSnapshot>): void {
  const names = ['vault', 'state', 'age'] as const;
  registry.derived('keyferry_vault_leases', 'Vault leases of dynamic credentials, by age.', names, () => {
    const servers = new BoundedLabel(MAX_VAULTS);
    return leases
      .read()
      .map(({ vault, state, age }) => ({ labels: { vault: servers.of(vault), state, age }, value: 1 }));
  });
}
