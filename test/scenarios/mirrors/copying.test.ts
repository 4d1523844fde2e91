/**
 * Copies of a SecretMirror: their content, how they follow changes, how Keyferry repairs them, and the first scenario
 * of the original's article.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import {
  annotations,
  COPY_LABEL,
  FINALIZER,
  HOME,
  labels,
  LAST_SYNC_AT,
  mirrorPath,
  MirrorScene,
  OWNED_BY,
  PARENT_VERSION,
  PLACE,
  sameData,
  secretPath,
  SOURCE_TYPE,
} from './support.ts';

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';
const manifest = (name: string): string => readFileSync(new URL(`manifests/${name}.yaml`, import.meta.url), 'utf8');

let scene: MirrorScene;

before(async () => {
  scene = await MirrorScene.open({ controllerManager: false });
  await scene.operator();
});
after(() => scene.close());

describe("the first scenario of the original's article", () => {
  it('the mirror of the article’s first scenario waits for the source, then copies to every new namespace', async () => {
    const { api } = scene;
    await api.apply(manifest('secret-to-namespaces'));
    const pending = await scene.ready('mysecret-mirror', 'NoSecret');
    assert.equal(pending.mirrorStatus, 'Pending');
    assert.equal(pending.lastSyncTime, '1970-01-01T00:00:00Z');
    const missing = await scene.event('mysecret-mirror', 'NoSecret');
    assert.equal(missing.message, 'secret default/mysecret not found, waiting to appear');
    assert.deepEqual(
      [missing.type, missing.source.component, missing.involvedObject.apiVersion],
      ['Warning', 'mirrors.kts.studio', 'mirrors.kts.studio/v1alpha2'],
    );
    const stored = await api.get(mirrorPath('mysecret-mirror'));
    assert.deepEqual(stored.metadata.finalizers, [FINALIZER]);
    assert.deepEqual(stored.spec, {
      source: { type: 'secret', name: 'mysecret' },
      destination: { type: 'namespaces', namespaces: ['project-a-.+', 'project-b-.+'] },
      deletePolicy: 'delete',
      pollPeriodSeconds: 180,
    });
    assert.equal(stored.metadata.generation, 2);

    const begin = Date.now();
    await api.apply(manifest('source-secret'));
    const active = await scene.ready('mysecret-mirror', 'Synced');
    assert.equal(active.mirrorStatus, 'Active');
    assert.ok(Date.parse(active.lastSyncTime) >= begin - 1000, active.lastSyncTime);
    const synced = await scene.event('mysecret-mirror', 'Active');
    assert.deepEqual(
      [synced.type, synced.message, synced.source.component],
      ['Normal', 'SecretMirror is synced', 'mirrors.kts.studio'],
    );
    const table = await api.get(mirrorPath('mysecret-mirror'), {
      accept: 'application/json;as=Table;g=meta.k8s.io;v=v1',
    });
    const { cells } = table.rows[0];
    assert.equal(cells.at(-1), 'True');
    // The two last columns are left out: the original has no column Ready, and the age changes.
    assert.deepEqual(cells.slice(0, -2), [
      'mysecret-mirror',
      'secret',
      'mysecret',
      'namespaces',
      'delete',
      180,
      'Active',
      active.lastSyncTime,
    ]);

    await scene.namespaces('project-a-first', 'project-b-first', 'project-c-first');
    const source = await scene.find(HOME, 'mysecret');
    for (const namespace of ['project-a-first', 'project-b-first']) {
      const copy = await waitFor(() => scene.find(namespace, 'mysecret'), { message: namespace });
      assert.deepEqual(copy.data, source.data);
      assert.equal(copy.type, 'Opaque');
    }
    assert.equal(await scene.find('project-c-first', 'mysecret'), undefined);
    const total = await scene.ready('mysecret-mirror', 'Synced', /^2 copies are up to date$/);
    assert.ok(total.conditions.every((one: Json) => one.type === 'Ready' && one.status === 'True'));
  });
});

describe('copies', { concurrency: 8 }, () => {
  it('copies get annotations that name their source, and its labels and annotations except those of tools such as kubectl, Helm and Argo CD', async () => {
    await scene.namespaces('shape-a');
    const never = {
      [LAST_APPLIED]: '{"data":{"a":"leak"}}',
      'meta.helm.sh/release-name': 'x',
      'argocd.argoproj.io/tracking-id': 'x',
      'kustomize.toolkit.fluxcd.io/checksum': 'x',
      'replicator.v1.mittwald.de/replicate-to': 'x',
      'reflector.v1.k8s.emberstack.com/reflection-allowed': 'true',
      'k8s-replicator/replicate-to': 'x',
      'kubed.appscode.com/sync': '',
      [OWNED_BY]: 'other/mirror',
      [PLACE]: 'other/place',
      'mirrors.kts.studio/vault-path': '/x',
    };
    const source = await scene.secret(
      HOME,
      'shape',
      { a: '1' },
      {
        metadata: {
          labels: {
            app: 'web',
            'app.kubernetes.io/managed-by': 'Helm',
            'app.kubernetes.io/instance': 'x',
            'helm.toolkit.fluxcd.io/name': 'x',
          },
          annotations: { note: 'kept', ...never },
        },
      },
    );
    await scene.mirror('shape', ['shape-.+']);
    const { metadata } = await scene.copied('shape-a', 'shape', { a: '1' });
    assert.deepEqual(metadata.labels, { app: 'web', [COPY_LABEL]: 'mirrors' });
    const { [LAST_SYNC_AT]: syncedAt, ...rest } = metadata.annotations;
    assert.deepEqual(rest, {
      note: 'kept',
      [OWNED_BY]: `${HOME}/shape`,
      [PLACE]: 'shape-a/shape',
      [PARENT_VERSION]: source.metadata.resourceVersion,
      [SOURCE_TYPE]: 'secret',
    });
    assert.match(syncedAt, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,9})? \+0000 UTC$/);
    assert.equal(metadata.ownerReferences, undefined);
    assert.equal(metadata.finalizers, undefined);
  });

  it('copies lose labels and annotations that the source lost, and keep those that other clients wrote', async () => {
    await scene.namespaces('foreign-a');
    const { api } = scene;
    // Some names are also those of properties of JavaScript objects.
    const metadata = {
      labels: { one: '1', two: '2', constructor: 'x' },
      annotations: { three: '3', toString: 'y', valueOf: 'z' },
    };
    await scene.secret(HOME, 'marked', { a: '1' }, { metadata });
    await scene.mirror('marked', ['foreign-a']);
    const copy = await scene.copied('foreign-a', 'marked', { a: '1' });
    assert.equal(copy.metadata.labels['constructor'], 'x');
    assert.ok(Object.hasOwn(copy.metadata.annotations, 'toString'));
    const owner = await api.create({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'owner', namespace: 'foreign-a' },
    });
    const theirs = {
      labels: { theirs: 'label' },
      annotations: { theirs: 'annotation' },
      finalizers: ['example.com/theirs'],
      ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid: owner.metadata.uid }],
    };
    await api.patch(secretPath('foreign-a', 'marked'), { metadata: theirs });
    await api.patch(secretPath(HOME, 'marked'), {
      metadata: {
        labels: { one: null, constructor: null },
        annotations: { three: null, toString: null, valueOf: null, four: '4' },
      },
    });
    await scene.change(HOME, 'marked', { a: '2' });
    await scene.copied('foreign-a', 'marked', { a: '2' });
    const after = await waitFor(async () => {
      const now = await scene.find('foreign-a', 'marked');
      return now.metadata.annotations['four'] === '4' && now.metadata.labels['one'] === undefined && now;
    });
    assert.equal(after.metadata.uid, copy.metadata.uid);
    assert.deepEqual(after.metadata.labels, { two: '2', theirs: 'label', [COPY_LABEL]: 'mirrors' });
    for (const lost of ['three', 'toString', 'valueOf']) assert.ok(!Object.hasOwn(after.metadata.annotations, lost));
    assert.equal(after.metadata.annotations['theirs'], 'annotation');
    assert.deepEqual(after.metadata.finalizers, theirs.finalizers);
    assert.equal(after.metadata.ownerReferences[0].name, 'owner');
    await api.patch(secretPath('foreign-a', 'marked'), { metadata: { finalizers: null } });
  });

  it('copies follow changed, new and removed keys of their source within 2 s', async () => {
    await scene.namespaces('follow-a', 'follow-b');
    await scene.secret(HOME, 'follow', { a: '1', b: '1' });
    await scene.mirror('follow', ['follow-.']);
    await scene.copied('follow-a', 'follow', { a: '1', b: '1' });
    await scene.change(HOME, 'follow', { b: '2', c: '3' });
    await scene.copied('follow-a', 'follow', { b: '2', c: '3' }, 2000);
    await scene.copied('follow-b', 'follow', { b: '2', c: '3' }, 2000);
    await scene.change(HOME, 'follow', {});
    await scene.copied('follow-b', 'follow', {}, 2000);
  });

  it('if a source changes only its finalizers or annotations that are never copied, its copies are not written', async () => {
    await scene.namespaces('same-a');
    await scene.secret(HOME, 'same', { a: '1' });
    await scene.mirror('same', ['same-a']);
    const { metadata } = await scene.copied('same-a', 'same', { a: '1' });
    const source = await scene.api.patch(secretPath(HOME, 'same'), annotations({ 'argocd.argoproj.io/x': 'y' }));
    await scene.api.patch(secretPath(HOME, 'same'), annotations({ 'argocd.argoproj.io/x': null }));
    await scene.api.patch(secretPath(HOME, 'same'), { metadata: { finalizers: ['example.com/f'] } });
    await scene.api.patch(secretPath(HOME, 'same'), { metadata: { finalizers: null } });
    assert.notEqual(source.metadata.resourceVersion, metadata.annotations[PARENT_VERSION]);
    const untouched = async (): Promise<boolean> =>
      (await scene.find('same-a', 'same')).metadata.resourceVersion === metadata.resourceVersion;
    await staysTrue(untouched, 1000, 'the copy is not written');
    await scene.change(HOME, 'same', { a: '2' });
    await scene.copied('same-a', 'same', { a: '2' });
  });

  const typed: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    'kubernetes.io/tls': { 'tls.crt': 'crt', 'tls.key': 'key' },
    'kubernetes.io/basic-auth': { username: 'u', password: 'p' },
    'kubernetes.io/ssh-auth': { 'ssh-privatekey': 'k' },
    'example.com/own': { any: 'thing' },
  };
  it('the copy of a Secret is created with the type of the Secret', async () => {
    await scene.namespaces('types');
    for (const [index, [type, values]] of Object.entries(typed).entries()) {
      await scene.secret(HOME, `type-${index}`, values, { type });
      await scene.mirror(`type-${index}`, ['types']);
    }
    for (const [index, [type, values]] of Object.entries(typed).entries())
      assert.equal((await scene.copied('types', `type-${index}`, values)).type, type);
    const config = Buffer.from(JSON.stringify({ auths: { 'registry.example': { password: scene.canary } } }));
    const data = { '.dockerconfigjson': config.toString('base64') };
    await scene.secret(HOME, 'type-docker', {}, { type: 'kubernetes.io/dockerconfigjson', data });
    await scene.mirror('type-docker', ['types']);
    const copy = await waitFor(() => scene.find('types', 'type-docker'));
    assert.deepEqual([copy.type, copy.data], ['kubernetes.io/dockerconfigjson', data]);
  });

  it('if a source is deleted and comes back with another type, its copies are replaced', async () => {
    await scene.namespaces('retype-a');
    await scene.secret(HOME, 'retype', { username: 'u', password: 'p' });
    await scene.mirror('retype', ['retype-a']);
    const first = await scene.copied('retype-a', 'retype', { username: 'u', password: 'p' });
    await scene.api.delete(secretPath(HOME, 'retype'));
    assert.equal((await scene.ready('retype', 'NoSecret')).mirrorStatus, 'Pending');
    const left = await scene.find('retype-a', 'retype');
    assert.equal(left?.metadata.resourceVersion, first.metadata.resourceVersion, 'copies outlive their source');
    await scene.secret(HOME, 'retype', { username: 'u', password: 'p' }, { type: 'kubernetes.io/basic-auth' });
    const second = await waitFor(async () => {
      const now = await scene.find('retype-a', 'retype');
      return now?.type === 'kubernetes.io/basic-auth' && now;
    });
    assert.notEqual(second.metadata.uid, first.metadata.uid);
    assert.ok(sameData(second.data, first.data));
    await scene.ready('retype', 'Synced');
  });

  it("an immutable copy is replaced when the source changes, even if its values occur in the server's error message", async () => {
    await scene.namespaces('words-a');
    const words = ['data', 'immutable', 'type', 'field is immutable when `immutable` is set'];
    const valuesWith = (last: string): Record<string, string> =>
      Object.fromEntries([...words, last].map((word, index) => [`k${index}`, Buffer.from(word).toString('base64')]));
    await scene.secret(HOME, 'words', {}, { data: valuesWith('old') });
    await scene.mirror('words', ['words-a']);
    await scene.ready('words', 'Synced', /^1 copy/);
    await scene.api.patch(secretPath('words-a', 'words'), { immutable: true });
    await scene.api.patch(secretPath(HOME, 'words'), { data: valuesWith('new') });
    const copy = await waitFor(async () => {
      const found = await scene.find('words-a', 'words');
      return found?.data?.k4 === valuesWith('new')['k4'] && found;
    });
    assert.equal(copy.immutable, undefined);
    await scene.ready('words', 'Synced');
  });

  it('copies of an immutable source are not immutable themselves', async () => {
    await scene.namespaces('ice-a');
    await scene.secret(HOME, 'ice', { a: '1' }, { immutable: true });
    await scene.mirror('ice', ['ice-a']);
    assert.equal((await scene.copied('ice-a', 'ice', { a: '1' })).immutable, undefined);
  });
});

describe('changes of copies by hand', { concurrency: 8 }, () => {
  const values = { a: '1', b: '2' };
  const made = async (name: string): Promise<Json> => {
    await scene.namespaces(name);
    await scene.secret(HOME, name, values, { metadata: { labels: { app: 'web' } } });
    await scene.mirror(name, [name]);
    const copy = await scene.copied(name, name, values);
    await scene.ready(name, 'Synced');
    return copy;
  };

  it('a deleted copy is created again', async () => {
    const before = await made('hand-delete');
    await scene.api.delete(secretPath('hand-delete', 'hand-delete'));
    const copy = await waitFor(() => scene.find('hand-delete', 'hand-delete'), { message: 'it' });
    assert.notEqual(copy.metadata.uid, before.metadata.uid);
    assert.ok(sameData(copy.data, scene.data(values)));
  });

  const edits: Readonly<Record<string, Json>> = {
    'an edited value': { data: { a: 'aGFuZA==' } },
    'a removed key': { data: { a: null } },
    'all keys removed': { data: null },
    'an edited label': labels({ app: 'hand' }),
  };
  for (const [index, [title, edit]] of Object.entries(edits).entries()) {
    it(`if a user edits a copy by hand (${title}), Keyferry restores its content`, async () => {
      const name = `hand-edit-${index}`;
      const { metadata } = await made(name);
      const edited = await scene.api.patch(secretPath(name, name), edit);
      assert.notEqual(edited.metadata.resourceVersion, metadata.resourceVersion);
      const right = await waitFor(
        async () => {
          const now = await scene.find(name, name);
          return sameData(now.data ?? {}, scene.data(values)) && now.metadata.labels['app'] === 'web' && now;
        },
        { message: 'the repair' },
      );
      assert.equal(right.metadata.uid, metadata.uid);
    });
  }

  it('if a user removes the label keyferry.dev/copy from a copy, Keyferry restores the label', async () => {
    await made('hand-label');
    const path = secretPath('hand-label', 'hand-label');
    await scene.api.patch(path, labels({ [COPY_LABEL]: null }));
    await waitFor(async () => (await scene.api.get(path)).metadata.labels[COPY_LABEL] === 'mirrors');
    await scene.change(HOME, 'hand-label', { a: '9' });
    await scene.copied('hand-label', 'hand-label', { a: '9' });
  });

  it('if a user removes the annotation owned-by from a copy, the copy belongs to no mirror, and its mirror reports Conflict', async () => {
    await made('hand-free');
    const path = secretPath('hand-free', 'hand-free');
    const freed = await scene.api.patch(path, annotations({ [OWNED_BY]: null }));
    await scene.change(HOME, 'hand-free', { a: '9' });
    const status = await scene.ready('hand-free', 'Conflict', /hand-free/);
    assert.equal(status.mirrorStatus, 'Active');
    await scene.event('hand-free', 'Conflict', /hand-free/);
    await scene.api.delete(mirrorPath('hand-free'));
    await scene.gone(mirrorPath('hand-free'));
    assert.deepEqual(await scene.api.get(path), freed);
  });
});
