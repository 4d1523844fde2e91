/**
 * The labels and annotations that reach another object. A tenant writes them, so none may travel that a controller in the management
 * cluster obeys: with `k8s-replicator/replicate-to` a tenant would write into every namespace.
 */
import { copiedMetadata } from '../common/copied-metadata.ts';
import { isCopied } from '../common/excluded-metadata.ts';

/** Controllers that obey labels or annotations of Secrets, besides those of `isCopied`: their domains, with all below them. */
const DOMAINS: ReadonlySet<string> = new Set([
  // Copy, distribute or fill Secrets.
  '1password.io',
  'akuity.io',
  'appscode.com',
  'banzaicloud.com',
  'banzaicloud.io',
  'carvel.dev',
  'cattle.io',
  'clastix.io',
  'clustersecret.io',
  'doppler.com',
  'emberstack.com',
  'external-secrets.io',
  'gardener.cloud',
  'hashicorp.com',
  'infisical.com',
  'k14s.io',
  'karmada.io',
  'kubefed.io',
  'kubesphere.io',
  'kyverno.io',
  'liqo.io',
  'loft.sh',
  'mittwald.de',
  'multicluster.admiralty.io',
  'oam.dev',
  'open-cluster-management.io',
  'projectcapsule.dev',
  'projectsveltos.io',
  'sealedsecrets.bitnami.com',
  'secrets-store.csi.k8s.io',
  'submariner.io',
  'synator',
  'x-k8s.io',
  // Deploy, adopt or prune objects.
  'addonmanager.kubernetes.io',
  'applyset.kubernetes.io',
  'argoproj.io',
  'cli-utils.sigs.k8s.io',
  'cnrm.cloud.google.com',
  'config.k8s.io',
  'config.kubernetes.io',
  'configmanagement.gke.io',
  'configsync.gke.io',
  'crossplane.io',
  'fluxcd.io',
  'helm.sh',
  'janitor',
  'k8c.io',
  'keel.sh',
  'operatorframework.io',
  'operators.coreos.com',
  'spinnaker.io',
  'velero.io',
  'weave.works',
  // Trust Secrets as credentials, certificates or configuration, wherever they are.
  'acme.cert-manager.io',
  'alpha.jetstack.io',
  'cert-manager.io',
  'certmanager.k8s.io',
  'cilium.io',
  'cnpg.io',
  'elastic.co',
  'istio',
  'istio.io',
  'jenkins.io',
  'knative.dev',
  'konghq.com',
  'kuadrant.io',
  'kuma.io',
  'kubevirt.io',
  'linkerd.io',
  'openshift.io',
  'prometheus.io',
  'solo.io',
  'strimzi.io',
  'tekton.dev',
  // Restart workloads, or are exempted from admission by a label.
  'admissions.enforcer',
  'gatekeeper.sh',
  'pusher.com',
  'stakater.com',
]);

/** Labels and annotations without a domain: Grafana and its relatives load labelled Secrets of any namespace, and write them to any path. */
const KEYS: ReadonlySet<string> = new Set([
  'grafana_alert',
  'grafana_dashboard',
  'grafana_datasource',
  'grafana_folder',
  'grafana_notifier',
  'grafana_plugin',
  'k8s-sidecar-target-directory',
  'loki_rule',
]);

/** Prefixes of keys: of one-word names with a dot, and of the control plane. */
const PREFIXES = ['kubernetes.io/cluster-service', 'kubernetes.io/legacy-token-', 'olm.'];

function travels(key: string): boolean {
  return isCopied(key) && !KEYS.has(key) && !PREFIXES.some((prefix) => key.startsWith(prefix)) && !isObeyed(key);
}

/** Whether the domain of the key, or one above it, is in the list. */
function isObeyed(key: string): boolean {
  const slash = key.indexOf('/');
  if (slash < 0) return false;
  let domain = key.slice(0, slash);
  for (;;) {
    if (DOMAINS.has(domain)) return true;
    const dot = domain.indexOf('.');
    if (dot < 0) return false;
    domain = domain.slice(dot + 1);
  }
}

/** Helm takes a Secret with this label for a release: `helm uninstall` would delete what it lists, in any namespace. */
function isHelmRelease(key: string, value: string): boolean {
  return key === 'owner' && value === 'helm';
}

/** The part of labels or annotations that reaches another object. */
export function travelling(map: Readonly<Record<string, string>>): Record<string, string> {
  return copiedMetadata(map, (key, value) => travels(key) && !isHelmRelease(key, value));
}
