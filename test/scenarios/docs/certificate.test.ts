/**
 * Follows docs/wildcard-certificate.md from top to bottom. The test does what cert-manager does: it applies the Secret of a
 * Certificate on the server side, with the annotations of its `secretTemplate`, and without those that left the template.
 * https://cert-manager.io/docs/usage/certificate/#creating-certificate-resources
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { parse, parseAllDocuments } from 'yaml';

import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { codeBlocks } from '../../support/markdown.ts';
import { waitFor } from '../../support/wait-for.ts';
import { Shell, stepsOf } from './shell.ts';

const PAGE = new URL('../../../docs/wildcard-certificate.md', import.meta.url);
const BLOCKS = codeBlocks(readFileSync(PAGE, 'utf8'));
/** The `secretTemplate` of each copier on the page. All of them select `team-a`. */
const TEMPLATES = BLOCKS.filter(({ mark }) => mark === 'fragment').map(
  ({ text }) => parse(text).spec.secretTemplate.annotations as Record<string, string>,
);
/** The field manager, the label and the annotations of cert-manager. */
const CERT_MANAGER = 'cert-manager-certificates-issuing';
const OWN_LABELS = { 'controller.cert-manager.io/fao': 'true' };
const OWN_ANNOTATIONS = { 'cert-manager.io/issuer-name': 'letsencrypt', 'cert-manager.io/alt-names': '*.example.com' };
/** Keyferry reads no Certificates, so any schema will do. */
const CERTIFICATES = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'certificates.cert-manager.io' },
  spec: {
    group: 'cert-manager.io',
    names: { kind: 'Certificate', listKind: 'CertificateList', plural: 'certificates', singular: 'certificate' },
    scope: 'Namespaced',
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
};

const resources = new AsyncDisposableStack();
let plane: ControlPlane;

before(async () => {
  plane = await startControlPlane({ controllerManager: false, crds: true });
  resources.defer(() => plane.stop());
  await plane.api.apply([CERTIFICATES]);
  const args = ['--controllers=mirrors,replicator,reflector,mittwald,config-syncer'];
  const keyferry = resources.use(await Keyferry.start({ kubeconfig: plane.kubeconfigPath, args }));
  await keyferry.ready();
});
after(() => resources.disposeAsync());

/** What cert-manager does when it issues or renews a certificate, and when its template changes. */
async function issue(name: string, certificate: string, annotations: Record<string, string> = {}): Promise<void> {
  const bytes = Buffer.from(certificate).toString('base64');
  const metadata = {
    namespace: 'certificates',
    name,
    labels: OWN_LABELS,
    annotations: { ...OWN_ANNOTATIONS, ...annotations },
  };
  const data = { 'tls.crt': bytes, 'tls.key': bytes };
  await plane.api.apply(
    [{ apiVersion: 'v1', kind: 'Secret', type: 'kubernetes.io/tls', metadata, data }],
    CERT_MANAGER,
  );
}

async function has(place: string, certificate: string | undefined): Promise<void> {
  const [namespace = '', name = ''] = place.split('/');
  await waitFor(
    async () => {
      const copy = await plane.api.find(`/api/v1/namespaces/${namespace}/secrets/${name}`);
      if (copy === undefined) return certificate === undefined;
      if (certificate === undefined) return false;
      const marks = Object.keys({ ...copy.metadata.labels, ...copy.metadata.annotations });
      assert.deepEqual(
        marks.filter((key) => key.includes('cert-manager.io')),
        [],
      );
      return Buffer.from(copy.data['tls.crt'], 'base64').toString() === certificate;
    },
    { message: `${place} to have the certificate ${certificate}` },
  );
}

describe('docs/wildcard-certificate.md', () => {
  it('the manifests and commands of the page bring the certificate to the namespace of the Ingress, and renewals follow', async () => {
    const shell = new Shell(plane, {});
    for (const { language, mark, text } of BLOCKS) {
      if (mark === 'fragment') continue;
      if (language === 'console') for (const step of stepsOf(text)) await shell.run(step);
      if (language !== 'yaml') continue;
      const objects = parseAllDocuments(text).map((document) => document.toJS());
      await plane.api.apply(objects);
      const certificate = objects.find(({ kind }) => kind === 'Certificate');
      if (certificate !== undefined) await issue(certificate.spec.secretName, 'first');
    }
    await issue('wildcard-example-com', 'renewed');
    await has('web/wildcard-example-com', 'renewed');
    await plane.api.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'web' } }], 'test');
    await shell.run({ command: 'kubectl label namespace web example.com/tls-', shown: '' });
    await has('web/wildcard-example-com', undefined);
  });

  it('the page has a template for each controller of annotations', () => {
    assert.equal(TEMPLATES.length, 4);
  });

  for (const [index, template] of TEMPLATES.entries()) {
    const [first = ''] = Object.keys(template);
    it(`copies come with ${first} in the template of the Certificate, follow its renewal, and go with the template`, async () => {
      const name = `certificate-${index}`;
      const namespaces = ['certificates', 'team-a'].map((one) => ({
        apiVersion: 'v1',
        kind: 'Namespace',
        metadata: { name: one, ...(one === 'team-a' ? { labels: { team: 'a' } } : {}) },
      }));
      await plane.api.apply(namespaces);
      await issue(name, 'first', template);
      await has(`team-a/${name}`, 'first');
      await issue(name, 'renewed', template);
      await has(`team-a/${name}`, 'renewed');
      await issue(name, 'renewed');
      await has(`team-a/${name}`, undefined);
      await issue(name, 'renewed', template);
      await has(`team-a/${name}`, 'renewed');
    });
  }
});

failOnLeaks();
