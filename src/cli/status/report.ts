/**
 * What `keyferry status` tells, whatever system it is of. The JSON and YAML output is this, as it stands; fields are only ever
 * added. Its schema is docs/schemas/status.json.
 */
import type { Outcome } from '../../copy/model/claim.ts';

/** A rule that a user wrote, and what became of it. */
export interface RuleStatus {
  /** `mirrors`, … */
  readonly system: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  /** `secret default/mysecret`, `vault vault.example.com/secret/data/x`. */
  readonly source: string;
  /** Patterns of namespaces, or a place in Vault. */
  readonly destinations: readonly string[];
  /**
   * The system's own word: `Pending`, `Active`, `Error`; `Deleting`; `Unknown` before Keyferry has seen it, or where the rights of the
   * caller do not show it.
   */
  readonly state: string;
  readonly ready: boolean;
  /** One word of why, and a sentence. */
  readonly reason: string;
  readonly message: string;
  /** RFC 3339; `null`: never. */
  readonly lastSyncTime: string | null;
  readonly copies: readonly CopyStatus[];
  /** Every target that is not as it should be, as far as it could be looked at. */
  readonly failing: readonly FailingTarget[];
}

export interface TargetPlace {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
}

export interface CopyStatus extends TargetPlace {
  /** Version of the source that it holds; '' where sources have none. */
  readonly sourceVersion: string;
}

export interface FailingTarget extends TargetPlace {
  /** `pending`: it would be written if Keyferry ran and were let. */
  readonly state: Extract<Outcome['state'], 'pending' | 'waiting' | 'conflict' | 'error'>;
  readonly reason: string;
  readonly message: string;
}

/** A copy that no rule stands behind. */
export interface OrphanStatus extends CopyStatus {
  readonly system: string;
  /** What its mark says: `default/mysecret-mirror`. */
  readonly owner: string;
  readonly reason: string;
}

export interface SystemStatus {
  readonly system: string;
  /** Whether its API is there. */
  readonly installed: boolean;
  readonly rules: readonly RuleStatus[];
  readonly orphans: readonly OrphanStatus[];
}

export interface StatusReport {
  readonly apiVersion: 'keyferry.dev/v1';
  readonly kind: 'Status';
  /** Host of the API server. */
  readonly cluster: string;
  readonly systems: readonly { readonly system: string; readonly installed: boolean }[];
  /** What could not be looked at, and why. */
  readonly notes: readonly string[];
  readonly rules: readonly RuleStatus[];
  readonly orphans: readonly OrphanStatus[];
}

/** Reason of a rule of which nothing can be said with the rights of the caller. It is not known to fail. */
export const LIMITED = 'Limited';

/** All systems as one report, in a stable order. @param failed nothing but rules that are known not to be as they should be */
export function reportOf(
  cluster: string,
  systems: readonly SystemStatus[],
  notes: readonly string[],
  failed: boolean,
): StatusReport {
  const rules = systems.flatMap((system) => system.rules).toSorted(byName);
  return {
    apiVersion: 'keyferry.dev/v1',
    kind: 'Status',
    cluster,
    systems: systems.map(({ system, installed }) => ({ system, installed })),
    notes,
    rules: failed ? rules.filter(({ ready, reason }) => !ready && reason !== LIMITED) : rules,
    orphans: failed ? [] : systems.flatMap(({ orphans }) => orphans).toSorted(byName),
  };
}

/** By system, namespace and name. */
export function byName(
  a: { readonly system?: string; readonly namespace: string; readonly name: string },
  b: { readonly system?: string; readonly namespace: string; readonly name: string },
): number {
  for (const field of ['system', 'namespace', 'name'] as const) {
    const [left, right] = [a[field] ?? '', b[field] ?? ''];
    if (left !== right) return left < right ? -1 : 1;
  }
  return 0;
}
