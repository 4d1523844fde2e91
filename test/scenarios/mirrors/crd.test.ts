/** The SecretMirror CRD on a real API server: accepted and refused specs, printed columns, and old objects. */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { parse } from 'yaml';
import { readCrd } from '../../../scripts/crd/read-crds.ts';
import { startControlPlane } from '../../servers/control-plane.ts';
import type { ControlPlane } from '../../servers/control-plane.ts';
import type { Json, TestApi } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import { ACCEPTED, REFUSED } from './crd-cases.ts';
import type { AnySpec } from './crd-cases.ts';

const here = new URL('./', import.meta.url);
const strictCrd: Json = parse(readCrd('secretmirrors'));
const DEFINITION = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/secretmirrors.mirrors.kts.studio';
const MIRRORS = '/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors';
const MIRRORS_V1ALPHA1 = MIRRORS.replace('v1alpha2', 'v1alpha1');
const TABLE = { accept: 'application/json;as=Table;g=meta.k8s.io;v=v1' };

let server: ControlPlane;
let api: TestApi;

before(async () => {
  server = await startControlPlane({ controllerManager: false });
  api = server.api;
});
after(() => server.stop());

const mirror = (name: string, spec: AnySpec, version = 'v1alpha2'): Json => ({
  apiVersion: `mirrors.kts.studio/${version}`,
  kind: 'SecretMirror',
  metadata: { name, namespace: 'default', finalizers: ['mirrors.kts.studio/finalizer'] },
  ...(spec === undefined ? {} : { spec }),
});

/**
 * Removes the invalid value from the message of a refusal, because Kubernetes 1.34 has the value's type there
 * (`"string"`) and 1.36 the value.
 */
const withoutValues = (message: string): string =>
  message.replaceAll(/Invalid value: (?:"(?:[^"\\]|\\.)*"|-?\d+): /g, 'Invalid value: ');

/**
 * The API server's response to a dry run that creates a mirror. By default unknown fields are errors, as with kubectl.
 */
const tryCreate = (spec: AnySpec, fieldValidation = 'Strict'): Promise<{ status: number; body: Json }> =>
  api.raw('POST', MIRRORS, { body: mirror('offered', spec), query: { dryRun: 'All', fieldValidation } });

const assertAccepted = async (spec: AnySpec, fieldValidation = 'Strict'): Promise<Json> => {
  const { status, body } = await tryCreate(spec, fieldValidation);
  assert.equal(status, 201, body.message);
  return body;
};

/**
 * Waits until the API server uses a changed CRD, a moment after the change. It tries to create a mirror without spec,
 * which only the strict CRD refuses.
 */
const inForce = (definition: 'strict' | 'permissive'): Promise<boolean> =>
  waitFor(async () => (await tryCreate(undefined)).status === (definition === 'strict' ? 422 : 201), {
    message: `the ${definition} CRD to be in force`,
  });

describe('a permissive SecretMirror CRD replaced by the strict one in place', () => {
  /** Objects that the permissive CRD accepts and the strict one refuses, by name. */
  const invalid: Record<string, AnySpec> = {
    'no-spec': undefined,
    'bad-pattern': { destination: { namespaces: ['a', 'b('] } },
    'long-pattern': { destination: { namespaces: ['a'.repeat(5000)] } },
    'no-vault': { source: { type: 'vault' }, destination: { type: 'vault' } },
    'no-auth-secret': {
      destination: { type: 'vault', vault: { auth: { approle: {}, token: { secretRef: { name: 'A' } } } } },
    },
    'bad-name': { source: { name: 'A_b' }, destination: { namespaces: ['a'] } },
  };
  const names = [...Object.keys(invalid), 'v1alpha1', 'valid'];

  before(async () => {
    await api.apply(parse(readFileSync(new URL('permissive-crd.yaml', here), 'utf8')));
    await inForce('permissive');
    for (const [name, spec] of Object.entries(invalid)) await api.create(mirror(name, spec));
    await api.create(mirror('valid', { destination: { namespaces: ['a'] } }));
    const spec = { source: { name: 'a' }, destination: { namespaceRegex: 'x' } };
    await api.call('POST', MIRRORS_V1ALPHA1, { body: mirror('v1alpha1', spec, 'v1alpha1') });
    await api.apply(strictCrd);
    await inForce('strict');
  });

  it('if the strict SecretMirror CRD replaces a permissive one, every stored mirror stays', async () => {
    const kept = (await api.list(MIRRORS)).map((item) => item.metadata.name as string);
    assert.deepEqual(kept.sort(), names.toSorted());
  });

  for (const name of names) {
    it(`a mirror stored under a permissive CRD (${name}) can get a status and labels and lose its finalizer under the strict CRD`, async () => {
      const path = `${MIRRORS}/${name}`;
      const status = {
        mirrorStatus: 'Error',
        lastSyncTime: '1970-01-01T00:00:00Z',
        observedGeneration: 1,
        conditions: [
          {
            type: 'Ready',
            status: 'False',
            reason: 'Invalid',
            message: 'm',
            lastTransitionTime: '2024-01-01T00:00:00Z',
          },
        ],
      };
      const written = await api.patch(`${path}/status`, { status });
      assert.deepEqual(written.status, status);
      await api.replace(path, { ...written, metadata: { ...written.metadata, labels: { a: 'b' } } });
      assert.equal(await api.delete(path), true);
      await api.patch(path, { metadata: { finalizers: null } });
      assert.equal(await api.find(path), undefined);
    });
  }
});

