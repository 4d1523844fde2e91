/**
 * The metrics of one process. Every controller adds its own here, each name once:
 *
 * ```ts
 * const copies = registry.counter('keyferry_example_total', 'Copies made.', ['system']);
 * copies.inc({ system: 'mirrors' });
 * const depth = registry.sampled('keyferry_example_depth', 'Keys in a queue.', ['queue']);
 * depth.add(() => [{ labels: { queue: 'rules' }, value: queue.size }]);
 * ```
 */
import PromCounter from 'prom-client/lib/counter.js';
import PromGauge from 'prom-client/lib/gauge.js';
import PromHistogram from 'prom-client/lib/histogram.js';
import PromRegistry from 'prom-client/lib/registry.js';
import { SourceSet } from './source-set.ts';

export type LabelValues<L extends string> = Readonly<Record<L, string>>;

export interface Counter<L extends string> {
  inc(labels: LabelValues<L>, by?: number): void;
  remove(labels: LabelValues<L>): void;
}

export interface Gauge<L extends string> {
  set(labels: LabelValues<L>, value: number): void;
  remove(labels: LabelValues<L>): void;
}

export interface Histogram<L extends string> {
  observe(labels: LabelValues<L>, value: number): void;
  /** Makes the series with zeros. Without it Prometheus does not see the first observation as an increase. */
  zero(labels: LabelValues<L>): void;
}

/** One value of a metric that is read when it is scraped. */
export interface Sample<L extends string> {
  readonly labels: LabelValues<L>;
  readonly value: number;
}

export class MetricRegistry {
  readonly #registry = new PromRegistry();

  /** A count of events; the name ends in `_total`. @throws Error if the name is taken or not allowed. */
  counter<const L extends string>(name: string, help: string, labelNames: readonly L[]): Counter<L> {
    return new PromCounter<L>({ name, help, labelNames, registers: [this.#registry] });
  }

  /** A value that goes up and down and is set when it changes. @throws as `counter`. */
  gauge<const L extends string>(name: string, help: string, labelNames: readonly L[]): Gauge<L> {
    return new PromGauge<L>({ name, help, labelNames, registers: [this.#registry] });
  }

  /** A distribution; `buckets` are upper bounds, ascending. @throws as `counter`. */
  histogram<const L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    buckets: readonly number[],
  ): Histogram<L> {
    return new PromHistogram<L>({ name, help, labelNames, buckets: [...buckets], registers: [this.#registry] });
  }

  /**
   * A gauge (or a counter, for values that only grow) whose values are read from its sources at each scrape. So no value is
   * updated in between, and removed items leave no series behind.
   * @throws as `counter`.
   */
  sampled<const L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    type: 'gauge' | 'counter' = 'gauge',
  ): SourceSet<Sample<L>> {
    const sources = new SourceSet<Sample<L>>();
    this.derived(name, help, labelNames, () => sources.read(), type);
    return sources;
  }

  /** As `sampled`, for values computed by one function. @throws as `counter`. */
  derived<const L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    read: () => Iterable<Sample<L>>,
    type: 'gauge' | 'counter' = 'gauge',
  ): void {
    // Two sources may give the same labels (two queues of one name): their values add up.
    const shared = { name, help, labelNames, registers: [this.#registry] };
    const metric: PromGauge<L> | PromCounter<L> =
      type === 'gauge' ? new PromGauge<L>({ ...shared, collect }) : new PromCounter<L>({ ...shared, collect });
    function collect(): void {
      metric.reset();
      for (const { labels, value } of read()) metric.inc(labels, value);
    }
  }

  /** Every metric in the Prometheus text format 0.0.4. @throws what a source throws. */
  text(): Promise<string> {
    return this.#registry.metrics();
  }

  /** The `Content-Type` of `text()`. */
  get contentType(): string {
    return this.#registry.contentType;
  }
}
