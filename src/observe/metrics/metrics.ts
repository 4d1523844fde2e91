/** Defines the metrics that all controllers share. Times are in seconds, sizes in bytes. */
import { existsSync, readdirSync } from 'node:fs';
import { BoundedLabel, MAX_VAULTS, type LabelValues, MetricRegistry, type Sample } from './metric-registry.ts';

/** The state of a work queue at a scrape. */
interface QueueSnapshot {
  readonly queue: string;
  /** Keys that wait for a worker. */
  readonly depth: number;
  /** How long the oldest waiting key has waited; 0 if no key waits. */
  readonly oldestAgeSeconds: number;
  /** Number of failed runs since the start whose keys were queued again. */
  readonly retries: number;
}

/** The state of a watch at a scrape. */
interface WatchSnapshot {
  readonly cluster: string;
  readonly kind: string;
  /** Distinguishes watches of the same kind: `copies`, `sources`, … */
  readonly watch: string;
  /** Whether the first list is complete. */
  readonly synced: boolean;
  /** Whether the list is complete and a stream is open. `undefined`: the watch is closed because nobody needs it. */
  readonly connected: boolean | undefined;
  /** Time since the server last sent an event; a bookmark counts, too. */
  readonly idleSeconds: number;
}

/** The number of a controller's claims in one state. Claims in `conflict` also count in `keyferry_conflicts`. */
interface ClaimSnapshot {
  readonly system: string;
  readonly state: string;
  readonly count: number;
}

/** The state of a rule at a scrape. */
export interface RuleSnapshot {
  readonly system: string;
  /** For example `default/x`, or `Secret/default/x` if the controller has rules of several kinds. */
  readonly rule: string;
  readonly namespace: string;
  /** Why the rule is not ready; `undefined`: it is ready. */
  readonly problem?: { readonly reason: string; readonly fault: 'user' | 'operator' | 'none' } | undefined;
}

/** The state of a Vault lease of dynamic credentials at a scrape. */
interface LeaseSnapshot {
  /** Address of the server. */
  readonly vault: string;
  /** `fresh`, `old`: in the last third of its life; `overdue`: it should have been renewed or replaced. */
  readonly age: string;
}

/** Functions that read the state of the operator at each scrape. */
interface MetricSources {
  readonly queues: () => readonly QueueSnapshot[];
  readonly watches: () => readonly WatchSnapshot[];
  readonly claims: () => readonly ClaimSnapshot[];
  readonly rules: () => readonly RuleSnapshot[];
  readonly leases: () => readonly LeaseSnapshot[];
  readonly payloadCacheBytes: () => number;
}

export type Metrics = ReturnType<typeof createMetrics>;

