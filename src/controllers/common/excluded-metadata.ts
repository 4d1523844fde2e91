/**
 * The labels and annotations that copies get from their source, and those that they never carry, in one list for all systems. SyncSecrets cross from a tenant to an
 * administrator, so there only keys that the administrator allows travel (`controllers/syncsecret/rules/travel.ts`), and `isMark` limits these.
 */
import type { Steps } from '../../runtime/queue/slices.ts';
import { userCause } from '../../copy/model/cause.ts';
import type { DesiredState } from '../../copy/model/claim.ts';
import { LAST_APPLIED, lengthProblem, MAX_KEPT } from '../../copy/model/observed.ts';

export const OWN_PREFIX = 'keyferry.dev/';
/** Label of all copies, by which people and policies tell them. Its value is the controller. */
export const COPY_LABEL = `${OWN_PREFIX}copy`;
const MIRRORS_PREFIX = 'mirrors.kts.studio/';
/** On the copies of a SecretMirror: `<namespace>/<name>` of the SecretMirror. Other controllers leave such an object alone. */
export const MIRROR_OWNER = `${MIRRORS_PREFIX}owned-by`;

/** Marks of Keyferry, and of other copiers: an object that has one is copied by them, or looks like one of their copies. */
const MARK_PREFIXES = [
  OWN_PREFIX,
  MIRRORS_PREFIX,
  'k8s-replicator/',
  'replicator.v1.mittwald.de/',
  'reflector.v1.k8s.emberstack.com/',
  'kubed.appscode.com/',
  'kubelb.k8c.io/',
  // The control plane fills a Secret with a token for the ServiceAccount that this names.
  'kubernetes.io/service-account.',
];

/**
 * Controllers that obey labels or annotations of Secrets and ConfigMaps: their domains, with all below them. What a source asks of them, or
 * says of its relation to them, must not hold for its copies.
 */
const OBEYED_DOMAINS: ReadonlySet<string> = new Set(
  [
    // Copy, distribute or fill Secrets.
    '1password.io akuity.io appscode.com bank-vaults.io banzaicloud.com banzaicloud.io carvel.dev cattle.io clastix.io clustersecret.io',
    'doppler.com emberstack.com external-secrets.io gardener.cloud hashicorp.com infisical.com k14s.io karmada.io kubefed.io kubesphere.io',
    'kyverno.io liqo.io loft.sh mittwald.de multicluster.admiralty.io oam.dev open-cluster-management.io projectcapsule.dev',
    'projectsveltos.io rancher.io redhat-cop.io sealedsecrets.bitnami.com secrets-store.csi.k8s.io skupper.io submariner.io synator x-k8s.io',
    // Deploy, adopt or prune objects.
    'addonmanager.kubernetes.io applyset.kubernetes.io argoproj.io cli-utils.sigs.k8s.io cnrm.cloud.google.com config.k8s.io',
    'config.kubernetes.io configmanagement.gke.io configsync.gke.io crossplane.io fluxcd.io helm.sh janitor k8c.io keel.sh kluctl.io',
    'operatorframework.io operators.coreos.com spinnaker.io velero.io weave.works',
    // Trust Secrets as credentials, certificates or configuration, wherever they are.
    'acme.cert-manager.io alpha.jetstack.io cert-manager.io certmanager.k8s.io cilium.io cnpg.io crunchydata.com elastic.co istio istio.io',
    'jenkins.io knative.dev konghq.com kuadrant.io kuma.io kubevirt.io linkerd.io openshift.io prometheus.io solo.io strimzi.io tekton.dev',
    // Restart workloads, or are exempted from admission by a label.
    'admissions.enforcer gatekeeper.sh pusher.com stakater.com',
  ].flatMap((line) => line.split(' ')),
);

/** Obeyed keys of domains that others share, and of one-word names. Grafana and its relatives load labelled objects of any namespace. */
const OBEYED_KEYS: ReadonlySet<string> = new Set(
  [
    'app.kubernetes.io/managed-by app.kubernetes.io/instance alertmanager_config grafana_alert grafana_dashboard grafana_datasource',
    'grafana_folder grafana_notifier grafana_plugin k8s-sidecar-target-directory loki_rule',
  ].flatMap((line) => line.split(' ')),
);
const OBEYED_PREFIXES = ['kubernetes.io/cluster-service', 'kubernetes.io/legacy-token-', 'olm.'];

