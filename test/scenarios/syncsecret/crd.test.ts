/**
 * Tests the SyncSecret CRD on a real API server: Keyferry's CRD and KubeLB's CRD can replace each other, with all
 * stored objects.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { parse } from 'yaml';

import { readCrd } from '../../../scripts/crd/read-crds.ts';
import { startControlPlane } from '../../servers/control-plane.ts';
import type { ControlPlane } from '../../servers/control-plane.ts';
import type { Json, TestApi } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';

const DEFINITION = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/syncsecrets.kubelb.k8c.io';
const SYNC_SECRETS = '/apis/kubelb.k8c.io/v1alpha1/namespaces/default/syncsecrets';
const OPENAPI = '/openapi/v3/apis/kubelb.k8c.io/v1alpha1';
const MANIFESTS = new URL('manifests/', import.meta.url);
const TABLE = { accept: 'application/json;as=Table;g=meta.k8s.io;v=v1' };
const theirs: Json = parse(readFileSync(new URL('kubelb-crd.yaml', import.meta.url), 'utf8'));
const ours: Json = parse(readCrd('syncsecrets'));
const TIME = '2026-01-01T00:00:00Z';
const MIB = 1024 * 1024;

const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** Contents of SyncSecrets that KubeLB's CRD accepts. */
const CONTENTS: Readonly<Record<string, Json>> = {
  nothing: {},
  'no-keys': { data: {}, stringData: {} },
  'empty-values': { stringData: { a: '' }, type: '' },
  'any-key': {
    data: { 'a\nb': base64('1'), 'a,b': base64('2'), 'a/b': base64('3'), ['__proto__']: base64('4'), '': base64('5') },
    stringData: { ['k'.repeat(300)]: '6', ['constructor']: '7' },
  },
  'both-fields': { data: { a: base64('1') }, stringData: { a: '2' } },
  'stray-bits': { data: { a: 'YR==' } },
  large: { stringData: { a: 'x'.repeat(MIB) } },
  'any-type': { type: 'not a type: \u{1f511}', immutable: true },
  'token-type': { type: 'kubernetes.io/service-account-token', immutable: false },
  'tls-without-key': { type: 'kubernetes.io/tls', data: { 'tls.crt': base64('certificate') } },
};

/** Statuses that KubeLB's CRD accepts. */
const STATUSES: Readonly<Record<string, Json>> = {
  'no-status': {},
  'any-phase': { phase: 'Weird phase', observedGeneration: -7 },
  'same-type-twice': {
    conditions: [condition('Synced', 'True'), condition('Synced', 'False'), condition('a.b/Other', 'Unknown')],
  },
  'long-condition': {
    conditions: [{ ...condition('T'.repeat(316), 'True'), reason: 'R'.repeat(1024), message: 'm'.repeat(32_768) }],
  },
};

let server: ControlPlane;
let api: TestApi;

before(async () => {
  server = await startControlPlane({ controllerManager: false });
  api = server.api;
});
after(() => server.stop());

function condition(type: string, status: string): Json {
  return { type, status, reason: 'SyncFailed', message: '', lastTransitionTime: TIME, observedGeneration: 0 };
}

function syncSecret(name: string, fields: Json): Json {
  return {
    apiVersion: 'kubelb.k8c.io/v1alpha1',
    kind: 'SyncSecret',
    metadata: { name, namespace: 'default', finalizers: ['kubelb.k8c.io/cleanup'] },
    ...fields,
  };
}

/**
 * Applies a CRD and waits until the server uses it. The description of `data` in the server's OpenAPI shows which CRD
 * it uses.
 */
async function install(definition: Json): Promise<void> {
  await api.apply(definition);
  const { description } = schemaOf(definition).properties.data;
  await waitFor(
    async () => {
      const { components } = await api.get(OPENAPI);
      const served = Object.entries<Json>(components.schemas).find(([name]) => name.endsWith('.SyncSecret'))?.[1];
      return served !== undefined && served.properties.data.description === description;
    },
    { message: 'the definition to be in force' },
  );
}

const schemaOf = (definition: Json): Json => definition.spec.versions[0].schema.openAPIV3Schema;

const objects: readonly Json[] = [
  ...Object.entries(CONTENTS).map(([name, fields]) => syncSecret(name, fields)),
  ...Object.keys(STATUSES).map((name) => syncSecret(name, { data: { a: base64('1') } })),
  syncSecret('n'.repeat(253), { stringData: { a: '1' } }),
];

