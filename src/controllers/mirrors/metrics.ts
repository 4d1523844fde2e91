/**
 * The metrics of the original `mirrors` operator under their old names, so that dashboards and alerts keep working.
 * Different from it, the series of a mirror go when the mirror goes.
 *
 * Invariant: `#series` holds exactly the label sets that were ever given for a mirror since it was last removed.
 */
import type { Counter, Gauge, MetricRegistry } from '../../observe/metric-registry.ts';

export type MirrorSourceType = 'secret' | 'vault';
export type MirrorDestinationType = 'namespaces' | 'vault';

type Removable = { readonly remove: () => void };

export class MirrorMetrics {
  readonly #sync: Counter<'mirror' | 'source_type' | 'destination_type'>;
  readonly #namespaces: Gauge<'mirror' | 'source_type'>;
  readonly #renewOk: Counter<'mirror' | 'vault'>;
  readonly #renewError: Counter<'mirror' | 'vault' | 'http_code'>;
  readonly #series = new Map<string, Map<string, Removable>>();

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
      'Vault leases whose renewal failed; http_code is - where there was no answer.',
      ['mirror', 'vault', 'http_code'],
    );
  }

  /** One successful sync pass, also one that had nothing to write. `mirror` is `<namespace>/<name>` here and below. */
  synced(mirror: string, sourceType: MirrorSourceType, destinationType: MirrorDestinationType): void {
    const labels = { mirror, source_type: sourceType, destination_type: destinationType };
    this.#sync.inc(labels);
    this.#keep(mirror, `s/${sourceType}/${destinationType}`, () => this.#sync.remove(labels));
  }

  /** How many namespaces the mirror matches, after a fully successful pass. */
  setNamespaces(mirror: string, sourceType: MirrorSourceType, count: number): void {
    const labels = { mirror, source_type: sourceType };
    this.#namespaces.set(labels, count);
    this.#keep(mirror, `n/${sourceType}`, () => this.#namespaces.remove(labels));
  }

  /** `vault` is the address, here and below. */
  leaseRenewed(mirror: string, vault: string): void {
    const labels = { mirror, vault };
    this.#renewOk.inc(labels);
    this.#keep(mirror, `o/${vault}`, () => this.#renewOk.remove(labels));
  }

  /** `httpCode` is `undefined` where Vault gave no answer. */
  leaseRenewFailed(mirror: string, vault: string, httpCode: number | undefined): void {
    const labels = { mirror, vault, http_code: httpCode === undefined ? '-' : String(httpCode) };
    this.#renewError.inc(labels);
    this.#keep(mirror, `e/${vault}/${labels.http_code}`, () => this.#renewError.remove(labels));
  }

  /** Removes every series of a mirror that is gone. */
  removeMirror(mirror: string): void {
    for (const series of this.#series.get(mirror)?.values() ?? []) series.remove();
    this.#series.delete(mirror);
  }

  #keep(mirror: string, key: string, remove: () => void): void {
    let series = this.#series.get(mirror);
    if (series === undefined) {
      series = new Map();
      this.#series.set(mirror, series);
    }
    if (!series.has(key)) series.set(key, { remove });
  }
}
