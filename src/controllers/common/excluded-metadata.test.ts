import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isCopied, isMark, isTravelling } from './excluded-metadata.ts';

/** Keys of labels and annotations, grouped by the damage that a key would do on a copy. */
const EXCLUDED: Readonly<Record<string, readonly string[]>> = {
  'makes a copier copy the object': [
    'k8s-replicator/replicate-to',
    'any.prefix.example/replicate-to-namespaces',
    'replicate-to',
    'replicator.v1.mittwald.de/replicate-to',
    'reflector.v1.k8s.emberstack.com/reflection-auto-enabled',
    'kubed.appscode.com/sync',
    'hnc.x-k8s.io/inherited-from',
    'synator/sync',
    'clustersecret.io/last-sync',
    'field.cattle.io/projectId',
    'skupper.io/type',
  ],
  'makes a controller fill the object with other content': [
    'kubernetes.io/service-account.name',
    'serviceaccount.resources.gardener.cloud/name',
    'secretgen.carvel.dev/image-pull-secret',
    'k8s-replicator/replicate-from',
    'secrets-webhook.security.bank-vaults.io/vault-addr',
    'cert-utils-operator.redhat-cop.io/generate-java-keystores',
    'vault.security.banzaicloud.io/vault-role',
  ],
  'makes a tool delete or overwrite objects': [
    'argocd.argoproj.io/tracking-id',
    'app.kubernetes.io/instance',
    'app.kubernetes.io/managed-by',
    'meta.helm.sh/release-name',
    'helm.sh/resource-policy',
    'kustomize.toolkit.fluxcd.io/prune',
    'cleanup.kyverno.io/ttl',
    'kapp.k14s.io/app',
    'kluctl.io/discriminator',
    'kopf.zalando.org/last-handled-configuration',
    'applyset.kubernetes.io/part-of',
    'addonmanager.kubernetes.io/mode',
    'janitor/ttl',
    'olm.owner',
    'mirrors.kts.studio/owned-by',
    'reconcile.external-secrets.io/managed',
  ],
  'makes a controller trust or use the object': [
    'argocd.argoproj.io/secret-type',
    'cert-manager.io/allow-direct-injection',
    'controller.cert-manager.io/fao',
    'strimzi.io/cluster',
    'postgres-operator.crunchydata.com/cluster',
    'istio/multiCluster',
    'authorino.kuadrant.io/managed-by',
    'konghq.com/ca-cert',
    'jenkins.io/credentials-type',
    'sealedsecrets.bitnami.com/sealed-secrets-key',
    'sealedsecrets.bitnami.com/managed',
    'grafana_datasource',
    'alertmanager_config',
    'k8s-sidecar-target-directory',
    'admissions.enforcer/disabled',
  ],
  'is a mark of Keyferry or KubeLB, or contains values': [
    'keyferry.dev/origin',
    'keyferry.dev/target',
    'keyferry.dev/anything',
    'kubelb.k8c.io/origin-name',
    'kubelb.k8c.io/managed-by',
    'kubectl.kubernetes.io/last-applied-configuration',
  ],
};

for (const [what, keys] of Object.entries(EXCLUDED)) {
  test(`a label or annotation that ${what} is not copied`, () => {
    assert.deepEqual(
      keys.filter((key) => isCopied(key)),
      [],
    );
  });
}

test('labels and annotations that no copier or controller obeys are copied', () => {
  const keys = [
    'app',
    'app.kubernetes.io/name',
    'app.kubernetes.io/part-of',
    'example.com/note',
    'notcert-manager.io/note',
    'com/note',
    'constructor',
    'kubernetes.io/description',
  ];
  assert.deepEqual(
    keys.filter((key) => !isCopied(key)),
    [],
  );
});

test('the label owner is not copied if its value is helm, nor OWNER if its value is TILLER (records of Helm releases)', () => {
  const copied = (key: string, value: string): boolean => isCopied(key, value);
  assert.deepEqual(
    [copied('owner', 'helm'), copied('OWNER', 'TILLER'), copied('owner', 'team-a')],
    [false, false, true],
  );
});

test('isMark compares the whole prefix or name of a key: keyferry.dev/copy is a mark, x.keyferry.dev/copy is not', () => {
  const last = 'kubectl.kubernetes.io/last-applied-configuration';
  const marks = [
    'keyferry.dev/copy',
    'a.example/replicated-by',
    'replicate-to',
    'kubernetes.io/service-account.name',
    last,
  ];
  const others = ['keyferry.dev', 'a/replicate-to-x', 'mirrorsxkts.studio/a', `${last}x`, 'x.keyferry.dev/copy', 'app'];
  assert.deepEqual(
    [...marks, ...others].filter((key) => isMark(key)),
    marks,
  );
});

test('where all labels and annotations travel, those stay behind that make a program copy, fill, deploy or prune the object', () => {
  const usable = new Set(EXCLUDED['makes a controller trust or use the object']);
  for (const key of ['cert-manager.io/allow-direct-injection', 'controller.cert-manager.io/fao']) usable.delete(key);
  for (const key of usable) if (/sealedsecrets/.test(key)) usable.delete(key);
  for (const key of Object.values(EXCLUDED).flat()) assert.equal(isTravelling(key), usable.has(key), key);
  for (const key of ['grafana_dashboard', 'argocd.argoproj.io/secret-type', 'reloader.stakater.com/match', 'team'])
    assert.ok(isTravelling(key), key);
  assert.ok(!isTravelling('argocd.argoproj.io/instance') && !isTravelling('owner', 'helm'));
});
