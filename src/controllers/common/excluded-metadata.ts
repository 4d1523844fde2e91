/**
 * Decides for all controllers which labels and annotations of a source are copied, and which must never stand on a
 * copy. Between tenant and administrator, only keys are copied that the administrator allows and that are no marks
 * (`controllers/syncsecret/rules/travel.ts`).
 */
import { because } from '../../copy/model/cause.ts';
import type { DesiredState } from '../../copy/model/claim.ts';
import { LAST_APPLIED, lengthProblem, MAX_KEPT } from '../../copy/model/observed.ts';

export const OWN_PREFIX = 'keyferry.dev/';
const MIRRORS_PREFIX = 'mirrors.kts.studio/';
/** On a copy of a SecretMirror: the mirror's `<namespace>/<name>`. Other controllers do not change such a copy. */
export const MIRROR_OWNER = `${MIRRORS_PREFIX}owned-by`;

/** Prefixes of marks. If a copy had one, another program would copy it again, or treat it as its own copy. */
const MARK_PREFIXES = [
  OWN_PREFIX,
  MIRRORS_PREFIX,
  'k8s-replicator/',
  'replicator.v1.mittwald.de/',
  'reflector.v1.k8s.emberstack.com/',
  'kubed.appscode.com/',
  'kubelb.k8c.io/',
  // The control plane writes a token into a Secret with this annotation.
  'kubernetes.io/service-account.',
];

/** Domains of programs that copy, distribute or fill Secrets. */
const COPIERS = [
  '1password.io akuity.io appscode.com bank-vaults.io banzaicloud.com banzaicloud.io carvel.dev cattle.io clastix.io clustersecret.io',
  'doppler.com emberstack.com external-secrets.io gardener.cloud hashicorp.com infisical.com k14s.io karmada.io kubefed.io kubesphere.io',
  'kyverno.io liqo.io loft.sh mittwald.de multicluster.admiralty.io oam.dev open-cluster-management.io projectcapsule.dev',
  'projectsveltos.io rancher.io redhat-cop.io sealedsecrets.bitnami.com secrets-store.csi.k8s.io skupper.io submariner.io synator x-k8s.io',
];
/** Domains of programs that deploy, adopt or prune objects. */
const DEPLOYERS = [
  'addonmanager.kubernetes.io applyset.kubernetes.io cli-utils.sigs.k8s.io cnrm.cloud.google.com config.k8s.io',
  'config.kubernetes.io configmanagement.gke.io configsync.gke.io crossplane.io fluxcd.io helm.sh janitor k8c.io keel.sh kluctl.io',
  // Its annotation holds the object as it was, values included.
  'kopf.zalando.org',
  'operatorframework.io operators.coreos.com spinnaker.io velero.io weave.works',
];
const CERT_MANAGER = 'acme.cert-manager.io alpha.jetstack.io cert-manager.io certmanager.k8s.io';
/** Domains of programs that use Secrets of any namespace as credentials, certificates or configuration. */
const USERS = [
  'argoproj.io cilium.io cnpg.io crunchydata.com elastic.co istio istio.io',
  'jenkins.io knative.dev konghq.com kuadrant.io kuma.io kubevirt.io linkerd.io openshift.io prometheus.io solo.io strimzi.io tekton.dev',
  // Restart workloads, or check objects on admission and exempt those with a label.
  'admissions.enforcer gatekeeper.sh pusher.com stakater.com',
];

/**
 * Domains, with their subdomains, of controllers that obey labels or annotations of Secrets and ConfigMaps. Such a
 * label or annotation is an instruction for the source only, so copies must not carry it.
 */
const OBEYED_DOMAINS = words(...COPIERS, ...DEPLOYERS, CERT_MANAGER, ...USERS);

/** Single keys that controllers obey. Example: Grafana loads objects of any namespace that have such a label. */
const OBEYED_KEYS = words(
  'app.kubernetes.io/managed-by app.kubernetes.io/instance alertmanager_config grafana_alert grafana_dashboard grafana_datasource',
  'grafana_folder grafana_notifier grafana_plugin k8s-sidecar-target-directory loki_rule',
);
/** What `isTravelling` leaves out: what makes a program copy, fill, deploy, adopt or prune the object. */
const NEVER_TRAVELLING = {
  domains: words(...COPIERS, ...DEPLOYERS, CERT_MANAGER),
  keys: words(
    'app.kubernetes.io/managed-by app.kubernetes.io/instance argocd.argoproj.io/instance argocd.argoproj.io/tracking-id',
  ),
};
const OBEYED_PREFIXES = ['kubernetes.io/cluster-service', 'kubernetes.io/legacy-token-', 'olm.'];

