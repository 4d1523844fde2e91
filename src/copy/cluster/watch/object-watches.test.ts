/** Objects move from single-object watches to the wide watch and back, and no event is lost. With a real API server. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { clientOf } from '../../../../test/support/kube-client.ts';
import { startControlPlane, type ControlPlane } from '../../../../test/servers/control-plane.ts';
import { waitFor } from '../../../../test/support/wait-for.ts';
import { requestToken } from '../../../../test/support/service-account.ts';
import { loadKubeconfig } from '../../../kube/auth/kubeconfig.ts';
import { HttpKubeApi } from '../../../kube/http.ts';
import { ApiError, apiErrorOf, isForbidden } from '../../../kube/errors.ts';
import { ServedNamespaces } from '../../../kube/watch/served-namespaces.ts';
import { ObjectWatches } from './object-watches.ts';
import type { KubeApi, KubeRequest, KubeResponse, KubeStream } from '../../../kube/api.ts';
import { SECRET } from '../../model/kind.ts';
import { ObjectIndex } from '../objects/object-index.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { ObjectKey } from '../../model/keys.ts';

/** The most objects that have a watch of their own (`SINGLES_LIMIT`). */
const LIMIT = 40;
const path = (n: number): string => `/api/v1/namespaces/default/secrets/s${n}`;

let plane: ControlPlane;
let api: HttpKubeApi;

before(async () => {
  plane = await startControlPlane({ controllerManager: false });
  api = await clientOf(plane);
});
after(async () => {
  await api[Symbol.asyncDispose]();
  await plane.stop();
});

const create = async (n: number): Promise<unknown> =>
  await plane.api.create({ apiVersion: 'v1', kind: 'Secret', metadata: { name: `s${n}`, namespace: 'default' } });

/** Passes requests on to an API. While `expires` is set, watches get status 410, and lists wait for `release`. */
class HeldLists implements KubeApi {
  readonly cluster = 'local';
  expires = false;
  /** Whether a list was read and waits for `release`. */
  held = false;
  readonly #api: KubeApi;
  #lastRequest: Promise<KubeResponse> | undefined;
  readonly #released = Promise.withResolvers<void>();

  constructor(inner: KubeApi) {
    this.#api = inner;
  }

  release(): void {
    this.#released.resolve();
  }

  async request(request: KubeRequest): Promise<KubeResponse> {
    const answer = this.#api.request(request);
    if (request.query?.['limit'] === undefined) this.#lastRequest = answer;
    else if (this.expires) {
      await answer;
      this.held = true;
      await this.#released.promise;
      this.expires = false;
    }
    return await answer;
  }

