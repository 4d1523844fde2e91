/** Defines the metrics that all controllers share. Times are in seconds, sizes in bytes. */
import { existsSync, readdirSync } from 'node:fs';
import { BoundedLabel, MAX_VAULTS, type LabelValues, MetricRegistry, type Sample } from './metric-registry.ts';

/** The state of a work queue at a scrape. */
export interface QueueSnapshot {
  readonly queue: string;
  /** Keys that wait to be worked on. */
  readonly depth: number;
  /** How long the oldest of them has waited; 0 if there is none. */
  readonly oldestAgeSeconds: number;
  /** Keys put back after a failure, since the start. */
  readonly retries: number;
}

/** The state of a watch at a scrape. */
export interface WatchSnapshot {
  readonly cluster: string;
  readonly kind: string;
  /** Tells watches of one kind apart: `copies`, `sources`, … */
  readonly watch: string;
  /** Whether the first list is complete. */
  readonly synced: boolean;
  /** Whether the list is complete and a stream is open. `undefined`: the watch is closed because nobody needs it. */
  readonly connected: boolean | undefined;
  /** Time since the server last sent something, a bookmark included. */
  readonly idleSeconds: number;
}

/** How many claims of a system are in a state. Those in the state `conflict` also count in `keyferry_conflicts`. */
export interface ClaimSnapshot {
  readonly system: string;
  readonly state: string;
  readonly count: number;
}

/** The state of a rule at a scrape. */
export interface RuleSnapshot {
  readonly system: string;
  /** Its name in the system: `default/x`; with several kinds of rules `Secret/default/x`. */
  readonly rule: string;
  readonly namespace: string;
  /** Why the rule is not ready; `undefined`: it is ready. */
  readonly problem?: { readonly reason: string; readonly fault: 'user' | 'operator' | 'none' } | undefined;
}

/** The state of a Vault lease of dynamic credentials at a scrape. */
export interface LeaseSnapshot {
  /** Address of the server. */
  readonly vault: string;
  /** `live`: copies have its credentials, and Keyferry renews it. Other leases expire or are being revoked. */
  readonly state: string;
  /** `fresh`, `old`: in the last third of its life; `overdue`: it should have been renewed or replaced. */
  readonly age: string;
}

/** Functions that read the state of the operator at each scrape. */
export interface MetricSources {
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
    /** From the event that made the write of a copy necessary to its end. */
    copySeconds: registry.histogram(
      'keyferry_copy_duration_seconds',
      'Time from the event that made the write of a copy necessary to the end of the write, retries included.',
      ['system'],
      [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300],
    ),
    /** `code` is the HTTP status, or `error` where there was no answer. */
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
      /** New versions of a KV secret: 0 an hour in a settled cluster. */
      versionsWritten: counter('keyferry_vault_versions_written_total', 'Versions written to Vault KV.', [
        'vault',
        'system',
      ]),
    },
    /** 1 while this process is the leader. */
    leader: registry.gauge('keyferry_leader', '1 while this process is the leader.', []),
    /** The Prometheus text format. */
    text: () => registry.text(),
  };
}

/** Adds metrics with one value for each item of a source, read at each scrape. The items' fields give the labels. */
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
  add('keyferry_queue_depth', 'Keys waiting in a queue.', ({ depth }) => depth);
  add('keyferry_queue_oldest_age_seconds', 'Waiting time of the oldest key of a queue.', (q) => q.oldestAgeSeconds);
  add('keyferry_queue_retries_total', 'Keys put back into a queue after a failure.', (q) => q.retries, 'counter');
}

function addWatchMetrics(registry: MetricRegistry, watches: MetricSources['watches']): void {
  const add = itemMetrics(registry, watches, ['cluster', 'kind', 'watch']);
  const lastActivity = 'Seconds since the API server last sent something on a watch.';
  add('keyferry_watch_last_activity_seconds', lastActivity, ({ idleSeconds }) => idleSeconds);
  const needed = (): WatchSnapshot[] => watches().filter(({ connected }) => connected !== undefined);
  const state = itemMetrics(registry, needed, ['cluster', 'kind', 'watch']);
  const connected = '1 while a watch is open; watches that need not be are missing.';
  state('keyferry_watch_connected', connected, (watch) => (watch.connected === true ? 1 : 0));
  add('keyferry_watch_synced', '1 once the first list of a watch is complete.', ({ synced }) => (synced ? 1 : 0));
}

