/**
 * The labels and annotations that reach another object. A tenant writes them, so none may travel that a controller in the management
 * cluster obeys: with `k8s-replicator/replicate-to` a tenant would write into every namespace.
 */
import { lengthProblem } from '../../copy/model/observed.ts';
import { isCopied } from '../common/excluded-metadata.ts';

/** Prefixes of controllers that read labels or annotations of Secrets, besides those of `isCopied`. */
const PREFIXES = [
  'acme.cert-manager.io/',
  'alpha.jetstack.io/',
  'apps.open-cluster-management.io/',
  'backup.velero.io/',
  'cert-manager.io/',
  'certmanager.k8s.io/',
  'cluster.open-cluster-management.io/',
  'cluster.x-k8s.io/',
  'clusterctl.cluster.x-k8s.io/',
  'configmap.reloader.stakater.com/',
  'controller.cert-manager.io/',
  'external-secrets.io/',
  'fleet.cattle.io/',
  'generators.external-secrets.io/',
  'image.toolkit.fluxcd.io/',
  'istio.io/',
  'kapp.k14s.io/',
  'kubevirt.io/',
  'kyverno.io/',
  'networking.istio.io/',
  'notification.toolkit.fluxcd.io/',
  'objectset.rio.cattle.io/',
  'operator.prometheus.io/',
  'policies.kyverno.io/',
  'projectcapsule.dev/',
  'reconcile.external-secrets.io/',
  'reconcile.fluxcd.io/',
  'reloader.stakater.com/',
  'replicator.kyverno.io/',
  'sealedsecrets.bitnami.com/',
  'secret.reloader.stakater.com/',
  'secretgen.carvel.dev/',
  'secrets.hashicorp.com/',
  'secrets-store.csi.k8s.io/',
  'source.toolkit.fluxcd.io/',
  'vault.hashicorp.com/',
  'vault.security.banzaicloud.io/',
  'velero.io/',
];

export function travels(key: string): boolean {
  return isCopied(key) && !PREFIXES.some((prefix) => key.startsWith(prefix));
}

/** The part of labels or annotations that reaches another object. Values that are too long to be kept do not. */
export function travelling(map: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(map).filter(([key, value]) => travels(key) && lengthProblem(value) === undefined);
  return Object.fromEntries(entries);
}