/**
 * The annotations of k8s-replicator without their prefix: the replicator may run in another process, whose prefix is not known here. A copy
 * that carried one would itself be replicated, or look like a copy of the replicator.
 */
export const REPLICATION_NAMES = {
  /** On a target: `<namespace>/<name>` or `<name>` of its source. */
  from: 'replicate-from',
  /** On a source: `<name>` or `<namespace or pattern>/<name>` of the copies. */
  to: 'replicate-to',
  /** On a source: namespaces or patterns of namespaces of the copies. */
  toNamespaces: 'replicate-to-namespaces',
  once: 'replicate-once',
  onceVersion: 'replicate-once-version',
  allowed: 'replication-allowed',
  allowedNamespaces: 'replication-allowed-namespaces',
  /** Time when the target was last written or cleared. */
  at: 'replicated-at',
  /** The owner's mark on a copy: `<namespace>/<name>` of its source. */
  by: 'replicated-by',
  /** The resourceVersion of the copied source. Present only if the target has data. */
  version: 'replicated-from-version',
  /** The first source of a chain of replicate-from; used to detect loops. */
  origin: 'replicated-from-origin',
  /** The namespaces that a chain may continue to: `.*`, `-` or a list. */
  inherited: 'replicated-from-allowed',
} as const;

/** The keys of `isMark` as a pattern in RE2 syntax, also for the schemas of CRDs. */
export const MARK_PATTERN =
  `^(${[...MARK_PREFIXES, `${LAST_APPLIED}$`, `(.*/)?(${Object.values(REPLICATION_NAMES).join('|')})$`].join('|')})`
    .replaceAll('.', '[.]')
    .replaceAll('[.]*', '.*');
const MARK = new RegExp(MARK_PATTERN);

/** Whether a copy must not carry the key, whatever an administrator allows: `last-applied-configuration` has the values. */
export function isMark(key: string): boolean {
  return MARK.test(key);
}

/** Whether copies carry a label or annotation of their source, where nobody has chosen the keys. */
export function isCopied(key: string, value = ''): boolean {
  if (isMark(key) || OBEYED_KEYS.has(key) || OBEYED_PREFIXES.some((prefix) => key.startsWith(prefix))) return false;
  return !isOfObeyedDomain(key) && !isHelmRelease(key, value);
}

/** Whether the domain of the key, or one above it, is in the list. */
function isOfObeyedDomain(key: string): boolean {
  const slash = key.indexOf('/');
  if (slash < 0) return false;
  let domain = key.slice(0, slash);
  for (;;) {
    if (OBEYED_DOMAINS.has(domain)) return true;
    const dot = domain.indexOf('.');
    if (dot < 0) return false;
    domain = domain.slice(dot + 1);
  }
}

/** Helm takes a Secret or ConfigMap with this label for a release: `helm uninstall` would delete what it lists, in any namespace. */
function isHelmRelease(key: string, value: string): boolean {
  return (key === 'owner' && value === 'helm') || (key === 'OWNER' && value === 'TILLER');
}

/** The stored metadata of the copy is incomplete, so it cannot be compared with the desired state. */
export const TOO_LARGE: DesiredState = {
  kind: 'fail',
  ...userCause(
    'TooLarge',
    `the copy has more than ${MAX_KEPT / 1024} KiB of labels or annotations from other clients; Keyferry does not change it`,
  ),
};

/** The labels or annotations that reach a copy: those that `isCopied`, except values that were too long to keep. One step for each. */
export function* copiedMetadata(
  map: Readonly<Record<string, string>>,
  isCopied: (key: string, value: string) => boolean,
): Steps<Record<string, string>> {
  const copied: [string, string][] = [];
  for (const [key, value] of Object.entries(map)) {
    if (isCopied(key, value) && lengthProblem(value) === undefined) copied.push([key, value]);
    yield;
  }
  return Object.fromEntries(copied);
}
