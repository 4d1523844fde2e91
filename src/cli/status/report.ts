/** What `keyferry status` tells, whatever system it is of. The JSON output is this, as it stands; fields are only ever added. */

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
  /** The system's own word: `Pending`, `Active`, `Error`; `Deleting`; `Unknown` before Keyferry has seen it. */
  readonly state: string;
  readonly ready: boolean;
  /** One word of why, and a sentence. */
  readonly reason: string;
  readonly message: string;
  /** RFC 3339; `null`: never. */
  readonly lastSyncTime: string | null;
  readonly copies: readonly CopyStatus[];
}

export interface CopyStatus {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  /** Version of the source that it holds; '' where sources have none. */
  readonly sourceVersion: string;
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
  readonly cluster: string;
  readonly systems: readonly { readonly system: string; readonly installed: boolean }[];
  readonly rules: readonly RuleStatus[];
  readonly orphans: readonly OrphanStatus[];
}

/** All systems as one report, in a stable order. */
export function reportOf(cluster: string, systems: readonly SystemStatus[]): StatusReport {
  return {
    cluster,
    systems: systems.map(({ system, installed }) => ({ system, installed })),
    rules: systems.flatMap(({ rules }) => rules).toSorted(byName),
    orphans: systems.flatMap(({ orphans }) => orphans).toSorted(byName),
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
