import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Travel, type TravelConfig } from './travel.ts';

function travel(config: Partial<TravelConfig>): Travel {
  return new Travel({ propagateLabels: [], propagateAnnotations: [], ...config });
}

const ALL = travel({ propagateLabels: ['.*'], propagateAnnotations: ['.*'] });

const asMap = (keys: readonly string[]): Record<string, string> => Object.fromEntries(keys.map((key) => [key, 'x']));

test('by default, copies of SyncSecrets get no label and no annotation of the tenant', () => {
  const map = asMap(['app', 'secrets-webhook.security.bank-vaults.io/vault-addr', 'OWNER', 'example.com/note']);
  assert.deepEqual([travel({}).labels(map), travel({}).annotations(map)], [{}, {}]);
});

test('a label is copied only if a pattern for labels matches its whole key, an annotation only if one for annotations does', () => {
  const map = asMap(['app', 'myapp', 'app2', 'team.example.com/a', 'team.example.com/b', 'x']);
  const some = travel({ propagateLabels: ['app', 'team\\.example\\.com/.*'], propagateAnnotations: ['x'] });
  assert.deepEqual(Object.keys(some.labels(map)), ['app', 'team.example.com/a', 'team.example.com/b']);
  assert.deepEqual(Object.keys(some.annotations(map)), ['x']);
});

test('with the pattern .* all keys are copied as in KubeLB, except marks of copiers and last-applied-configuration', () => {
  const travelling = [
    'app',
    'app.kubernetes.io/instance',
    'cert-manager.io/allow-direct-injection',
    'postgres-operator.crunchydata.com/cluster',
    'constructor',
  ];
  const never = [
    'kubectl.kubernetes.io/last-applied-configuration',
    'keyferry.dev/origin',
    'keyferry.dev/anything',
    'kubelb.k8c.io/origin-name',
    'kubelb.k8c.io/managed-by',
    'mirrors.kts.studio/owned-by',
    'k8s-replicator/replicate-to',
    'any.prefix.example/replicate-to-namespaces',
    'replicate-to',
    'replicated-by',
    'replicator.v1.mittwald.de/replicate-to',
    'reflector.v1.k8s.emberstack.com/reflection-auto-enabled',
    'kubed.appscode.com/sync',
    'kubernetes.io/service-account.name',
  ];
  const map = asMap([...travelling, ...never]);
  for (const made of [ALL.labels(map), ALL.annotations(map)]) assert.deepEqual(made, asMap(travelling));
});

test('a SyncSecret gets the labels of its Secret that any copy gets, and those that an administrator allows', () => {
  const map = asMap(['app', 'app.kubernetes.io/instance', 'argocd.argoproj.io/instance', 'kubelb.k8c.io/managed-by']);
  assert.deepEqual(Object.keys(travel({}).labelsOfSecret(map)), ['app']);
  const some = travel({ propagateLabels: ['app\\.kubernetes\\.io/instance'] });
  assert.deepEqual(Object.keys(some.labelsOfSecret(map)), ['app', 'app.kubernetes.io/instance']);
});
