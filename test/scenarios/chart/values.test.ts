/**
 * Values that the chart shares with other charts: those of a parent chart, more containers, labels of the
 * ServiceAccount, the PodDisruptionBudget; and the descriptions that an editor shows.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, it } from 'node:test';

import { startControlPlane } from '../../servers/control-plane.ts';
import type { Json } from '../../support/api.ts';
import { CHART, helm, IMAGE, objectsIn, one, RELEASE, template, valueFlags } from './helm.ts';

const proxy = (name: string): Json => ({ name, image: `registry.example.com/${name}:1` });

async function render(values: Readonly<Record<string, unknown>>): Promise<Json[]> {
  return objectsIn(await template(values));
}

/** All Pods of the chart: that of the Deployment, and that of `helm test`. */
function podsOf(objects: readonly Json[]): Json[] {
  return [one(objects, 'Deployment').spec.template.spec, one(objects, 'Pod').spec];
}

/** The paths of all properties of a schema that have no description. */
function undescribed({ properties = {}, items }: Json, prefix = ''): string[] {
  const own = Object.entries<Json>(properties).flatMap(([name, property]) =>
    (property.description ? [] : [prefix + name]).concat(undescribed(property, `${prefix}${name}.`)),
  );
  return items === undefined ? own : own.concat(undescribed(items, `${prefix}[].`));
}

describe('the values of the chart', () => {
  it('every property in values.schema.json has a description', () => {
    const schema = JSON.parse(readFileSync(path.join(CHART, 'values.schema.json'), 'utf8'));
    assert.deepEqual(undescribed({ properties: { a: { properties: { b: {} } } } }), ['a', 'a.b']);
    assert.deepEqual(undescribed(schema), []);
  });

  it('a parent chart chooses the registry and the logins for it by `global`, for all Pods of the chart', async () => {
    const values = {
      global: { imageRegistry: 'mirror.example.com', imagePullSecrets: ['of-parent', { name: 'own' }], other: 1 },
      'image.registry': 'registry.example.com',
      imagePullSecrets: [{ name: 'own' }],
    };
    for (const pod of podsOf(await render(values))) {
      assert.match(pod.containers[0].image, /^mirror\.example\.com\/keyferry:/);
      assert.deepEqual(pod.imagePullSecrets, [{ name: 'own' }, { name: 'of-parent' }]);
    }
    for (const pod of podsOf(await render({}))) assert.equal(pod.imagePullSecrets, undefined);
  });

  it('extraContainers come after the container of Keyferry, which `kubectl exec` and `kubectl logs` choose', async () => {
    const objects = await render({ extraContainers: [proxy('proxy')], initContainers: [proxy('first')] });
    const { containers, initContainers } = one(objects, 'Deployment').spec.template.spec;
    assert.deepEqual(
      containers.map(({ name }: Json) => name),
      ['keyferry', 'proxy'],
    );
    assert.deepEqual(initContainers, [proxy('first')]);
  });

  it('the ServiceAccount has the labels of the values, beside those of the chart', async () => {
    const values = { 'serviceAccount.labels': { 'azure.workload.identity/use': 'true' } };
    const { labels } = one(await render(values), 'ServiceAccount').metadata;
    assert.equal(labels['azure.workload.identity/use'], 'true');
    assert.equal(labels['app.kubernetes.io/name'], 'keyferry');
  });

  it('the PodDisruptionBudget has maxUnavailable, or minAvailable in its place', async () => {
    const table: [Readonly<Record<string, unknown>>, Json][] = [
      [{}, { maxUnavailable: 1 }],
      [{ 'podDisruptionBudget.maxUnavailable': '50%' }, { maxUnavailable: '50%' }],
      [{ 'podDisruptionBudget.minAvailable': 0 }, { minAvailable: 0 }],
      [{ 'podDisruptionBudget.minAvailable': '50%' }, { minAvailable: '50%' }],
    ];
    for (const [values, expected] of table) {
      const { minAvailable, maxUnavailable } = one(await render(values), 'PodDisruptionBudget').spec;
      const found = { minAvailable, maxUnavailable };
      assert.deepEqual(JSON.parse(JSON.stringify(found)), expected, JSON.stringify(values));
    }
  });

  it('an API server accepts all of these values together', async () => {
    const plane = await startControlPlane({ controllerManager: false });
    try {
      const values = {
        ...IMAGE,
        global: { imageRegistry: 'mirror.example.com', imagePullSecrets: ['of-parent'] },
        extraContainers: [proxy('proxy')],
        initContainers: [{ ...proxy('sidecar'), restartPolicy: 'Always' }],
        'serviceAccount.labels': { team: 'platform' },
        'podDisruptionBudget.minAvailable': '50%',
      };
      const args = ['install', RELEASE, CHART, '--namespace=default', ...valueFlags(values)];
      const { code, stderr } = await helm(args, plane.kubeconfigPath);
      assert.equal(code, 0, stderr);
      const budget = `/apis/policy/v1/namespaces/default/poddisruptionbudgets/${RELEASE}`;
      assert.equal((await plane.api.get(budget)).spec.minAvailable, '50%');
    } finally {
      await plane.stop();
    }
  });
});
