/**
 * Helm charts that take the place of the originals' charts. They have only the parts that a migration depends on:
 * names, labels, images, the CRD as a template, and the configurations of webhooks. The test clusters run no Pods.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { stringify } from 'yaml';

import { Reaper } from '../../servers/reaper.ts';

/** Writes a chart with these objects as its templates. @returns its folder */
export async function chartOf(name: string, templates: readonly object[]): Promise<string> {
  const folder = await Reaper.shared().temporaryFolder(`keyferry-chart-${name}-`);
  await mkdir(path.join(folder, 'templates'));
  await writeFile(path.join(folder, 'Chart.yaml'), stringify({ apiVersion: 'v2', name, version: '0.1.0' }));
  const text = templates.map((template) => stringify(template)).join('---\n');
  await writeFile(path.join(folder, 'templates/all.yaml'), text);
  return folder;
}

/** A Deployment with the labels that charts made by `helm create` have. */
export function deployment(name: string, image: string, release: string): object {
  const labels = { 'app.kubernetes.io/instance': release, 'app.kubernetes.io/name': name };
  const spec = { serviceAccountName: name, containers: [{ name: 'manager', image }] };
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name, labels },
    spec: { replicas: 1, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  };
}

/** The configuration of an admission webhook for SecretMirrors. Its Service does not exist. */
export function webhook(kind: 'Mutating' | 'Validating', name: string): object {
  return {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: `${kind}WebhookConfiguration`,
    metadata: { name },
    webhooks: [
      {
        name: `${kind.toLowerCase()}.kb.io`,
        admissionReviewVersions: ['v1'],
        sideEffects: 'None',
        failurePolicy: 'Fail',
        clientConfig: { service: { namespace: 'mirrors-system', name: 'mirrors-webhook-service', path: '/x' } },
        rules: [
          {
            apiGroups: ['mirrors.kts.studio'],
            apiVersions: ['v1alpha2'],
            operations: ['CREATE', 'UPDATE'],
            resources: ['secretmirrors'],
          },
        ],
      },
    ],
  };
}
