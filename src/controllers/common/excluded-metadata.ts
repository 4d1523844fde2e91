/** The labels and annotations of a source that its copies never carry. */
import { LAST_APPLIED } from '../../copy/model/observed.ts';

export const OWN_PREFIX = 'keyferry.dev/';
const MIRRORS_PREFIX = 'mirrors.kts.studio/';
/** On the copies of a SecretMirror: `<namespace>/<name>` of the SecretMirror. Other controllers leave such an object alone. */
export const MIRROR_OWNER = `${MIRRORS_PREFIX}owned-by`;

/**
 * They describe the source object and not a copy: the program that manages it (Argo CD or Helm would prune or overwrite a copy with
 * their marks), or the work of another copier.
 */
const PREFIXES = [
  OWN_PREFIX,
  MIRRORS_PREFIX,
  'meta.helm.sh/',
  'helm.sh/',
  'argocd.argoproj.io/',
  'kustomize.toolkit.fluxcd.io/',
  'helm.toolkit.fluxcd.io/',
  'k8s-replicator/',
  'replicator.v1.mittwald.de/',
  'reflector.v1.k8s.emberstack.com/',
  'kubed.appscode.com/',
  'kubelb.k8c.io/',
  'kubernetes.io/service-account.',
];
const KEYS = new Set([LAST_APPLIED, 'app.kubernetes.io/managed-by', 'app.kubernetes.io/instance']);

/**
 * The annotations of k8s-replicator without their prefix: the replicator may run in another process, whose prefix is not known here. A copy
 * that carried one would itself be replicated, or look like a copy of the replicator.
 */
export const REPLICATION_NAMES = {
  from: 'replicate-from',
  to: 'replicate-to',
  toNamespaces: 'replicate-to-namespaces',
  once: 'replicate-once',
  onceVersion: 'replicate-once-version',
  allowed: 'replication-allowed',
  allowedNamespaces: 'replication-allowed-namespaces',
  at: 'replicated-at',
  by: 'replicated-by',
  version: 'replicated-from-version',
  origin: 'replicated-from-origin',
  inherited: 'replicated-from-allowed',
} as const;
const REPLICATION = new Set<string>(Object.values(REPLICATION_NAMES));

export function isCopied(key: string): boolean {
  if (KEYS.has(key) || REPLICATION.has(key.slice(key.lastIndexOf('/') + 1))) return false;
  return !PREFIXES.some((prefix) => key.startsWith(prefix));
}