/** Makes the metrics of a process, with its own registry. `version` is Keyferry's. */
export function createMetrics(version: string) {
  const registry = new MetricRegistry();
  addProcessMetrics(registry);
  const build = ['version', 'node'] as const;
  registry
    .gauge('keyferry_build_info', 'Always 1; the labels are the version of Keyferry and of Node.', build)
    .set({ version, node: process.versions.node }, 1);
  const counter = registry.counter.bind(registry);
  return {
    /** The registry to which controllers add their own metrics. */
    registry,
    /** Adds the metrics of the operator's state. Called once. */
    readFrom: ({ queues, watches, claims, rules, leases, payloadCacheBytes }: MetricSources): void => {
      addQueueMetrics(registry, queues);
      addWatchMetrics(registry, watches);
      addClaimMetrics(registry, claims);
      addRuleMetrics(registry, rules);
      addLeaseMetrics(registry, leases);
      registry.value('keyferry_payload_cache_bytes', 'Size of the cached payloads for writes.', payloadCacheBytes);
    },
    watchRestarts: counter('keyferry_watch_restarts_total', 'Watches that were reopened, by reason.', [
      'cluster',
      'kind',
      'reason',
    ]),
    /** Writes of copies; `verb` is create, update, …; `result` is `ok` or the API server's reason. */
    writes: counter('keyferry_writes_total', 'Writes of copies, by result.', ['cluster', 'kind', 'verb', 'result']),
    copySeconds: registry.histogram(
      'keyferry_copy_duration_seconds',
      'Time from the event that made the write of a copy necessary to the end of the write, retries included.',
      ['system'],
      [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300],
    ),
    /** `code` is the HTTP status, or `error` if there was no answer. */
    kubeRequests: counter('keyferry_kube_requests_total', 'Requests to API servers, by HTTP status.', [
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
    eventsDropped: counter('keyferry_events_dropped_total', 'Kubernetes events that were not sent.', ['reason']),
    vault: {
      requests: counter('keyferry_vault_requests_total', 'Requests to Vault, by HTTP status.', [
        'vault',
        'operation',
        'code',
      ]),
      logins: counter('keyferry_vault_logins_total', 'Logins to Vault, by result.', ['vault', 'method', 'result']),
      /** New versions of entries in KV. As long as no source changes, the number does not grow. */
      versionsWritten: counter('keyferry_vault_versions_written_total', 'New versions written to Vault KV entries.', [
        'vault',
        'system',
      ]),
    },
    leader: registry.gauge('keyferry_leader', '1 while this process is the leader, otherwise 0.', []),
    /** All metrics in the Prometheus text format. */
    text: () => registry.text(),
  };
}

/** Returns a function that adds a metric: one value for each item of `source`, labelled with the item's fields. */
function itemMetrics<const L extends string, T extends Readonly<Record<L, string>>>(
  registry: MetricRegistry,
  source: () => readonly T[],
  labelNames: readonly L[],
) {
  const labelsOf = (item: T): LabelValues<L> =>
    Object.fromEntries(labelNames.map((name) => [name, item[name]])) as Record<L, T[L]>;
  return (name: string, help: string, value: (item: T) => number, type?: 'counter'): void => {
    const read = (): Sample<L>[] => source().map((item) => ({ labels: labelsOf(item), value: value(item) }));
    registry.derived(name, help, labelNames, read, type);
  };
}

function addQueueMetrics(registry: MetricRegistry, queues: MetricSources['queues']): void {
  const add = itemMetrics(registry, queues, ['queue']);
  add('keyferry_queue_depth', 'Rules, targets or polls that wait in the queue.', ({ depth }) => depth);
  add('keyferry_queue_oldest_age_seconds', 'How long the oldest key of the queue waits.', (q) => q.oldestAgeSeconds);
  add('keyferry_queue_retries_total', 'Failed runs whose key was queued again.', (q) => q.retries, 'counter');
}

function addWatchMetrics(registry: MetricRegistry, watches: MetricSources['watches']): void {
  const add = itemMetrics(registry, watches, ['cluster', 'kind', 'watch']);
  const lastActivity = 'Seconds since the API server last sent something on a watch.';
  add('keyferry_watch_last_activity_seconds', lastActivity, ({ idleSeconds }) => idleSeconds);
  const needed = (): WatchSnapshot[] => watches().filter(({ connected }) => connected !== undefined);
  const state = itemMetrics(registry, needed, ['cluster', 'kind', 'watch']);
  const connected = '1 while the watch is open, otherwise 0; a watch that nobody needs has no series.';
  state('keyferry_watch_connected', connected, (watch) => (watch.connected === true ? 1 : 0));
  add('keyferry_watch_synced', '1 after the first list is complete, otherwise 0.', ({ synced }) => (synced ? 1 : 0));
}

function addClaimMetrics(registry: MetricRegistry, claims: MetricSources['claims']): void {
  itemMetrics(registry, claims, ['system', 'state'])('keyferry_claims', 'Claims, by state.', ({ count }) => count);
  const conflicts = 'Claims on a target that Keyferry does not manage, or that another rule claims.';
  const add = itemMetrics(registry, claims, ['system']);
  add('keyferry_conflicts', conflicts, ({ state, count }) => (state === 'conflict' ? count : 0));
}

function addLeaseMetrics(registry: MetricRegistry, leases: MetricSources['leases']): void {
  const names = ['vault', 'age'] as const;
  registry.derived('keyferry_vault_leases', 'Vault leases of dynamic credentials, by age.', names, () => {
    const servers = new BoundedLabel(MAX_VAULTS);
    return leases().map(({ vault, age }) => ({ labels: { vault: servers.of(vault), age }, value: 1 }));
  });
}

/** The open files of the process, on Linux. Other systems do not have the metric. */
const OPEN_FILES = '/proc/self/fd';

/**
 * The usual process metrics of Prometheus clients, under their usual names, read at each scrape. The library's own
 * collectors are not used: they observe garbage collection and the event loop all the time, which takes CPU time.
 */
function addProcessMetrics(registry: MetricRegistry): void {
  const startTime = Math.round(Date.now() - process.uptime() * 1000) / 1000;
  const cpuSeconds = (): number => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  };
  const values: readonly [name: string, help: string, read: () => number, type?: 'counter'][] = [
    ['process_cpu_seconds_total', 'User and system CPU time spent, in seconds.', cpuSeconds, 'counter'],
    ['process_resident_memory_bytes', 'Resident memory size in bytes.', () => process.memoryUsage.rss()],
    ['process_start_time_seconds', 'Start time of the process, in seconds since the epoch.', () => startTime],
    ['nodejs_heap_size_total_bytes', 'Size of the JavaScript heap in bytes.', () => process.memoryUsage().heapTotal],
    ['nodejs_heap_size_used_bytes', 'Used part of the JavaScript heap in bytes.', () => process.memoryUsage().heapUsed],
    ['nodejs_external_memory_bytes', 'Memory of buffers in bytes.', () => process.memoryUsage().external],
  ];
  for (const [name, help, read, type] of values) {
    registry.value(name, help, read, type);
  }
  // `readdirSync` opens one descriptor itself, which does not count.
  if (existsSync(OPEN_FILES)) {
    registry.value('process_open_fds', 'Number of open file descriptors.', () => readdirSync(OPEN_FILES).length - 1);
  }
}

/** Largest number of rules that have their own series. */
export const MAX_RULES = 1000;
const MAX_REASONS = 64;
const READY = { reason: 'Ready', fault: 'none' } as const;
/** The order in which rules get their own series: first rules with a fault of the operator, which cause alerts. */
const ORDER = { operator: 0, user: 1, none: 2 } as const;

/**
 * Adds metrics that show which rules are ready, and for each other rule, whose fault it is. They are computed at each
 * scrape, so a deleted rule leaves no series. Users create rules, and servers choose reasons, so both are limited. Only
 * `MAX_RULES` rules have their own series, first the rules that are not ready. Only `MAX_REASONS` reasons keep their
 * names; the others become `other`.
 */
function addRuleMetrics(registry: MetricRegistry, rules: MetricSources['rules']): void {
  // The first metric reads the rules for all three metrics, because there may be thousands of rules. The registry reads
  // its metrics in the order of registration, without a pause.
  let scraped: readonly RuleSnapshot[] = [];
  const byReason = ['system', 'fault', 'reason'] as const;
  registry.derived('keyferry_rules', 'Rules, by the reason why they are not ready, or Ready.', byReason, () => {
    const reasons = new BoundedLabel(MAX_REASONS);
    scraped = rules();
    return scraped.map(({ system, problem = READY }) => {
      return { labels: { system, fault: problem.fault, reason: reasons.of(problem.reason) }, value: 1 };
    });
  });
  const names = ['system', 'rule', 'rule_namespace', 'fault', 'reason'] as const;
  registry.derived('keyferry_rule_ready', '1 if everything that the rule asks for is done, otherwise 0.', names, () => {
    const reasons = new BoundedLabel(MAX_REASONS);
    return firstRules(scraped).map(({ system, rule, namespace, problem }): Sample<(typeof names)[number]> => {
      const { fault, reason } = problem ?? READY;
      const labels = { system, rule, rule_namespace: namespace, fault, reason: reasons.of(reason) };
      return { labels, value: problem === undefined ? 1 : 0 };
    });
  });
  const omitted = 'Rules that have no series in keyferry_rule_ready, because there are too many rules.';
  registry.value('keyferry_rules_omitted', omitted, () => {
    const value = Math.max(0, scraped.length - MAX_RULES);
    scraped = [];
    return value;
  });
}

/** The rules that have their own series: the same rules at each scrape while no rule changes. */
function firstRules(rules: readonly RuleSnapshot[]): readonly RuleSnapshot[] {
  return rules.length <= MAX_RULES ? rules : rules.toSorted((a, b) => rankOf(a) - rankOf(b)).slice(0, MAX_RULES);
}

function rankOf({ problem }: RuleSnapshot): number {
  return problem === undefined ? ORDER.none + 1 : ORDER[problem.fault];
}
