import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { KubeApi } from '../../kube/api.ts';
import { Contents } from './contents.ts';
import { asKey } from '../../../test/support/keys.ts';
import type { ResourceKey } from '../../copy/model/keys.ts';

const key = (namespace: string, name: string): ResourceKey => asKey(`c:Secret/${namespace}/${name}`);

/** Contents of a cluster where each GET finds a Secret and each list finds 20 Secrets. `paths`: all requested paths. */
function contents(isWhole = true): { readonly contents: Contents; readonly paths: string[] } {
  const paths: string[] = [];
  const secret = (namespace: string, name: string) => ({
    metadata: { namespace, name, uid: 'u', resourceVersion: '7' },
  });
  const api: KubeApi = {
    cluster: 'c',
    stream: () => Promise.reject(new TypeError('not read as a stream')),
    request: async ({ path, query }) => {
      await Promise.resolve();
      const selector = query?.['fieldSelector'];
      paths.push(selector === undefined ? path : `${path}?${String(selector)}`);
      const [, , , , namespace = '', , name] = path.split('/');
      const items = selector === undefined ? [] : Array.from({ length: 20 }, (_, i) => secret(`n${i}`, 'many'));
      const body = name === undefined ? { metadata: {}, items } : secret(namespace, name);
      return { status: 200, body: Buffer.from(JSON.stringify(body)) };
    },
  };
  return { contents: new Contents(api, undefined, undefined, undefined, isWhole), paths };
}

test('25 objects with the same name that are requested at the same time are read by one list', async () => {
  const { contents: read, paths } = contents();
  const keys = Array.from({ length: 25 }, (_, i) => key(`n${i}`, 'many'));
  assert.deepEqual(new Set(await Promise.all(keys.map(async (one) => await read.read(one)))), new Set([true]));
  assert.deepEqual(paths, ['/api/v1/secrets?metadata.name=many']);
  assert.equal(read.of(key('n3', 'many'))?.resourceVersion, '7');
  assert.equal(read.of(key('n24', 'many')), null, 'not in the list');
});

test('if the caller may list only some namespaces, no list is one of the whole cluster', async () => {
  const { contents: read, paths } = contents(false);
  await Promise.all(Array.from({ length: 25 }, async (_, i) => await read.read(key(`n${i}`, 'many'))));
  assert.equal(paths.length, 25);
  assert.ok(!paths.some((path) => path.startsWith('/api/v1/secrets')));
});

test('a few objects are read by one GET each, even if an object is requested twice', async () => {
  const { contents: read, paths } = contents();
  await Promise.all([read.read(key('a', 'x')), read.read(key('b', 'x')), read.read(key('a', 'x'))]);
  assert.deepEqual(paths, ['/api/v1/namespaces/a/secrets/x', '/api/v1/namespaces/b/secrets/x']);
  assert.equal(await read.read(key('a', 'x')), false, 'read before');
  assert.equal(paths.length, 2);
  assert.equal(read.of(key('c', 'x')), undefined);
});

test('forgetOthers removes the contents of changed or deleted objects, so that the next request reads them again', async () => {
  const { contents: read, paths } = contents();
  const [same, other, gone] = ['same', 'other', 'gone'].map((name) => key('a', name));
  await Promise.all([same!, other!, gone!].map(async (one) => await read.read(one)));
  read.forgetOthers((one) => (one === gone ? undefined : one === same ? '7' : '8'));
  assert.deepEqual(
    [same!, other!, gone!].map((one) => read.of(one)?.resourceVersion),
    ['7', undefined, undefined],
  );
  assert.equal(await read.read(same!), false);
  await read.read(other!);
  assert.deepEqual(paths.slice(3), ['/api/v1/namespaces/a/secrets/other']);
});