describe("KubeLB's CRD replaced by Keyferry's CRD in place", () => {
  before(async () => {
    await install(theirs);
    for (const object of objects) await api.create(object);
    for (const [name, status] of Object.entries(STATUSES))
      await api.patch(`${SYNC_SECRETS}/${name}/status`, { status });
  });

  for (const [owner, definition] of Object.entries({ 'of Keyferry': ours, 'of KubeLB again': theirs })) {
    describe(`KubeLB's CRD replaced by the CRD ${owner}`, () => {
      let stored: Map<string, Json>;
      before(async () => {
        stored = new Map((await api.list(SYNC_SECRETS)).map((item) => [item.metadata.name, item]));
        await install(definition);
      });

      for (const { metadata, apiVersion: _version, kind: _kind, ...fields } of objects) {
        const { name } = metadata;
        const path = `${SYNC_SECRETS}/${name}`;
        it(`the SyncSecret ${name.slice(0, 20)}, stored under KubeLB's CRD, is unchanged and can be changed under the CRD ${owner}`, async () => {
          const kept = await api.get(path);
          assert.deepEqual(kept, stored.get(name));
          for (const [field, value] of Object.entries(fields)) assert.deepEqual(kept[field], value, field);
          assert.deepEqual(kept.status ?? {}, STATUSES[name] ?? {});
          const changed = await api.replace(path, {
            ...kept,
            metadata: { ...kept.metadata, labels: { changed: 'true' } },
            stringData: { ...kept.stringData, changed: 'true' },
          });
          assert.equal(changed.metadata.generation, kept.metadata.generation + 1, 'values are part of the spec');
          const phase = `${kept.status?.phase ?? 'None'}, seen`;
          const reported = await api.patch(`${path}/status`, { status: { phase } });
          assert.equal(reported.status.phase, phase);
          assert.equal(reported.metadata.generation, changed.metadata.generation, 'status is a subresource');
          await api.patch(`${path}/status`, {
            status: kept.status === undefined ? null : { phase: kept.status.phase ?? null },
          });
          await api.patch(path, { metadata: { labels: null }, stringData: { changed: null } });
        });
      }
    });
  }

  it("every SyncSecret stored under KubeLB's CRD can lose its finalizer under Keyferry's CRD", async () => {
    await install(ours);
    for (const { metadata } of objects) {
      const path = `${SYNC_SECRETS}/${metadata.name}`;
      await api.delete(path);
      await api.patch(path, { metadata: { finalizers: null } });
      assert.equal(await api.find(path), undefined);
    }
  });
});

describe('the SyncSecret CRD', () => {
  before(() => install(ours));

  it('the API server establishes the SyncSecret CRD without a complaint about its schema', async () => {
    const types = (await api.get(DEFINITION)).status.conditions.map((one: Json) => one.type);
    assert.deepEqual(types.sort(), ['Established', 'NamesAccepted'], 'NonStructuralSchema would stand here');
  });

  it('the schemas of the SyncSecret CRDs of Keyferry and KubeLB validate the same', () => {
    assert.deepEqual(withoutTexts(schemaOf(ours)), withoutTexts(schemaOf(theirs)));
  });

  it('the SyncSecret CRD refuses values in data that are empty or not base64, and a condition without a reason', async () => {
    for (const text of ['not base64!', 'YQ', 'Y Q==', '']) {
      const refused = await api.raw('POST', SYNC_SECRETS, { body: syncSecret('refused', { data: { a: text } }) });
      assert.equal(refused.status, 422, text);
      assert.match(refused.body.message, /data\.a in body must be of type byte/);
    }
    await api.create(syncSecret('valid', {}));
    const status = { conditions: [{ ...condition('Synced', 'True'), reason: '' }] };
    await assert.rejects(api.patch(`${SYNC_SECRETS}/valid/status`, { status }), /status\.conditions\[0\]\.reason/);
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

  it("for SyncSecrets, kubectl get prints the same columns as with KubeLB's CRD", async () => {
    await api.create(syncSecret('table', { type: 'kubernetes.io/tls' }));
    await api.patch(`${SYNC_SECRETS}/table/status`, { status: { phase: 'Synced' } });
    const table = await api.get(`${SYNC_SECRETS}/table`, TABLE);
    assert.deepEqual(
      table.columnDefinitions.map(({ name, type }: Json) => `${name} ${type}`),
      ['Name string', 'Type string', 'Phase string', 'Age date'],
    );
    assert.deepEqual(table.rows[0].cells.slice(0, 3), ['table', 'kubernetes.io/tls', 'Synced']);
  });
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
