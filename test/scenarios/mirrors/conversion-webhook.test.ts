/**
 * The CRD of the original's Helm chart names a conversion webhook, but no server answers at its address. So no client
 * can read an object that is stored as v1alpha1.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, afterEach, before, it } from 'node:test';
import { parse } from 'yaml';

import { readCrd } from '../../../scripts/crd/read-crds.ts';
import { startControlPlane } from '../../servers/control-plane.ts';
import type { FaultProxy } from '../../servers/fault-proxy.ts';
import { proxied } from '../../servers/proxied.ts';
import type { Json } from '../../support/api.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { waitFor } from '../../support/wait-for.ts';
import { HOME, MirrorScene } from './support.ts';

const NAME = 'secretmirrors.mirrors.kts.studio';
const DEFINITIONS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
const DEFINITION = `${DEFINITIONS}/${NAME}`;
const ALL = '/apis/mirrors.kts.studio/v1alpha2/secretmirrors';
const FIRST = `/apis/mirrors.kts.studio/v1alpha1/namespaces/${HOME}/secretmirrors`;
const HELM = { fieldManager: 'helm' };
const keyferryCrd: Json = parse(readCrd('secretmirrors'));
/** Removes the conversion webhook from the CRD, by the patch in docs/mirrors.md. */
const UNHOOK = [{ op: 'replace', path: '/spec/conversion', value: { strategy: 'None' } }];

let scene: MirrorScene;
let proxy: FaultProxy;
let kubeconfig: string;

/** The commands by which a user can replace the original's CRD with Keyferry's. */
const WAYS: Readonly<Record<string, () => Promise<{ status: number; body: Json }>>> = {
  'server-side apply': () =>
    scene.api.raw('PATCH', DEFINITION, {
      body: keyferryCrd,
      contentType: 'application/apply-patch+yaml',
      query: { fieldManager: 'kubectl', force: 'true' },
    }),
  'client-side apply': () =>
    scene.api.raw('PATCH', DEFINITION, { body: keyferryCrd, contentType: 'application/merge-patch+json' }),
};

const installHelmCrd = async (): Promise<void> => {
  const chart: Json = parse(readFileSync(new URL('helm-crd.yaml', import.meta.url), 'utf8'));
  // After each change of a CRD, the API server writes its status.
  await waitFor(
    async () => {
      const { resourceVersion } = (await scene.api.get(DEFINITION)).metadata;
      const body = { ...chart, metadata: { ...chart.metadata, resourceVersion } };
      return (await scene.api.raw('PUT', DEFINITION, { body, query: HELM })).status === 200;
    },
    { message: 'the CRD of the chart' },
  );
};

before(async () => {
  const plane = await startControlPlane({ controllerManager: false });
  scene = new MirrorScene(plane);
  ({ proxy, kubeconfig } = await proxied(plane));
  // An earlier release of the original stored v1alpha1.
  const earlier: Json = parse(readFileSync(new URL('helm-crd.yaml', import.meta.url), 'utf8'));
  delete earlier.spec.conversion;
  for (const version of earlier.spec.versions) version.storage = version.name === 'v1alpha1';
  await scene.api.call('POST', DEFINITIONS, { body: earlier, query: HELM });
  const first = {
    apiVersion: 'mirrors.kts.studio/v1alpha1',
    kind: 'SecretMirror',
    metadata: { name: 'first', namespace: HOME },
    spec: { source: { name: 'first' }, destination: { namespaceRegex: 'team-.+' } },
  };
  await waitFor(async () => (await scene.api.raw('POST', FIRST, { body: first })).status === 201, {
    message: 'an object stored as v1alpha1',
  });
  await installHelmCrd();
  await waitFor(async () => (await scene.api.raw('GET', ALL, { query: { limit: 1 } })).status === 500, {
    message: 'the list to fail',
  });
  await scene.namespaces('team-a');
});
afterEach(() => proxy.clearRules());
after(async () => {
  await proxy.stop();
  await scene.close();
});

for (const [way, apply] of Object.entries(WAYS)) {
  it(`${way} of Keyferry's CRD is refused with 422 while the installed CRD has a conversion webhook`, async () => {
    const { status, body } = await apply();
    assert.equal(status, 422, JSON.stringify(body));
    assert.match(body.message, /spec\.conversion\.webhookClientConfig: Forbidden/);
  });
}

for (const [title, fault] of [
  ['gives the reason', undefined],
  ['gives no reason', 'storage is (re)initializing'],
] as const) {
  it(`if the conversion webhook is unreachable and the server ${title}, log and /readyz give the fix, and annotated Secrets are copied`, async () => {
    if (fault !== undefined) {
      const body = { kind: 'Status', status: 'Failure', reason: 'TooManyRequests', message: fault, code: 429 };
      const headers = { 'retry-after': '1' };
      proxy.rule({
        match: { path: /\/secretmirrors\?/ },
        fault: { kind: 'respond', status: 429, headers, body },
      });
    }
    await using keyferry = await Keyferry.start({ kubeconfig });
    const name = fault === undefined ? 'with-reason' : 'without-reason';
    await scene.secret(
      HOME,
      name,
      { a: '1' },
      { metadata: { annotations: { 'k8s-replicator/replicate-to-namespaces': 'team-a' } } },
    );
    const command =
      /kubectl patch crd secretmirrors\.mirrors\.kts\.studio --type json -p '.*"path":"\/spec\/conversion"/;
    await waitFor(async () => command.test((await keyferry.probe('/readyz')).text), { message: () => keyferry.output });
    assert.equal(await keyferry.isReady(), false);
    const isAdvice = ({ advice, watch }: Json): boolean => advice !== undefined && watch !== undefined;
    const advised = await waitFor(() => keyferry.logs().find((line) => isAdvice(line)), {
      message: () => keyferry.output,
    });
    assert.match(advised?.advice, command);
    assert.equal(advised.watch, 'secretmirrors');
    await waitFor(async () => (await scene.find('team-a', name))?.data?.a === scene.value('1'), {
      message: () => `the copy of the replicator; ${keyferry.output}`,
    });
  });
}

it('after the conversion webhook is removed, a mirror stored as v1alpha1 can be read with its v1alpha1 pattern', async () => {
  await scene.api.patch(DEFINITION, UNHOOK, 'json');
  const first = await waitFor(async () => (await scene.api.raw('GET', `${FIRST}/first`)).body, {
    message: 'the mirror',
  });
  assert.deepEqual(first.spec, { source: { name: 'first' }, destination: { namespaceRegex: 'team-.+' } });
  await installHelmCrd();
});

it("after the conversion webhook is removed, every way to install Keyferry's CRD works, and a running operator needs no restart", async () => {
  await using keyferry = await Keyferry.start({ kubeconfig });
  await waitFor(() => keyferry.logs().some(({ advice }) => advice !== undefined), { message: () => keyferry.output });
  for (const [way, apply] of Object.entries(WAYS)) {
    await installHelmCrd();
    await scene.api.patch(DEFINITION, UNHOOK, 'json');
    const { status, body } = await apply();
    assert.equal(status, 200, `${way}: ${JSON.stringify(body)}`);
    assert.deepEqual(body.spec.conversion, { strategy: 'None' }, way);
  }
  await keyferry.ready();
  assert.deepEqual(
    (await scene.api.list(ALL)).map(({ metadata }) => metadata.name),
    ['first'],
  );
  await scene.secret(HOME, 'second', { a: '1' });
  await scene.mirror('second', ['team-a']);
  await scene.copied('team-a', 'second', { a: '1' });
});
