/**
 * A SecretMirror chooses name, keys, type, labels and annotations of its copies, and changes nothing while it is
 * suspended.
 */
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { HOME, labels, mirrorPath, MirrorScene, secretPath } from './support.ts';

let scene: MirrorScene;
let operator: Keyferry;

before(async () => {
  scene = await MirrorScene.open({ controllerManager: false });
  operator = await scene.operator();
  await scene.namespaces('team-a', 'team-b');
});
after(() => scene.close());

/** Changes fields of a mirror's destination. `null` removes a field. */
async function choose(name: string, destination: Json): Promise<void> {
  await scene.api.patch(mirrorPath(name), { spec: { destination } });
}

async function hasMetadata(namespace: string, name: string, wanted: (metadata: Json) => boolean): Promise<void> {
  let seen: Json;
  await waitFor(
    async () => {
      seen = (await scene.find(namespace, name))?.metadata;
      return seen !== undefined && wanted(seen);
    },
    { message: () => `metadata of ${namespace}/${name}: ${JSON.stringify(seen)}` },
  );
}

describe('the name of the copies', () => {
  it('if two mirrors of one Secret give their copies different names, a namespace gets a copy of each mirror', async () => {
    await scene.secret(HOME, 'named', { a: '1' });
    await scene.mirror('named', ['team-a']);
    await scene.mirror('renamed', ['team-a', 'default'], { source: { name: 'named' }, destination: { name: 'other' } });
    await scene.copied('team-a', 'named', { a: '1' });
    await scene.copied('team-a', 'other', { a: '1' });
    // A copy whose name differs from its source's may be in the namespace of the source.
    await scene.copied(HOME, 'other', { a: '1' });
    await scene.change(HOME, 'named', { a: '2' });
    await scene.copied('team-a', 'other', { a: '2' });
    await choose('renamed', { name: 'third' });
    await scene.copied('team-a', 'third', { a: '2' });
    await scene.gone(secretPath('team-a', 'other'), secretPath(HOME, 'other'));
    await scene.copied('team-a', 'named', { a: '2' });
    await scene.ready('renamed', 'Synced', /^2 copies/);
  });

  it('if a mirror with deletePolicy retain changes the name of its copies, the copies with the old name stay', async () => {
    await scene.secret(HOME, 'kept', { a: '1' });
    await scene.mirror('kept', ['team-a'], { destination: { name: 'kept-1' }, deletePolicy: 'retain' });
    await scene.copied('team-a', 'kept-1', { a: '1' });
    await choose('kept', { name: 'kept-2' });
    await scene.copied('team-a', 'kept-2', { a: '1' });
    await staysTrue(async () => (await scene.find('team-a', 'kept-1')) !== undefined, 1500, 'the copy of the old name');
  });

  it('if a mirror takes its own copy as its source, Keyferry does not delete that Secret, not even with the mirror', async () => {
    await scene.secret(HOME, 'old', { a: '1' });
    await scene.mirror('renewed', [HOME, 'team-a'], { source: { name: 'old' }, destination: { name: 'new' } });
    const { metadata } = await scene.copied(HOME, 'new', { a: '1' });
    await scene.copied('team-a', 'new', { a: '1' });
    await scene.api.patch(mirrorPath('renewed'), { spec: { source: { name: 'new' }, destination: { name: null } } });
    await scene.ready('renewed', 'Synced', /^1 copy/);
    await scene.api.delete(secretPath(HOME, 'old'));
    await scene.secret(HOME, 'next', { a: '2' });
    await scene.api.patch(mirrorPath('renewed'), { spec: { source: { name: 'next' } } });
    await scene.copied('team-a', 'next', { a: '2' });
    await staysTrue(
      async () => (await scene.find(HOME, 'new'))?.metadata.uid === metadata.uid,
      1500,
      'the source before, which has the only data',
    );
    await scene.api.patch(mirrorPath('renewed'), { spec: { source: { name: 'new' } } });
    await scene.copied('team-a', 'new', { a: '1' });
    await scene.api.delete(mirrorPath('renewed'));
    await scene.gone(mirrorPath('renewed'), secretPath('team-a', 'new'));
    await staysTrue(
      async () => (await scene.find(HOME, 'new'))?.metadata.uid === metadata.uid,
      1500,
      'the source, which has the only data',
    );
  });
});