  /** Settles when the last request that is not a list has its response. */
  async settled(): Promise<void> {
    await Promise.allSettled([this.#lastRequest]);
  }

  async stream(request: KubeRequest): Promise<KubeStream> {
    if (!this.expires) return await this.#api.stream(request);
    if (request.query?.['resourceVersion'] !== undefined) {
      const { method, path: where } = request;
      throw new ApiError({ method, path: where }, 410, {
        reason: 'Expired',
        message: 'too old',
        causes: [],
      });
    }
    return await this.#api.stream(request);
  }
}

test('an object that is followed only after the running list has skipped it does not count as deleted', async () => {
  const held = new HeldLists(api);
  const seen: string[] = [];
  const index = new ObjectIndex('local', 'Secret', (_, earlier, later) =>
    seen.push(`${earlier === undefined ? 'absent' : 'there'} > ${later === undefined ? 'absent' : 'there'}`),
  );
  const objectWatches = new ObjectWatches({ api: held, kind: SECRET, index, onKnown: () => undefined });
  const key: ObjectKey = asKey('local:Secret/default/s50');
  try {
    await create(50);
    await objectWatches.watchAll(() => false).synced;
    await waitFor(() => objectWatches.health.every(({ connected }) => connected), { message: 'the stream' });
    held.expires = true;
    objectWatches.reopenSilent(0);
    await waitFor(() => held.held, { message: 'the list to be repeated' });
    objectWatches.follow(key);
    await held.settled();
    held.release();
    await waitFor(() => objectWatches.isKnown(key), { message: 'it to be known' });
    await waitFor(() => objectWatches.health.every(({ connected }) => connected), {
      message: 'the list to be complete',
    });
    assert.deepEqual(seen, ['absent > there']);
    await plane.api.delete(path(50));
    await waitFor(() => index.get('default', 's50') === undefined, { message: 'its deletion to be seen' });
  } finally {
    held.release();
    await objectWatches.stop();
    index.stop();
  }
});

test('if a Role permits only one namespace, the wide watch is refused, and each object there keeps its single-object watch', async () => {
  const home = 'default';
  const account = { kind: 'ServiceAccount', name: 'narrow', namespace: home };
  const rbac = 'rbac.authorization.k8s.io';
  await plane.api.apply([
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'narrow', namespace: home } },
    {
      apiVersion: `${rbac}/v1`,
      kind: 'Role',
      metadata: { name: 'narrow', namespace: home },
      rules: [{ apiGroups: [''], resources: ['secrets'], verbs: ['get', 'list', 'watch'] }],
    },
    {
      apiVersion: `${rbac}/v1`,
      kind: 'RoleBinding',
      metadata: { name: 'narrow', namespace: home },
      roleRef: { apiGroup: rbac, kind: 'Role', name: 'narrow' },
      subjects: [account],
    },
  ]);
  const token = await requestToken(plane.api, home, account.name);
  const path = await plane.writeKubeconfig({ server: plane.url, caPem: plane.caPem, token });
  await using narrow = new HttpKubeApi(await loadKubeconfig({ path, env: {} }));
  const index = new ObjectIndex('local', 'Secret', () => undefined);
  const refused: unknown[] = [];
  const reported: string[] = [];
  const objectWatches = new ObjectWatches({
    api: narrow,
    kind: SECRET,
    index,
    onKnown: (key) => reported.push(key),
    watcher: { onTrouble: (error) => refused.push(error) },
  });
  const keys = Array.from({ length: LIMIT + 4 }, (_, n) => asKey<ObjectKey>(`local:Secret/${home}/narrow-${n}`));
  const isWide = (): boolean => objectWatches.health.some(({ name }) => name === 'secrets/all');
  try {
    for (const key of keys) objectWatches.follow(key);
    const all = (): boolean => keys.every((key) => objectWatches.isKnown(key));
    await waitFor(all, { message: 'all to be known' });
    assert.equal(isWide(), false);
    assert.ok(refused.some((error) => isForbidden(error)));
    const metadata = { name: 'narrow-1', namespace: home };
    await plane.api.create({ apiVersion: 'v1', kind: 'Secret', metadata });
    await waitFor(() => index.get(home, 'narrow-1') !== undefined, { message: 'a new object to be seen' });
    objectWatches.follow(asKey(`local:Secret/${home}/narrow-late`));
    await waitFor(() => objectWatches.isKnown(asKey(`local:Secret/${home}/narrow-late`)), {
      message: 'another to be known',
    });
    assert.equal(isWide(), false);
    // The Role gives no permission in another namespace.
    const foreign: ObjectKey = asKey('local:Secret/kube-system/foreign');
    objectWatches.follow(foreign);
    const words =
      /^secrets "foreign" is forbidden: .* cannot (?:list|watch) resource "secrets" .* in the namespace "kube-system"$/;
    await waitFor(() => reported.includes(foreign), { message: 'the refusal to be reported' });
    assert.match(objectWatches.refusalOf(foreign) ?? '', words);
    assert.equal(objectWatches.isKnown(foreign), false);
    const isForeign = ({ name }: { readonly name: string }): boolean => name === 'secrets/kube-system/foreign';
    assert.equal(objectWatches.health.find(isForeign)?.isExcused, true);
    objectWatches.unfollow(foreign);
    assert.equal(objectWatches.refusalOf(foreign), undefined);
    assert.equal(reported.filter((key) => key === foreign).length, 1);
  } finally {
    await objectWatches.stop();
    index.stop();
  }
});