function addClaimMetrics(registry: MetricRegistry, claims: MetricSources['claims']): void {
  itemMetrics(registry, claims, ['system', 'state'])('keyferry_claims', 'Claims, by state.', ({ count }) => count);
  const conflicts = 'Claims on a target that Keyferry does not manage, or that another rule claims.';
  const add = itemMetrics(registry, claims, ['system']);
  add('keyferry_conflicts', conflicts, ({ state, count }) => (state === 'conflict' ? count : 0));
}

function addLeaseMetrics(registry: MetricRegistry, leases: MetricSources['leases']): void {
  const names = ['vault', 'state', 'age'] as const;
  registry.derived('keyferry_vault_leases', 'Vault leases of dynamic credentials, by age.', names, () => {
    const servers = new BoundedLabel(MAX_VAULTS);
    return leases().map(({ vault, state, age }) => ({ labels: { vault: servers.of(vault), state, age }, value: 1 }));
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

/** Most rules with series of their own. */
export const MAX_RULES = 1000;
const MAX_REASONS = 64;
const READY = { reason: 'Ready', fault: 'none' } as const;
/** The order in which rules get series of their own: first the faults of the operator, which page somebody. */
const ORDER = { operator: 0, user: 1, none: 2 } as const;

/**
 * Adds metrics that show which rules are ready, and whose fault it is if one is not. They are computed at each scrape,
 * so a deleted rule leaves no series. Users create rules and servers choose reasons, so both are limited: only
 * `MAX_RULES` rules have series of their own, first those that are not ready, and only `MAX_REASONS` reasons keep their
 * names.
 */
function addRuleMetrics(registry: MetricRegistry, rules: MetricSources['rules']): void {
  // The first metric reads the rules for all three, as there may be thousands. The registry reads its metrics in the
  // order of registration, without a pause.
  let scraped: readonly RuleSnapshot[] = [];
  const byReason = ['system', 'fault', 'reason'] as const;
  registry.derived('keyferry_rules', 'Rules, by what keeps them from being ready.', byReason, () => {
    const reasons = new BoundedLabel(MAX_REASONS);
    scraped = rules();
    return scraped.map(({ system, problem = READY }) => {
      return { labels: { system, fault: problem.fault, reason: reasons.of(problem.reason) }, value: 1 };
    });
  });
  const names = ['system', 'rule', 'rule_namespace', 'fault', 'reason'] as const;
  registry.derived('keyferry_rule_ready', '1 if all is done that a rule asks for.', names, () => {
    const reasons = new BoundedLabel(MAX_REASONS);
    return firstRules(scraped).map(({ system, rule, namespace, problem }): Sample<(typeof names)[number]> => {
      const { fault, reason } = problem ?? READY;
      const labels = { system, rule, rule_namespace: namespace, fault, reason: reasons.of(reason) };
      return { labels, value: problem === undefined ? 1 : 0 };
    });
  });
  const omitted = 'Rules without a series of their own in keyferry_rule_ready.';
  registry.value('keyferry_rules_omitted', omitted, () => {
    const value = Math.max(0, scraped.length - MAX_RULES);
    scraped = [];
    return value;
  });
}

/** The rules with series of their own: the same ones at each scrape, as long as the rules do not change. */
function firstRules(rules: readonly RuleSnapshot[]): readonly RuleSnapshot[] {
  return rules.length <= MAX_RULES ? rules : rules.toSorted((a, b) => rankOf(a) - rankOf(b)).slice(0, MAX_RULES);
}

function rankOf({ problem }: RuleSnapshot): number {
  return problem === undefined ? ORDER.none + 1 : ORDER[problem.fault];
}
