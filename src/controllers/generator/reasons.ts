/** The reasons of results. */

/** Those of the original's condition `Created`, and their meaning there. */
const ORIGINAL_REASONS = ['Success', 'ErrorCreating', 'Recreating', 'Exists', 'ErrorAnnotation'] as const;

/** Why no value was made, in more detail than the original's `ErrorCreating`. */
const PROBLEM_REASONS = [
  'ErrorCreating',
  /** An item that no values are made for. */
  'NotMade',
  'InvalidStore',
  'StoreNotFound',
  /** A ClusterSecretStore does not admit the namespace. */
  'StoreNotAllowed',
  'UnsupportedProvider',
  'UnsupportedAuth',
  /** The latest version of the entry is deleted or destroyed. */
  'Deleted',
  /** A SecretMirror writes the entry. */
  'Conflict',
] as const;

export type ProblemReason = (typeof PROBLEM_REASONS)[number];
export type Reason = (typeof ORIGINAL_REASONS)[number] | ProblemReason | 'NestedProperty';

const ALL: ReadonlySet<string> = new Set<Reason>([...ORIGINAL_REASONS, ...PROBLEM_REASONS, 'NestedProperty']);

export function isReason(reason: string | undefined): reason is Reason {
  return reason !== undefined && ALL.has(reason);
}
