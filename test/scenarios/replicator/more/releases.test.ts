/**
 * Typed Secrets in a chart or manifest that is applied again and again: with Helm 3, with Helm 4, and with `kubectl
 * apply --server-side`. The recipe is that of docs/replicator.md: the release has placeholders, and its object both
 * pulls and pushes.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { isDeepStrictEqual, promisify } from 'node:util';
import { stringify } from 'yaml';

import { ensureServer } from '../../../servers/ensure.ts';
import { Reaper } from '../../../servers/reaper.ts';
import type { Json } from '../../../support/api.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { helm } from '../../chart/helm.ts';
import { annotate, ReplicatorScene } from '../support.ts';

const run = promisify(execFile);
/** For each type of Secret: the content of the source, and placeholders that the API server accepts. */
const TYPES: readonly (readonly [string, Record<string, string>, Record<string, string>])[] = [
  ['kubernetes.io/tls', { 'tls.crt': 'certificate', 'tls.key': 'key' }, { 'tls.crt': '', 'tls.key': '' }],
  ['kubernetes.io/dockerconfigjson', { '.dockerconfigjson': '{"auths":{}}' }, { '.dockerconfigjson': '{}' }],
  ['kubernetes.io/basic-auth', { username: 'ann', password: 'one' }, { username: '', password: '' }],
];

let scene: ReplicatorScene;
let folder: string;
before(async () => {
  scene = await ReplicatorScene.open({ controllerManager: false });
  folder = await Reaper.shared().temporaryFolder('keyferry-releases-');
  await scene.api.createNamespaces(['platform', 'web']);
  await scene.operator();
});
after(() => scene.close());

const encoded = (values: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(values).map(([key, text]) => [key, Buffer.from(text).toString('base64')]));
const pathOf = (namespace: string, name: string): string => `/api/v1/namespaces/${namespace}/secrets/${name}`;

async function source(name: string, type: string, values: Readonly<Record<string, string>>): Promise<void> {
  const metadata = { namespace: 'platform', name, annotations: annotate({ 'replication-allowed-namespaces': 'web' }) };
  await scene.api.create({ apiVersion: 'v1', kind: 'Secret', metadata, type, data: encoded(values) });
}

/** Waits until a Secret has exactly these values. */
async function holds(name: string, values: Readonly<Record<string, string>>): Promise<Json> {
  return await waitFor(async () => {
    const found = await scene.api.find(pathOf('web', name));
    return isDeepStrictEqual(found?.data, encoded(values)) && found;
  });
}

/** A Secret of a release, whose number is in a label. */
function released(name: string, release: number, annotations: Json, more: Json = {}): Json {
  const metadata = { namespace: 'web', name, labels: { release: String(release) }, annotations };
  return { apiVersion: 'v1', kind: 'Secret', metadata, ...more };
}

async function applyOnServer(object: Json): Promise<void> {
  const file = path.join(folder, `${object.metadata.name}.yaml`);
  await writeFile(file, stringify(object));
  const args = ['apply', '--server-side', '--kubeconfig', scene.plane.kubeconfigPath, '-f', file];
  await run(await ensureServer('kubectl'), args);
}

/** Installs or upgrades a release with this one object. */
async function release(object: Json, program: 'helm' | 'helm-4'): Promise<void> {
  const { name } = object.metadata;
  const chart = path.join(folder, name);
  await mkdir(path.join(chart, 'templates'), { recursive: true });
  await writeFile(path.join(chart, 'Chart.yaml'), stringify({ apiVersion: 'v2', name: 'app', version: '1.0.0' }));
  await writeFile(path.join(chart, 'templates/secret.yaml'), stringify(object));
  const answer = await helm(
    ['upgrade', '--install', name, chart, '--namespace=web'],
    scene.plane.kubeconfigPath,
    program,
  );
  assert.equal(answer.code, 0, answer.stderr);
}

const TOOLS: readonly (readonly [string, string, (object: Json) => Promise<void>])[] = [
  ['kubectl apply --server-side', 'kubectl', applyOnServer],
  ['Helm 3', 'helm-3', async (object) => await release(object, 'helm')],
  ['Helm 4', 'helm-4', async (object) => await release(object, 'helm-4')],
];

describe('a typed Secret of a release that is filled from another Secret', () => {
  for (const [tool, short, apply] of TOOLS) {
    for (const [type, values, placeholders] of TYPES) {
      it(`with ${tool}, the second release changes no ${type} Secret that the first one asked for`, async () => {
        const name = `${short}-${type.split('/')[1]}`;
        await source(name, type, values);
        const annotations = annotate({ 'replicate-from': `platform/${name}`, 'replicate-to': `${name}-copy` });
        const more = { type, data: encoded(placeholders) };
        await apply(released(name, 1, annotations, more));
        const first = await holds(`${name}-copy`, values);
        assert.equal(first.type, type);
        await apply(released(name, 2, annotations, more));
        const now = await scene.api.get(pathOf('web', name));
        assert.equal(now.metadata.labels.release, '2');
        assert.deepEqual(now.data, encoded(placeholders), 'the release has its own object to itself');
        const copy = await scene.api.get(pathOf('web', `${name}-copy`));
        assert.equal(copy.metadata.uid, first.metadata.uid);
        assert.deepEqual(copy.data, encoded(values));
        const [key = ''] = Object.keys(values);
        const next = { ...values, [key]: type.endsWith('json') ? '{"auths":{"a":{}}}' : 'another' };
        await scene.api.patch(pathOf('platform', name), { data: encoded(next) });
        await holds(`${name}-copy`, next);
      });
    }

    it(`with ${tool}, an Opaque Secret without data is filled, and stays filled after the next release`, async () => {
      const name = `${short}-opaque`;
      await source(name, 'Opaque', { a: 'one' });
      const annotations = annotate({ 'replicate-from': `platform/${name}` });
      await apply(released(name, 1, annotations));
      const { metadata } = await holds(name, { a: 'one' });
      await apply(released(name, 2, annotations));
      const now = await scene.api.get(pathOf('web', name));
      assert.deepEqual([now.metadata.uid, now.metadata.labels.release], [metadata.uid, '2']);
      assert.deepEqual(now.data, encoded({ a: 'one' }));
    });
  }

  it('with placeholders in the object that is filled itself, the second server-side release ends with conflicts', async () => {
    const [[type, values, placeholders] = ['', {}, {}]] = TYPES;
    await source('direct', type, values);
    const annotations = annotate({ 'replicate-from': 'platform/direct' });
    const more = { type, data: encoded(placeholders) };
    await applyOnServer(released('direct', 1, annotations, more));
    await holds('direct', values);
    await assert.rejects(applyOnServer(released('direct', 2, annotations, more)), /conflicts? with "keyferry"/);
  });
});
