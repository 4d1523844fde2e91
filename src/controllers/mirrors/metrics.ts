/**
 * The metrics of the original `mirrors` operator with the same names, so that dashboards and alerts keep working. Unlike in the
 * original, the series of a mirror are removed when the mirror is deleted.
 *
 * Invariant: `#series` contains exactly the label sets that were used for a mirror since it was last removed.
 */
import type { Counter, Gauge, LabelValues, MetricRegistry } from '../../observe/metrics/metric-registry.ts';
import type { DestinationType, SourceType } from './api.ts';

export class MirrorMetrics {
  readonly #sync: Counter<'mirror' | 'source_type' | 'destination_type'>;
  readonly #namespaces: Gauge<'mirror' | 'source_type'>;
  readonly #renewOk: Counter<'mirror' | 'vault'>;
  readonly #renewError: Counter<'mirror' | 'vault' | 'http_code'>;
  /** By mirror and series: removes the series. */
  readonly #series = new Map<string, Map<string, () => void>>();

  constructor(registry: MetricRegistry) {
    this.#sync = registry.counter('mirrors_sync_total', 'Successful syncs of a mirror.', [
      'mirror',
      'source_type',
      'destination_type',
    ]);
    this.#namespaces = registry.gauge('mirrors_ns_current_count', 'Namespaces that a mirror matches.', [
      'mirror',
      'source_type',
    ]);
    this.#renewOk = registry.counter('mirrors_vault_lease_renew_ok_total', 'Vault leases renewed.', [
      'mirror',
      'vault',
    ]);
    this.#renewError = registry.counter(
      'mirrors_vault_lease_renew_error_total',
      'Vault leases that could not be renewed; http_code is - if there was no response.',
      ['mirror', 'vault', 'http_code'],
    );
  }

  /**
   * A successful sync, also without a write.
   * @param mirror `<namespace>/<name>`
   * @param namespaces the number that the mirror matches
   */
  synced(
    mirror: string,
    spec: { readonly sourceType: SourceType; readonly destinationType: DestinationType },
    namespaces: number,
  ): void {
    const labels = { mirror, source_type: spec.sourceType };
    this.#count(this.#sync, { ...labels, destination_type: spec.destinationType });
    if (spec.destinationType !== 'namespaces') return;
    this.#namespaces.set(labels, namespaces);
    this.#keep(this.#namespaces, labels);
  }

  /** @param vault its address */
  leaseRenewed(mirror: string, vault: string): void {
    this.#count(this.#renewOk, { mirror, vault });
  }

  /** @param httpCode `undefined` without a response */
  leaseRenewFailed(mirror: string, vault: string, httpCode: number | undefined): void {
    this.#count(this.#renewError, { mirror, vault, http_code: httpCode === undefined ? '-' : String(httpCode) });
  }

  /** Removes all series of a deleted mirror. */
  removeMirror(mirror: string): void {
    for (const remove of this.#series.get(mirror)?.values() ?? []) remove();
    this.#series.delete(mirror);
  }

  #count<L extends string>(counter: Counter<L | 'mirror'>, labels: LabelValues<L | 'mirror'>): void {
    counter.inc(labels);
    this.#keep(counter, labels);
  }

  /** The names of the labels are those of one metric, so the labels show the series. */
  #keep<L extends string>(metric: Pick<Counter<L | 'mirror'>, 'remove'>, labels: LabelValues<L | 'mirror'>): void {
    const series = this.#series.get(labels.mirror) ?? new Map<string, () => void>();
    this.#series.set(
      labels.mirror,
      series.set(JSON.stringify(labels), () => metric.remove(labels)),
    );
  }
}
