/**
 * Tests the SyncSecret CRD on a real API server. It says the same as KubeLB's CRD, so each can replace the other, with
 * all stored objects.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { parse } from 'yaml';

import { readCrd } from '../../../scripts/crd/read-crds.ts';
import { startControlPlane } from '../../servers/control-plane.ts';
import type { ControlPlane } from '../../servers/control-plane.ts';
import type { Json, TestApi } from '../../support/api.ts';

const DEFINITION = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/syncsecrets.kubelb.k8c.io';
const MANIFESTS = new URL('manifests/', import.meta.url);
const theirs: Json = parse(readFileSync(new URL('kubelb-crd.yaml', import.meta.url), 'utf8'));
const ours: Json = parse(readCrd('syncsecrets'));

let server: ControlPlane;
let api: TestApi;

before(async () => {
  server = await startControlPlane({ controllerManager: false, crds: true });
  api = server.api;
});
after(() => server.stop());

describe('the SyncSecret CRD', () => {
  it('the API server establishes the SyncSecret CRD without a complaint about its schema', async () => {
    const types = (await api.get(DEFINITION)).status.conditions.map((one: Json) => one.type);
    assert.deepEqual(types.sort(), ['Established', 'NamesAccepted'], 'NonStructuralSchema would stand here');
  });

  it('the SyncSecret CRDs of Keyferry and KubeLB have the same names, versions, columns and schema', () => {
    const conversion = { strategy: 'None' };
    assert.deepEqual(withoutTexts(ours.spec), withoutTexts({ ...theirs.spec, conversion }));
  });

  for (const file of readdirSync(MANIFESTS)) {
    it(`the SyncSecret CRD accepts the manifest ${file}`, async () => {
      const object: Json = parse(readFileSync(new URL(file, MANIFESTS), 'utf8'));
      await api.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: object.metadata.namespace } });
      const stored = await api.call('PATCH', await api.pathOf(object), {
        body: object,
        contentType: 'application/apply-patch+yaml',
        query: { fieldManager: file, force: true, fieldValidation: 'Strict' },
      });
      for (const field of ['type', 'data', 'stringData']) assert.deepEqual(stored[field], object[field]);
      assert.equal(await api.delete(await api.pathOf(object)), true);
    });
  }
});

/**
 * Prepares a schema for comparison: removes descriptions, sorts lists of required fields, and writes equivalent
 * patterns in one form.
 */
function withoutTexts(node: Json): Json {
  if (Array.isArray(node)) return node.map(withoutTexts);
  if (typeof node !== 'object' || node === null) return typeof node === 'string' ? node.replaceAll('\\/', '/') : node;
  return Object.fromEntries(
    Object.entries<Json>(node)
      .filter(([key, value]) => key !== 'description' || typeof value !== 'string')
      .map(([key, value]) => [key, key === 'required' ? value.toSorted() : withoutTexts(value)]),
  );
}