describe('the keys of the copies', () => {
  it('if a mirror lists keys, its copies have only these keys, under the names that the list gives them', async () => {
    await scene.secret(HOME, 'keys', { a: '1', b: '2', c: '3' });
    await scene.mirror('keys', ['team-.'], {
      destination: { keys: [{ from: 'a' }, { from: 'b', to: 'B.txt' }, { from: 'x', optional: true }] },
    });
    for (const namespace of ['team-a', 'team-b']) {
      const copy = await waitFor(async () => await scene.find(namespace, 'keys'), { message: () => scene.tail() });
      assert.deepEqual(copy.data, { a: scene.value('1'), 'B.txt': scene.value('2') });
    }
    await scene.ready('keys', 'Synced', /^2 copies/);
    await scene.change(HOME, 'keys', { a: '4', b: '2', c: '5', x: '6' });
    await scene.copied('team-b', 'keys', { a: '4', 'B.txt': '2', x: '6' });
    // The list now gives the key `a` another value. The copy keeps its key names, and the source does not change.
    await choose('keys', { keys: [{ from: 'c', to: 'a' }, { from: 'b', to: 'B.txt' }, { from: 'x' }] });
    await scene.copied('team-a', 'keys', { a: '5', 'B.txt': '2', x: '6' });
    await choose('keys', { keys: null });
    await scene.copied('team-a', 'keys', { a: '4', b: '2', c: '5', x: '6' });
  });

  it('while the source lacks a key that the mirror lists, Keyferry writes no copy, and the status names the key', async () => {
    await scene.secret(HOME, 'lacking', { a: '1' });
    await scene.mirror('lacking', ['team-a'], { destination: { keys: [{ from: 'a' }, { from: 'tls.key' }] } });
    await scene.ready(
      'lacking',
      'KeyNotFound',
      /namespace \S+: spec\.destination\.keys\[\d\]\.from: the source has no key "tls\.key"; nothing is written/,
    );
    assert.equal(await scene.find('team-a', 'lacking'), undefined);
    await scene.change(HOME, 'lacking', { a: '1', 'tls.key': '2' });
    await scene.copied('team-a', 'lacking', { a: '1', 'tls.key': '2' });
    await scene.ready('lacking', 'Synced');
    // If the source loses the key later, an existing copy keeps its values.
    await scene.change(HOME, 'lacking', { a: '3' });
    await scene.ready('lacking', 'KeyNotFound');
    await scene.copied('team-a', 'lacking', { a: '1', 'tls.key': '2' });
  });

  it('a mirror can copy only ca.crt of a TLS Secret, if it sets another type for the copy', async () => {
    const data = scene.data({ 'tls.crt': 'c', 'tls.key': 'k', 'ca.crt': 'ca' });
    await scene.api.create({
      apiVersion: 'v1',
      kind: 'Secret',
      type: 'kubernetes.io/tls',
      data,
      metadata: { namespace: HOME, name: 'tls' },
    });
    await scene.mirror('tls', ['team-a'], { destination: { name: 'ca', keys: [{ from: 'ca.crt' }] } });
    // The copy first gets the type of the source, kubernetes.io/tls, and the server refuses that type without tls.crt.
    await scene.ready('tls', 'SyncError', /Required value/);
    await choose('tls', { secretType: 'Opaque' });
    const copy = await scene.copied('team-a', 'ca', { 'ca.crt': 'ca' });
    assert.equal(copy.type, 'Opaque');
    await choose('tls', { secretType: 'example.com/ca' });
    await waitFor(async () => (await scene.find('team-a', 'ca'))?.type === 'example.com/ca', {
      message: () => scene.tail(),
    });
    await scene.ready('tls', 'Synced');
  });

  it('if a user changes the keys of copies while Keyferry is stopped, the next start applies the change', async () => {
    await scene.secret(HOME, 'offline', { a: '1', b: '2' });
    await scene.mirror('offline', ['team-a', 'team-b'], { destination: { keys: [{ from: 'a', to: 'x' }] } });
    await scene.copied('team-a', 'offline', { x: '1' });
    await scene.copied('team-b', 'offline', { x: '1' });
    await operator.stop();
    // The version of the source and the key names of the copy stay the same, so they do not show this change.
    await choose('offline', { keys: [{ from: 'b', to: 'x' }] });
    operator = await scene.operator();
    await scene.copied('team-a', 'offline', { x: '2' });
    await scene.copied('team-b', 'offline', { x: '2' });
  });
});

describe('labels and annotations of the copies', () => {
  it('copies get the labels and annotations of their mirror and source, and lose those that the mirror no longer has', async () => {
    await scene.secret(
      HOME,
      'labelled',
      { a: '1' },
      { metadata: { labels: { app: 'x', tier: 'source' }, annotations: { note: 'n' } } },
    );
    await scene.mirror('labelled', ['team-a'], {
      destination: {
        labels: { tier: 'mirror', 'argocd.argoproj.io/secret-type': 'cluster' },
        annotations: { more: 'm' },
      },
    });
    await hasMetadata('team-a', 'labelled', (metadata) => {
      const { app, tier, ['argocd.argoproj.io/secret-type']: type } = metadata.labels;
      const { note, more } = metadata.annotations;
      return app === 'x' && tier === 'mirror' && type === 'cluster' && note === 'n' && more === 'm';
    });
    await choose('labelled', { labels: null, annotations: null });
    await hasMetadata('team-a', 'labelled', ({ labels: its, annotations }) => {
      return its.tier === 'source' && !('argocd.argoproj.io/secret-type' in its) && !('more' in annotations);
    });
  });

  it('copyLabels copies labels whose whole key matches a pattern, but never the marks of Keyferry or an original', async () => {
    await scene.secret(HOME, 'chosen', { a: '1' });
    const given = {
      app: 'x',
      'app.kubernetes.io/instance': 'i',
      'argocd.argoproj.io/secret-type': 'repository',
      'k8s-replicator/x': 'y',
    };
    await scene.api.patch(secretPath(HOME, 'chosen'), labels(given));
    await scene.mirror('chosen', ['team-a'], {
      destination: { copyLabels: ['app', 'argocd\\.argoproj\\.io/secret-.*', 'k8s-.*'], copyAnnotations: [] },
    });
    const copy = await scene.copied('team-a', 'chosen', { a: '1' });
    assert.deepEqual(copy.metadata.labels, {
      app: 'x',
      'argocd.argoproj.io/secret-type': 'repository',
      'keyferry.dev/copy': 'mirrors',
    });
  });
});

