/**
 * The output of `keyferry status`. JSON and YAML have exactly these fields; fields are added, but never changed or removed. The schema
 * is docs/schemas/status.json.
 */
import {
  byName,
  type ControllerStatus,
  LIMITED,
  type OrphanStatus,
  type RuleStatus,
} from '../../controllers/common/snapshot/status-report.ts';

export interface StatusReport {
  readonly apiVersion: 'keyferry.dev/v1';
  readonly kind: 'Status';
  /** Host of the API server. */
  readonly cluster: string;
  readonly systems: readonly { readonly system: string; readonly installed: boolean }[];
  /** What could not be listed, and why. */
  readonly notes: readonly string[];
  readonly rules: readonly RuleStatus[];
  readonly orphans: readonly OrphanStatus[];
}

/** All controllers as one report, in a stable order. @param failed only rules that are known to fail */
export function reportOf(
  cluster: string,
  controllers: readonly ControllerStatus[],
  notes: readonly string[],
  failed: boolean,
): StatusReport {
  const rules = controllers.flatMap(({ rules }) => rules).toSorted(byName);
  return {
    apiVersion: 'keyferry.dev/v1',
    kind: 'Status',
    cluster,
    systems: controllers.map(({ system, installed }) => ({ system, installed })),
    notes,
    rules: failed ? rules.filter(({ ready, reason }) => !ready && reason !== LIMITED) : rules,
    orphans: failed ? [] : controllers.flatMap(({ orphans }) => orphans).toSorted(byName),
  };
}
