/** The metrics of KubeLB's SyncSecret controllers, with their names, labels and buckets. */
import { namespaceOf, type RuleKey } from '../../copy/model/keys.ts';
import type { Counter, Histogram, MetricRegistry } from '../../observe/metrics/metric-registry.ts';
import type { Clock } from '../../runtime/clock.ts';

/** Upper limits of the buckets, seconds, as in KubeLB. */
const BUCKETS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

export class SyncSecretMetrics {
  readonly #total: Counter<'namespace' | 'result'>;
  readonly #seconds: Histogram<'namespace'>;
  /** Start of each running reconciliation, monotonic ms. */
  readonly #started = new Map<RuleKey, number>();
  readonly #clock: Pick<Clock, 'monotonic'>;

  /** @param role the controller, as a part of the metrics' names */
  constructor(registry: MetricRegistry, role: 'ccm' | 'manager', clock: Pick<Clock, 'monotonic'>) {
    const name = `kubelb_${role}_sync_secret_reconcile`;
    this.#total = registry.counter(`${name}_total`, 'Reconciliations of SyncSecrets.', ['namespace', 'result']);
    this.#seconds = registry.histogram(
      `${name}_duration_seconds`,
      'Time from a change of a SyncSecret to its result.',
      ['namespace'],
      BUCKETS,
    );
    this.#clock = clock;
  }

  started(rule: RuleKey): void {
    if (!this.#started.has(rule)) this.#started.set(rule, this.#clock.monotonic());
  }

  /** Counts the result of the reconciliation that `started` began. If none has begun, it does nothing. */
  finished(rule: RuleKey, result: 'success' | 'error'): void {
    const started = this.#started.get(rule);
    if (started === undefined) return;
    this.#started.delete(rule);
    const namespace = namespaceOf(rule);
    this.#total.inc({ namespace, result });
    this.#seconds.observe({ namespace }, (this.#clock.monotonic() - started) / 1000);
  }

  forget(rule: RuleKey): void {
    this.#started.delete(rule);
  }
}
