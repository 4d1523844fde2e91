/** Tests which lists a command needs, and what it knows after them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { KubeApi } from '../../kube/api.ts';
import { ApiError } from '../../kube/errors.ts';
import { ServedNamespaces } from '../../kube/watch/served-namespaces.ts';
import { Inventory, listerOf, MissingRight, type Needs } from './inventory.ts';
import type { RuleCollection } from './inventory.ts';

const COMMON = { apiVersions: new Map<string, undefined>(), notInstalled: '' };
const MIRRORS: RuleCollection = { ...COMMON, kind: 'SecretMirror', groupPath: '/apis/m/v1', plural: 'secretmirrors' };
const RARE: RuleCollection = {
  ...COMMON,
  kind: 'Rare',
  groupPath: '/apis/rare/v2',
  olderGroupPaths: ['/apis/rare/v1'],
  plural: 'rares',
  isRare: true,
};

interface Options {
  readonly served?: ServedNamespaces;
  readonly needs?: Needs;
  readonly answers?: Readonly<Record<string, number>>;
}

/** The server has the namespaces `home` and `team`, and a Secret in each. */
async function list({ served, needs, answers = {} }: Options = {}) {
  const paths: string[] = [];
  const item = (name: string, namespace?: string) => ({
    metadata: { name, namespace, uid: name, resourceVersion: '1', creationTimestamp: '' },
  });
  const itemsAt = (path: string): unknown[] => {
    if (path === '/api/v1/namespaces') return [item('home'), item('team')];
    const places = ['home', 'team'].filter((one) => path === '/api/v1/secrets' || path.includes(`/${one}/secrets`));
    return places.map((place) => item('db', place));
  };
  const api: KubeApi = {
    cluster: 'c',
    request: async ({ method, path }) => {
      paths.push(path);
      const status = answers[path] ?? 200;
      if (status !== 200) throw new ApiError({ method, path }, status, { reason: '', message: '', causes: [] });
      const body = { metadata: { resourceVersion: '1' }, items: itemsAt(path) };
      return await Promise.resolve({ status, body: Buffer.from(JSON.stringify(body)) });
    },
    stream: () => assert.fail('not used'),
  };
  const inventory = new Inventory(served);
  for (const one of [MIRRORS, RARE]) inventory.include(one, () => undefined);
  await inventory.list('c', listerOf(api), needs);
  return { inventory, paths: paths.toSorted() };
}

const keys = ({ objects }: Inventory): string[] => [...objects.keys()].toSorted();

test('a command lists the whole cluster, and then knows whether a namespace or an object exists', async () => {
  const { inventory, paths } = await list();
  assert.deepEqual(paths, [
    '/api/v1/configmaps',
    '/api/v1/namespaces',
    '/api/v1/secrets',
    '/apis/m/v1/secretmirrors',
    '/apis/rare/v2/rares',
  ]);
  assert.deepEqual(keys(inventory), ['c:Secret/home/db', 'c:Secret/team/db']);
  assert.equal(inventory.isWhole, true);
  assert.deepEqual([inventory.hasNamespace('team'), inventory.hasNamespace('other')], [true, false]);
  assert.equal(inventory.isListed('Secret', 'team'), true);
});

test('with --namespaces, a command lists only these namespaces, and for it there are no others', async () => {
  const { inventory, paths } = await list({ served: new ServedNamespaces(['team'], 'command') });
  assert.deepEqual(paths, [
    '/api/v1/namespaces/team/configmaps',
    '/api/v1/namespaces/team/secrets',
    '/apis/m/v1/namespaces/team/secretmirrors',
    '/apis/rare/v2/namespaces/team/rares',
  ]);
  assert.deepEqual(keys(inventory), ['c:Secret/team/db']);
  assert.equal(inventory.isWhole, false);
  assert.deepEqual([inventory.hasNamespace('team'), inventory.hasNamespace('home')], [true, false]);
  assert.deepEqual([inventory.isListed('Secret', 'team'), inventory.isListed('Secret', 'home')], [true, false]);
  assert.deepEqual([inventory.isUnserved('home'), inventory.isUnserved('')], [true, false]);
});

test('the kinds that no controller needs are not listed, and nothing is known of them', async () => {
  const { inventory, paths } = await list({ needs: { Secret: true } });
  assert.deepEqual(paths, ['/api/v1/secrets', '/apis/m/v1/secretmirrors', '/apis/rare/v2/rares']);
  assert.deepEqual([inventory.isWhole, inventory.hasNamespace('x')], [false, true]);
  assert.deepEqual([inventory.isListed('Secret', 'x'), inventory.isListed('ConfigMap', 'x')], [true, false]);
});

test('one error names all rights that are missing; a kind that a controller can do without may be forbidden', async () => {
  const answers = { '/api/v1/configmaps': 403, '/apis/rare/v2/rares': 403, '/api/v1/secrets': 403 };
  await assert.rejects(list({ answers }), (error) => {
    assert.ok(error instanceof MissingRight);
    assert.deepEqual([...error.rights.keys()], ['ConfigMap', 'Rare', 'Secret']);
    const all = ['configmaps', 'rares.rare', 'secrets'].map((resource) => `list ${resource} in the whole cluster`);
    assert.equal(error.brief, `no permission to ${all.join(', ')}`);
    return true;
  });
  const { inventory } = await list({
    needs: { Namespace: true, Secret: true, ConfigMap: false },
    answers: { '/api/v1/configmaps': 403 },
  });
  assert.deepEqual([inventory.isListed('ConfigMap', 'home'), inventory.isWhole], [false, true]);
});

test('an API that is not installed needs no right: without it the server answers 403 all the same', async () => {
  const forbidden = { '/apis/rare/v2/rares': 403, '/apis/rare/v1/rares': 403 };
  const { inventory } = await list({ answers: { ...forbidden, '/apis/rare/v2': 404, '/apis/rare/v1': 404 } });
  assert.deepEqual([inventory.isInstalled('Rare'), inventory.isInstalled('SecretMirror')], [false, true]);
  const one = { ...forbidden, '/apis/rare/v2': 404 };
  await assert.rejects(list({ answers: one }), MissingRight, 'an older version is installed');
  await assert.rejects(list({ answers: { ...one, '/apis/rare/v1': 403 } }), MissingRight, 'nobody may look');
});
