/**
 * The usual process metrics of Prometheus clients, under their usual names, read at each scrape. The collectors that
 * come with the library also watch garbage collection and the event loop all the time, which costs an idle operator CPU time.
 */
import { existsSync, readdirSync } from 'node:fs';
import type { MetricRegistry } from './metric-registry.ts';

/** Linux only; elsewhere that metric is left out. */
const OPEN_FILES = '/proc/self/fd';

/** Adds the `process_*` and `nodejs_*` metrics. */
export function addProcessMetrics(registry: MetricRegistry): void {
  const startTime = Math.round(Date.now() - process.uptime() * 1000) / 1000;
  const values: readonly [name: string, help: string, read: () => number, type?: 'counter'][] = [
    ['process_cpu_seconds_total', 'User and system CPU time spent, in seconds.', cpuSeconds, 'counter'],
    ['process_resident_memory_bytes', 'Resident memory size in bytes.', () => process.memoryUsage.rss()],
    ['process_start_time_seconds', 'Start time of the process, in seconds since the epoch.', () => startTime],
    ['nodejs_heap_size_total_bytes', 'Size of the JavaScript heap in bytes.', () => process.memoryUsage().heapTotal],
    ['nodejs_heap_size_used_bytes', 'Used part of the JavaScript heap in bytes.', () => process.memoryUsage().heapUsed],
    ['nodejs_external_memory_bytes', 'Memory of buffers in bytes.', () => process.memoryUsage().external],
  ];
  for (const [name, help, read, type] of values) {
    registry.derived(name, help, [], () => [{ labels: {}, value: read() }], type);
  }
  if (existsSync(OPEN_FILES)) {
    registry.derived('process_open_fds', 'Number of open file descriptors.', [], () => [
      // Less the descriptor that lists them.
      { labels: {}, value: readdirSync(OPEN_FILES).length - 1 },
    ]);
  }
}

function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}