test('before, during and after the switch to the wide watch, the index has each followed object exactly if the server has it', async () => {
  const index = new ObjectIndex('local', 'Secret', () => undefined);
  const known: string[] = [];
  const objectWatches = new ObjectWatches({
    api,
    kind: SECRET,
    index,
    onKnown: (key) => known.push(key),
  });
  const key = (n: number): ObjectKey => asKey(`local:Secret/default/s${n}`);
  /** Waits until all these objects are known, and the index has the objects `there` but not the objects `notThere`. */
  const right = async (there: readonly number[], notThere: readonly number[]): Promise<void> => {
    const look = (): boolean =>
      [...there, ...notThere].every((n) => objectWatches.isKnown(key(n))) &&
      there.every((n) => index.get('default', `s${n}`) !== undefined) &&
      notThere.every((n) => index.get('default', `s${n}`) === undefined);
    await waitFor(look, {
      message: () => `${there.join()} there, ${notThere.join()} not; there is ${[...index.keys()].join()}`,
    });
  };
  const watches = (): number => objectWatches.health.length;
  try {
    await create(0);
    objectWatches.follow(key(0));
    objectWatches.follow(key(1));
    assert.equal(objectWatches.isKnown(key(0)), false);
    await right([0], [1]);
    await create(1);
    await plane.api.delete(path(0));
    await right([1], [0]);
    assert.equal(watches(), 2);

    await create(2);
    for (let n = 2; n < LIMIT + 2; n += 1) objectWatches.follow(key(n));
    await right([1, 2], [0, 3, 4, 5, 6, 7, 8, 9]);
    await waitFor(() => watches() === 1, { message: 'the wide watch to be the only one' });
    await create(3);
    await create(99);
    await plane.api.delete(path(2));
    await right([1, 3], [0, 2, 4]);
    assert.equal(index.get('default', 's99'), undefined);
    objectWatches.follow(key(99));
    await right([99], []);
    await plane.api.delete(path(99));
    await right([], [99]);

    objectWatches.follow(key(1));
    objectWatches.unfollow(key(1));
    assert.equal(objectWatches.isKnown(key(1)), true, 'still wanted by the other');
    objectWatches.unfollow(key(99));
    for (let n = 3; n < LIMIT + 2; n += 1) objectWatches.unfollow(key(n));
    assert.equal(objectWatches.isKnown(key(3)), false);
    assert.equal(index.get('default', 's3'), undefined);
    await waitFor(() => watches() === 3 && objectWatches.health.every(({ connected }) => connected));
    await plane.api.delete(path(1));
    await create(0);
    await right([0], [1, 2]);
    assert.equal(known.filter((one) => one === key(0)).length, 1);
  } finally {
    await objectWatches.stop();
    index.stop();
  }
});

test('a 404 for another reason than a missing object does not count as a deletion of the object', async () => {
  let pages = 0;
  const odd: KubeApi = {
    cluster: api.cluster,
    stream: (request) => api.stream(request),
    request: async (request) => {
      if (!request.path.endsWith('/secrets/s60')) return await api.request(request);
      if (pages++ > 0) return await api.request(request);
      const { method, path: where } = request;
      throw apiErrorOf({ method, path: where }, 404, Buffer.from('404 page not found\n'), undefined, 0);
    },
  };
  const index = new ObjectIndex('local', 'Secret', () => undefined);
  const key: ObjectKey = asKey('local:Secret/default/s60');
  let found: boolean | undefined;
  const onKnown = (): void => {
    found = index.get('default', 's60') !== undefined;
  };
  const watcher = { reconnect: { baseMs: 10, maxMs: 10, stableMs: 10 } };
  const objectWatches = new ObjectWatches({ api: odd, kind: SECRET, index, onKnown, watcher });
  try {
    await create(60);
    await objectWatches.watchAll(() => false).synced;
    objectWatches.follow(key);
    await waitFor(() => objectWatches.isKnown(key), { message: 'it to be known' });
    assert.equal(found, true);
    assert.equal(pages, 2);
  } finally {
    await objectWatches.stop();
    index.stop();
  }
});

test('an object of a namespace that is not served is refused without a request, with single-object and with wide watches', async () => {
  for (const wide of [false, true]) {
    const served = new ServedNamespaces(['default']);
    const index = new ObjectIndex('local', 'Secret', () => undefined);
    const known: ObjectKey[] = [];
    const objectWatches = new ObjectWatches({ api, kind: SECRET, index, served, onKnown: (one) => known.push(one) });
    const n = wide ? 91 : 90;
    const key: ObjectKey = asKey(`local:Secret/default/s${n}`);
    const other: ObjectKey = asKey(`local:Secret/kube-system/s${n}`);
    try {
      await create(n);
      if (wide) objectWatches.watchAll(() => false);
      objectWatches.follow(other);
      assert.match(objectWatches.refusalOf(other) ?? '', /kube-system is not one of those .* \(--namespaces\)/);
      assert.deepEqual(known, [other]);
      objectWatches.follow(key);
      await waitFor(() => objectWatches.isKnown(key) && index.find(key) !== undefined, { message: 'it to be known' });
      assert.equal(objectWatches.refusalOf(key), undefined);
      assert.deepEqual(
        objectWatches.health.filter(({ name }) => name.includes('kube-system')),
        [],
      );
      objectWatches.unfollow(other);
      assert.equal(objectWatches.refusalOf(other), undefined);
    } finally {
      await objectWatches.stop();
    }
  }
});
