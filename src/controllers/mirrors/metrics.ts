/**
 * The metrics of ktsstudio/mirrors with their original names, so that dashboards and alerts keep working. One
 * difference: when a mirror is deleted, its series end.
 */
import type { LabelValues, MetricRegistry, Sample } from '../../observe/metrics/metric-registry.ts';
import { getOrCreate } from '../../runtime/maps.ts';
import type { DestinationType, SourceType } from './api.ts';

const SYNCS = 'mirrors_sync_total';
const NAMESPACES = 'mirrors_ns_current_count';
const RENEWALS = 'mirrors_vault_lease_renew_ok_total';
const FAILED_RENEWALS = 'mirrors_vault_lease_renew_error_total';

interface Series {
  readonly metric: string;
  readonly labels: LabelValues<string>;
  value: number;
}

export class MirrorMetrics {
  /** The series, by `<namespace>/<name>` of the mirror, then by metric and labels as JSON. */
  readonly #series = new Map<string, Map<string, Series>>();

  constructor(registry: MetricRegistry) {
    const add = (type: 'counter' | 'gauge', metric: string, help: string, labels: readonly string[]): void =>
      registry.derived(metric, help, ['mirror', ...labels], () => this.#samplesOf(metric), type);
    add('counter', SYNCS, 'Successful syncs of a mirror.', ['source_type', 'destination_type']);
    add('gauge', NAMESPACES, 'Namespaces that a mirror matches.', ['source_type']);
    add('counter', RENEWALS, 'Vault leases renewed.', ['vault']);
    const failed = 'Vault leases that could not be renewed; http_code is - if there was no response.';
    add('counter', FAILED_RENEWALS, failed, ['vault', 'http_code']);
  }

  /**
   * Counts a successful sync, even if it wrote nothing.
   * @param mirror `<namespace>/<name>`
   * @param namespaces number of namespaces that the mirror matches
   */
  synced(
    mirror: string,
    spec: { readonly sourceType: SourceType; readonly destinationType: DestinationType },
    namespaces: number,
  ): void {
    const { sourceType, destinationType } = spec;
    this.#of(mirror, SYNCS, { source_type: sourceType, destination_type: destinationType }).value += 1;
    if (destinationType === 'namespaces') this.#of(mirror, NAMESPACES, { source_type: sourceType }).value = namespaces;
  }

  /** Counts the renewal of a lease. @param vault address of the Vault server */
  leaseRenewed(mirror: string, vault: string): void {
    this.#of(mirror, RENEWALS, { vault }).value += 1;
  }

  /** Counts a failed renewal. @param httpCode HTTP status of Vault's response; `undefined`: there was no response */
  leaseRenewFailed(mirror: string, vault: string, httpCode: number | undefined): void {
    this.#of(mirror, FAILED_RENEWALS, { vault, http_code: String(httpCode ?? '-') }).value += 1;
  }

  /** Ends the series of a mirror. To be called when the mirror is gone. */
  removeMirror(mirror: string): void {
    this.#series.delete(mirror);
  }

  #of(mirror: string, metric: string, labels: LabelValues<string>): Series {
    const own = getOrCreate(this.#series, mirror, () => new Map());
    const all = { mirror, ...labels };
    return getOrCreate(own, JSON.stringify([metric, all]), () => ({ metric, labels: all, value: 0 }));
  }

  *#samplesOf(metric: string): Iterable<Sample<string>> {
    for (const own of this.#series.values()) for (const one of own.values()) if (one.metric === metric) yield one;
  }
}
