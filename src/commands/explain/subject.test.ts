/** Which object `explain` reads, by which list, and who wrote it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { KubeApi } from '../../kube/api.ts';
import { ApiError } from '../../kube/errors.ts';
import { KINDS } from '../snapshot/inventory.ts';
import { ruleCollections } from '../readers.ts';
import { lastWriteOf, readStored, subjectOf, writersOf } from './subject.ts';

const SUBJECT = {
  collection: {
    kind: 'SyncSecret',
    groupPath: '/apis/new/v1',
    olderGroupPaths: ['/apis/new/v1beta1', '/apis/old/v1'],
    plural: 'syncsecrets',
  },
  namespace: 'default',
  name: 'app',
};
const pathIn = (group: string): string => `${group}/namespaces/default/syncsecrets`;

/** @param answers the HTTP status that the API server gives for each path; for a path without one, 404 */
async function read(answers: Readonly<Record<string, number>>, items: readonly object[] = []) {
  const paths: string[] = [];
  const api: KubeApi = {
    cluster: 'c',
    request: async ({ method, path, query }) => {
      paths.push(path);
      assert.equal(query?.['fieldSelector'], 'metadata.name=app');
      const status = answers[path] ?? 404;
      const reason = status === 403 ? 'Forbidden' : 'NotFound';
      if (status !== 200) throw new ApiError({ method, path }, status, { reason, message: reason, causes: [] });
      return await Promise.resolve({ status, body: Buffer.from(JSON.stringify({ metadata: {}, items })) });
    },
    stream: () => assert.fail('not used'),
  };
  const stored = await readStored(api, SUBJECT, undefined);
  return { stored, paths };
}

test('explain takes a kind as kubectl does: also its plural, its group, and its short name', () => {
  for (const [kind, expected] of [
    ['secrets', 'Secret'],
    ['cm', 'ConfigMap'],
    ['sm', 'SecretMirror'],
    ['es', 'ExternalSecret'],
    ['SecretMirror.mirrors.kts.studio', 'SecretMirror'],
  ] as const)
    assert.equal(subjectOf(kind, 'a/x', [...KINDS, ...ruleCollections()]).collection.kind, expected);
  assert.throws(
    () => subjectOf('pod', 'a/b', KINDS),
    /^UsageError: unknown kind "pod": must be one of secret, configmap/,
  );
  for (const place of ['one', 'a/', '/b', 'a/b/c'])
    assert.throws(
      () => subjectOf('secret', place, KINDS),
      /^UsageError: bad name .*: must be NAMESPACE\/NAME, or NAME with/,
    );
});

test('explain lists the object in the newest version of its API that the server has; without the API it is absent', async () => {
  for (const [index, group] of ['/apis/new/v1', '/apis/new/v1beta1', '/apis/old/v1'].entries()) {
    const { stored, paths } = await read({ [pathIn(group)]: 200 }, [{ metadata: { name: 'app', uid: group } }]);
    assert.equal(stored?.uid, group);
    assert.equal(paths.length, index + 1);
  }
  const { stored, paths } = await read({});
  assert.deepEqual([stored, paths.length], [undefined, 3]);
  assert.equal((await read({ [pathIn('/apis/new/v1')]: 200 })).stored, undefined);
});

test('if the caller has no permission to list the object, the error names the right', async () => {
  await assert.rejects(
    read({ [pathIn('/apis/new/v1')]: 403 }),
    /no permission to list syncsecrets\.new in namespace default/,
  );
});

test('if reading the object fails with an error other than 403 and 404, explain throws the error', async () => {
  await assert.rejects(read({ [pathIn('/apis/new/v1')]: 500 }), /500/);
});

test('explain lists the writers of an object newest first, and says whether each wrote content, metadata or status', () => {
  const entry = { operation: 'Update', apiVersion: 'v1', fieldsType: 'FieldsV1' };
  const writers = writersOf({
    managedFields: [
      { ...entry, manager: 'kubectl', time: '2026-01-01T00:00:00Z', fieldsV1: { 'f:data': {} } },
      { ...entry, manager: 'keyferry', time: '2026-01-03T00:00:00Z', fieldsV1: { 'f:metadata': {} } },
      { ...entry, manager: 'keyferry', time: '2026-01-04T00:00:00Z', subresource: 'status', fieldsV1: {} },
      { ...entry, manager: 'unknown time', fieldsV1: { 'f:spec': {} } },
    ],
  });
  assert.deepEqual(
    writers.map(({ manager, wrote }) => `${manager} ${wrote}`),
    ['keyferry status', 'keyferry metadata', 'kubectl content', 'unknown time content'],
  );
  assert.equal(lastWriteOf(writers), '2026-01-03T00:00:00Z');
  assert.equal(lastWriteOf(writers.slice(2)), null);
});
