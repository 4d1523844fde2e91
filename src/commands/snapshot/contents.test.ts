import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { KubeApi } from '../../kube/api.ts';
import { Contents } from './contents.ts';
import { asKey } from '../../../test/support/keys.ts';
import type { ResourceKey } from '../../copy/model/keys.ts';

const key = (namespace: string, name: string): ResourceKey => asKey(`c:Secret/${namespace}/${name}`);

/** Contents of a cluster where each GET finds a Secret. `paths`: all requested paths. */
function contents(): { readonly contents: Contents; readonly paths: string[] } {
  const paths: string[] = [];
  const api: KubeApi = {
    cluster: 'c',
    stream: () => Promise.reject(new TypeError('not read as a stream')),
    request: async ({ path }) => {
      await Promise.resolve();
      paths.push(path);
      const [, , , , namespace = '', , name = ''] = path.split('/');
      const body = { metadata: { namespace, name, uid: 'u', resourceVersion: '7' } };
      return { status: 200, body: Buffer.from(JSON.stringify(body)) };
    },
  };
  return { contents: new Contents(api), paths };
}

test('objects are read by one GET each, even if an object is requested twice', async () => {
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
