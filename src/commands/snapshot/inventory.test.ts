/** Tests which lists a command needs, and what it knows after them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { KubeApi } from '../../kube/api.ts';
import { ApiError } from '../../kube/errors.ts';
import { ServedNamespaces } from '../../kube/watch/served-namespaces.ts';
import { Inventory, type InventoryOptions, listerOf, MissingRight } from './inventory.ts';
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

/** The server has the namespaces `home` and `team`, and a Secret in each. */
async function list(options: InventoryOptions, answers: Readonly<Record<string, number>> = {}, copies = true) {
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
  const inventory = new Inventory(options);
  for (const one of [MIRRORS, RARE]) inventory.include(one, () => undefined);
  await inventory.list('c', listerOf(api), undefined, undefined, copies);
  return { inventory, paths: paths.toSorted() };
}

const keys = ({ objects }: Inventory): string[] => [...objects.keys()].toSorted();

test('a command lists the whole cluster, and then knows whether a namespace or an object exists', async () => {
  const { inventory, paths } = await list({});
  assert.deepEqual(paths, [
    '/api/v1/configmaps',
    '/api/v1/namespaces',
    '/api/v1/secrets',
    '/apis/m/v1/secretmirrors',
    '/apis/rare/v2/rares',
  ]);
  assert.deepEqual(keys(inventory), ['c:Secret/home/db', 'c:Secret/team/db']);
  assert.deepEqual([inventory.isWhole, inventory.knowsNamespaces], [true, true]);
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
  assert.deepEqual([inventory.isWhole, inventory.knowsNamespaces], [false, false]);
  assert.deepEqual([inventory.hasNamespace('team'), inventory.hasNamespace('home')], [true, false]);
  assert.deepEqual([inventory.isListed('Secret', 'team'), inventory.isListed('Secret', 'home')], [true, false]);
  assert.deepEqual([inventory.isUnserved('home'), inventory.isUnserved('')], [true, false]);
});

test('if a command reads only one namespace, the others may exist, and nothing is known of them', async () => {
  const { inventory, paths } = await list({ only: 'team' });
  assert.ok(paths.every((path) => path.includes('/namespaces/team/')));
  assert.deepEqual(
    [inventory.isWhole, inventory.knowsNamespaces, inventory.hasNamespace('home')],
    [false, false, true],
  );
  assert.deepEqual([inventory.isListed('Secret', 'home'), inventory.isUnserved('home')], [false, false]);
});

test('ConfigMaps, and kinds that most clusters lack, may be forbidden; the kind then counts as unread', async () => {
  const answers = { '/api/v1/configmaps': 403, '/apis/rare/v2/rares': 403 };
  const { inventory } = await list({}, answers);
  assert.deepEqual([...inventory.unread.keys()].toSorted(), ['ConfigMap', 'Rare']);
  assert.match(inventory.unread.get('Rare')?.brief ?? '', /^no permission to list rares\.rare in the whole cluster$/);
  assert.deepEqual([inventory.isWhole, inventory.isInstalled('Rare')], [false, true]);
  assert.deepEqual([inventory.isListed('ConfigMap', 'home'), inventory.isListed('Secret', 'home')], [false, true]);
});

test('without a controller that copies into namespaces, namespaces and Secrets may be unread, and nothing is known of them', async () => {
  const answers = { '/api/v1/namespaces': 403, '/api/v1/secrets': 403, '/api/v1/configmaps': 403 };
  await assert.rejects(list({}, answers), MissingRight);
  const { inventory } = await list({}, answers, false);
  assert.deepEqual([...inventory.unread.keys()].toSorted(), ['ConfigMap', 'Namespace', 'Secret']);
  assert.deepEqual([inventory.isWhole, inventory.knowsNamespaces, inventory.hasNamespace('x')], [false, false, true]);
  assert.equal(inventory.isListed('Secret', 'x'), false);
});
