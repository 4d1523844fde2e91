import assert from 'node:assert/strict';
import { test } from 'node:test';

import { travelling } from './travel.ts';

/** Keys by what they would do in the management cluster. The scenario of hostile tenants has those of mirrors and replicator. */
const OBEYED: Readonly<Record<string, readonly string[]>> = {
  'copies to other namespaces': [
    'k8s-replicator/replicate-to',
    'any.prefix.example/replicate-to-namespaces',
    'replicate-to',
    'replicator.v1.mittwald.de/replicate-to',
    'reflector.v1.k8s.emberstack.com/reflection-auto-enabled',
    'kubed.appscode.com/sync',
    'hnc.x-k8s.io/inherited-from',
    'synator/sync',
    'clustersecret.io/last-sync',
  ],
  'fills the Secret with what the tenant must not have': [
    'kubernetes.io/service-account.name',
    'serviceaccount.resources.gardener.cloud/name',
    'secretgen.carvel.dev/image-pull-secret',
    'k8s-replicator/replicate-from',
  ],
  'deletes or overwrites it, or what it names': [
    'argocd.argoproj.io/tracking-id',
    'app.kubernetes.io/instance',
    'app.kubernetes.io/managed-by',
    'meta.helm.sh/release-name',
    'helm.sh/resource-policy',
    'kustomize.toolkit.fluxcd.io/prune',
    'cleanup.kyverno.io/ttl',
    'kapp.k14s.io/app',
    'applyset.kubernetes.io/part-of',
    'addonmanager.kubernetes.io/mode',
    'janitor/ttl',
    'olm.owner',
    'mirrors.kts.studio/owned-by',
  ],
  'is trusted': [
    'argocd.argoproj.io/secret-type',
    'cert-manager.io/allow-direct-injection',
    'istio/multiCluster',
    'authorino.kuadrant.io/managed-by',
    'konghq.com/ca-cert',
    'jenkins.io/credentials-type',
    'sealedsecrets.bitnami.com/sealed-secrets-key',
    'grafana_datasource',
    'k8s-sidecar-target-directory',
    'admissions.enforcer/disabled',
  ],
  'is a mark of Keyferry or KubeLB, or holds values': [
    'keyferry.dev/origin',
    'keyferry.dev/target',
    'keyferry.dev/anything',
    'kubelb.k8c.io/origin-name',
    'kubelb.k8c.io/managed-by',
    'kubectl.kubernetes.io/last-applied-configuration',
  ],
};

for (const [what, keys] of Object.entries(OBEYED)) {
  test(`a key that ${what} does not travel`, () => {
    assert.deepEqual(travelling(Object.fromEntries(keys.map((key) => [key, 'true']))), {});
  });
}

test('all others travel', () => {
  const map = {
    app: 'web',
    owner: 'team-a',
    'app.kubernetes.io/name': 'web',
    'app.kubernetes.io/part-of': 'shop',
    'example.com/note': 'cert-manager.io/x',
    'notcert-manager.io/note': 'x',
    'com/note': 'x',
    constructor: 'x',
    'kubernetes.io/description': 'x',
  };
  assert.deepEqual(travelling(map), map);
});

test('the label of a Helm release does not travel', () => {
  assert.deepEqual(travelling({ owner: 'helm', name: 'web' }), { name: 'web' });
});