describe('a mirror of a ConfigMap', () => {
  const configMapPath = (namespace: string, name: string): string =>
    `/api/v1/namespaces/${namespace}/configmaps/${name}`;
  const holds = async (namespace: string, name: string, wanted: Json): Promise<void> => {
    await waitFor(
      async () => {
        const found = await scene.api.find(configMapPath(namespace, name));
        return isDeepStrictEqual([found?.data, found?.binaryData], [wanted.data, wanted.binaryData]);
      },
      { message: () => scene.tail() },
    );
  };

  it('copies of a ConfigMap have its texts and binary data, follow its changes, and are deleted with the mirror', async () => {
    const metadata = { namespace: HOME, name: 'settings' };
    const content = { data: { 'a.conf': 'a', 'b.conf': 'b' }, binaryData: { bytes: 'AP8=' } };
    await scene.api.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata, ...content });
    // Another mirror copies a Secret with the same name.
    await scene.secret(HOME, 'settings', { a: '1' });
    await scene.mirror('settings', ['team-a']);
    await scene.mirror('settings-map', ['team-.'], { source: { type: 'configmap', name: 'settings' } });
    await holds('team-a', 'settings', content);
    await holds('team-b', 'settings', content);
    await scene.copied('team-a', 'settings', { a: '1' });
    await scene.ready('settings-map', 'Synced', /^2 copies/);
    await scene.api.patch(configMapPath(HOME, 'settings'), { data: { 'a.conf': 'c' } });
    await holds('team-b', 'settings', { ...content, data: { ...content.data, 'a.conf': 'c' } });
    await scene.api.delete(configMapPath('team-b', 'settings'));
    await holds('team-b', 'settings', { ...content, data: { ...content.data, 'a.conf': 'c' } });
    const keys = [{ from: 'bytes', to: 'raw' }, { from: 'b.conf' }];
    await choose('settings-map', { name: 'chosen-settings', keys });
    await holds('team-a', 'chosen-settings', { data: { 'b.conf': 'b' }, binaryData: { raw: 'AP8=' } });
    await scene.gone(configMapPath('team-a', 'settings'), configMapPath('team-b', 'settings'));
    await operator.stop();
    operator = await scene.operator();
    await scene.api.delete(mirrorPath('settings-map'));
    await scene.gone(configMapPath('team-a', 'chosen-settings'), configMapPath('team-b', 'chosen-settings'));
    await scene.copied('team-a', 'settings', { a: '1' });
  });
});

describe('a mirror that is suspended', () => {
  it('a suspended mirror writes and deletes nothing until its suspension ends', async () => {
    await scene.secret(HOME, 'paused', { a: '1' });
    await scene.mirror('paused', ['team-.']);
    await scene.copied('team-a', 'paused', { a: '1' });
    await scene.copied('team-b', 'paused', { a: '1' });
    await scene.ready('paused', 'Synced');
    const suspend = (value: boolean | null): Promise<Json> =>
      scene.api.patch(mirrorPath('paused'), { spec: { suspend: value } });
    await suspend(true);
    const { mirrorStatus } = await scene.ready('paused', 'Suspended');
    assert.equal(mirrorStatus, 'Active');
    await scene.change(HOME, 'paused', { a: '2' });
    await choose('paused', { namespaces: ['team-a'] });
    await scene.api.delete(secretPath('team-a', 'paused'));
    await scene.ready('paused', 'Suspended');
    await staysTrue(
      async () => {
        const [a, b] = [await scene.find('team-a', 'paused'), await scene.find('team-b', 'paused')];
        return a === undefined && b?.data.a === scene.value('1');
      },
      2000,
      'the copies of a suspended mirror',
    );
    await suspend(null);
    await scene.copied('team-a', 'paused', { a: '2' });
    await scene.gone(secretPath('team-b', 'paused'));
    await scene.ready('paused', 'Synced');
    await suspend(true);
    await scene.ready('paused', 'Suspended');
    await scene.api.delete(mirrorPath('paused'));
    await scene.gone(secretPath('team-a', 'paused'), mirrorPath('paused'));
  });
});
