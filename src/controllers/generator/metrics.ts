/** The metrics of the generator. */
import type { Counter, MetricRegistry } from '../../observe/metrics/metric-registry.ts';
import type { Reason } from './reasons.ts';

export class GeneratorMetrics {
  readonly #values: Counter<never>;
  readonly #results: Counter<'reason'>;

  /** @param failing the number of ExternalSecrets whose values ESO cannot read, of those that opted in */
  constructor(registry: MetricRegistry, failing: () => number) {
    this.#values = registry.counter('keyferry_generator_values_total', 'Values put into Vault.', []);
    this.#results = registry.counter('keyferry_generator_results_total', 'Results written to ExternalSecrets.', [
      'reason',
    ]);
    registry.value('keyferry_generator_failing', 'ExternalSecrets that wait for a value.', failing);
  }

  made(count: number): void {
    this.#values.inc({}, count);
  }

  written(reason: Reason): void {
    this.#results.inc({ reason });
  }
}