/**
 * The annotations of k8s-replicator without their prefix, because a flag can change the prefix. If a copy had such an
 * annotation, the replicator would replicate it again or treat it as its own copy.
 */
export const REPLICATION_NAMES = {
  /** On a target: its source as `<namespace>/<name>`, or as `<name>` in the same namespace. */
  from: 'replicate-from',
  /** On a source: its copies as `<name>` in the same namespace, or as `<namespace or pattern>/<name>`. */
  to: 'replicate-to',
  /** On a source: names or patterns of the namespaces that get a copy. */
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
  /** In a chain of `replicate-from` (a → b → c): the first source, here a. Keyferry detects loops by it. */
  origin: 'replicated-from-origin',
  /** In a chain of `replicate-from`: the namespaces that may get the next copy: `.*`, `-` (none) or a list. */
  inherited: 'replicated-from-allowed',
} as const;

/** A pattern for the keys of `isMark`. It has RE2 syntax, because the schemas of CRDs use it too. */
export const MARK_PATTERN =
  `^(${[...MARK_PREFIXES, `${LAST_APPLIED}$`, `(.*/)?(${Object.values(REPLICATION_NAMES).join('|')})$`].join('|')})`
    .replaceAll('.', '[.]')
    .replaceAll('[.]*', '.*');
const MARK = new RegExp(MARK_PATTERN);

/** Whether no copy must carry the key: a mark, or `last-applied-configuration`, which contains values. */
export function isMark(key: string): boolean {
  return MARK.test(key);
}

/** Whether copies get a label or annotation of their source, if their rule does not choose the keys itself. */
export function isCopied(key: string, value = ''): boolean {
  return !OBEYED_KEYS.has(key) && !isOf(OBEYED_DOMAINS, key) && isHarmless(key, value);
}

/**
 * As `isCopied`, for annotations whose original copies all labels and annotations. Its users need those by which
 * programs use the copy: `argocd.argoproj.io/secret-type`, `grafana_dashboard`.
 */
export function isTravelling(key: string, value = ''): boolean {
  const { domains, keys } = NEVER_TRAVELLING;
  return !keys.has(key) && !isOf(domains, key) && isHarmless(key, value);
}

function isHarmless(key: string, value: string): boolean {
  return !isMark(key) && !OBEYED_PREFIXES.some((prefix) => key.startsWith(prefix)) && !isHelmRelease(key, value);
}

function words(...lines: readonly string[]): ReadonlySet<string> {
  return new Set(lines.flatMap((line) => line.split(' ')));
}

/** Whether the domain of the key, or a parent of that domain, is one of these. */
function isOf(domains: ReadonlySet<string>, key: string): boolean {
  const slash = key.indexOf('/');
  if (slash < 0) return false;
  let domain = key.slice(0, slash);
  for (;;) {
    if (domains.has(domain)) return true;
    const dot = domain.indexOf('.');
    if (dot < 0) return false;
    domain = domain.slice(dot + 1);
  }
}

/** Whether this is the label of Helm's release records. `helm uninstall` deletes all objects that a record lists. */
function isHelmRelease(key: string, value: string): boolean {
  return (key === 'owner' && value === 'helm') || (key === 'OWNER' && value === 'TILLER');
}

/** The desired state of a copy that has more metadata than Keyferry keeps, so that a comparison is impossible. */
export const TOO_LARGE: DesiredState = {
  kind: 'fail',
  ...because(
    'TooLarge',
    `the copy has more than ${MAX_KEPT / 1024} KiB of labels or annotations from other clients; Keyferry does not change it`,
  ),
};

/** The entries that `isCopied` accepts and whose values Keyferry can keep (`MAX_KEPT`). */
export function copiedMetadata(
  map: Readonly<Record<string, string>>,
  isCopied: (key: string, value: string) => boolean,
): Record<string, string> {
  const isKept = ([key, value]: [string, string]): boolean =>
    isCopied(key, value) && lengthProblem(value) === undefined;
  return Object.fromEntries(Object.entries(map).filter(isKept));
}