describe('the SecretMirror CRD', () => {
  it('the SecretMirror CRD can be created on a cluster that never had it', async () => {
    await api.delete(DEFINITION);
    await waitFor(async () => (await api.find(DEFINITION)) === undefined, { message: 'the CRD to go' });
    const [made] = await api.apply(strictCrd);
    assert.equal(made.spec.conversion.strategy, 'None');
    const types = (await api.get(DEFINITION)).status.conditions.map((condition: Json) => condition.type);
    assert.deepEqual(types.sort(), ['Established', 'NamesAccepted'], 'NonStructuralSchema would stand here');
    await inForce('strict');
  });

  for (const file of readdirSync(new URL('manifests/', here))) {
    it(`the SecretMirror CRD accepts the manifest ${file}`, async () => {
      const object: Json = parse(readFileSync(new URL(`manifests/${file}`, here), 'utf8'));
      await api.call('PATCH', await api.pathOf(object), {
        body: object,
        contentType: 'application/apply-patch+yaml',
        query: { fieldManager: 'test', fieldValidation: 'Strict' },
      });
    });
  }

  for (const [title, spec, ...words] of REFUSED) {
    it(`the SecretMirror CRD refuses a mirror with ${title}`, async () => {
      const answer = await tryCreate(spec);
      assert.equal(answer.status, 422, JSON.stringify(answer.body));
      const message = withoutValues(answer.body.message);
      for (const word of words) assert.ok(message.includes(word), `${word}\nis not in\n${message}`);
    });
  }

  for (const [title, spec] of ACCEPTED) {
    it(`the SecretMirror CRD accepts a mirror with ${title}`, async () => {
      await assertAccepted(spec);
    });
  }

  it('the SecretMirror CRD sets defaults for the types of source and destination, and for no other field', async () => {
    const { spec, status } = await assertAccepted({ source: {}, destination: { namespaces: ['a'] } });
    assert.deepEqual(spec, { source: { type: 'secret' }, destination: { type: 'namespaces', namespaces: ['a'] } });
    assert.equal(status, undefined);
  });

  it('the API server drops fields that the SecretMirror CRD does not know, and refuses them with strict field validation', async () => {
    const spec = { destination: { namespaces: ['a'], namespaceRegex: 'b' } };
    assert.deepEqual((await assertAccepted(spec, 'Ignore')).spec.destination, {
      type: 'namespaces',
      namespaces: ['a'],
    });
    const strict = await tryCreate(spec);
    assert.equal(strict.status, 400);
    assert.match(strict.body.message, /unknown field "spec.destination.namespaceRegex"/);
  });

  it("kubectl get prints a SecretMirror in the columns of the original's CRD, followed by Ready", async () => {
    const lastTransitionTime = '2026-01-01T00:00:00Z';
    const notReady = { type: 'Ready', status: 'False', reason: 'Conflict', message: 'x', lastTransitionTime };
    await api.create(mirror('table', { source: {}, destination: { namespaces: ['a'] }, pollPeriodSeconds: 60 }));
    await api.patch(`${MIRRORS}/table/status`, {
      status: { lastSyncTime: '1970-01-01T00:00:00Z', conditions: [notReady] },
    });
    const table = await api.get(`${MIRRORS}/table`, TABLE);
    assert.deepEqual(columns(table), [
      'Name string',
      'Source Type string',
      'Source Name string',
      'Destination Type string',
      'Delete Policy string',
      'Poll Period integer',
      'Mirror Status string',
      'Last Sync Time string',
      'Age date',
      'Ready string',
    ]);
    const cells = ['table', 'secret', null, 'namespaces', null, 60, 'Pending', '1970-01-01T00:00:00Z'];
    assert.deepEqual(table.rows[0].cells.slice(0, cells.length), cells);
    assert.equal(table.rows[0].cells.at(-1), 'False');
    const first = await api.get(`${MIRRORS_V1ALPHA1}/table`, TABLE);
    assert.deepEqual(columns(first), [
      'Name string',
      'Source Name string',
      'Dest Namespace string',
      'Dest Namespace Regex string',
      'Poll Period integer',
      'Mirror Status string',
      'Last Sync Time string',
      'Age date',
    ]);
  });
});

function columns(table: { columnDefinitions: { name: string; type: string }[] }): string[] {
  return table.columnDefinitions.map(({ name, type }) => `${name} ${type}`);
}
