/**
 * The registry for all metrics of one process. Each controller adds its own metrics; each name must be unique:
 *
 * ```ts
 * const copies = registry.counter('keyferry_example_total', 'Copies made.', ['system']);
 * copies.inc({ system: 'mirrors' });
 * registry.value('keyferry_example_depth', 'Keys in the queue.', () => queue.size);
 * ```
 */
import PromCounter from 'prom-client/lib/counter.js';
import PromGauge from 'prom-client/lib/gauge.js';
import PromHistogram from 'prom-client/lib/histogram.js';
import PromRegistry from 'prom-client/lib/registry.js';

export type LabelValues<L extends string> = Readonly<Record<L, string>>;

export interface Counter<L extends string> {
  inc(labels: LabelValues<L>, by?: number): void;
}

interface Gauge<L extends string> {
  set(labels: LabelValues<L>, value: number): void;
}

export interface Histogram<L extends string> {
  observe(labels: LabelValues<L>, value: number): void;
  /** Creates the series with zeros. Without this, Prometheus would not count the first observation as an increase. */
  zero(labels: LabelValues<L>): void;
}

/** One value of a metric that is read at each scrape. */
export interface Sample<L extends string> {
  readonly labels: LabelValues<L>;
  readonly value: number;
}

export class MetricRegistry {
  readonly #registry = new PromRegistry();

  /** Adds a count of events; the name ends in `_total`. @throws Error if the name is in use or not allowed */
  counter<const L extends string>(name: string, help: string, labelNames: readonly L[]): Counter<L> {
    return new PromCounter<L>({ name, help, labelNames, registers: [this.#registry] });
  }

  /** Adds a value that goes up and down and is set when it changes. @throws Error as `counter` */
  gauge<const L extends string>(name: string, help: string, labelNames: readonly L[]): Gauge<L> {
    return new PromGauge<L>({ name, help, labelNames, registers: [this.#registry] });
  }

  /** Adds a distribution of values; `buckets` are upper bounds, ascending. @throws Error as `counter` */
  histogram<const L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    buckets: readonly number[],
  ): Histogram<L> {
    return new PromHistogram<L>({ name, help, labelNames, buckets: [...buckets], registers: [this.#registry] });
  }

  /** Adds one value without labels, which is read at each scrape. @throws Error as `counter` */
  value(name: string, help: string, read: () => number, type?: 'counter'): void {
    this.derived(name, help, [], () => [{ labels: {}, value: read() }], type);
  }

  /**
   * Adds a gauge (or a counter, for values that only grow) whose values are read at each scrape. So nothing is updated
   * between scrapes, and a removed item leaves no series.
   * @throws Error as `counter`
   */
  derived<const L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    read: () => Iterable<Sample<L>>,
    type: 'gauge' | 'counter' = 'gauge',
  ): void {
    // If samples have the same labels (for example two queues with the same name), their values are added.
    const shared = { name, help, labelNames, registers: [this.#registry] };
    const metric: PromGauge<L> | PromCounter<L> =
      type === 'gauge' ? new PromGauge<L>({ ...shared, collect }) : new PromCounter<L>({ ...shared, collect });
    function collect(): void {
      metric.reset();
      for (const { labels, value } of read()) metric.inc(labels, value);
    }
  }

  /** All metrics in the Prometheus text format 0.0.4. @throws the error of a `read` function */
  text(): Promise<string> {
    return this.#registry.metrics();
  }

  /** The `Content-Type` of `text()`. */
  get contentType(): string {
    return this.#registry.contentType;
  }
}

/** The label value that stands for all values beyond the limit. */
const OTHER = 'other';

/** Largest number of Vault servers, and of login mounts, that have their own series. */
export const MAX_VAULTS = 100;

/**
 * Limits the values of a label that users choose, such as addresses of servers. Series are never removed, so without a
 * limit each edit of a rule could take more memory. The first values have their own series; all others share `other`.
 */
export class BoundedLabel {
  readonly #most: number;
  readonly #values = new Set<string>();

  /** @param most number of values that have their own series */
  constructor(most: number) {
    this.#most = most;
  }

  /** The value itself; `other` for a new value if the limit is reached. */
  of(value: string): string {
    if (!this.#values.has(value)) {
      if (this.#values.size >= this.#most) return OTHER;
      this.#values.add(value);
    }
    return value;
  }
}
