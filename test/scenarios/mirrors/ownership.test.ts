/**
 * Who owns a Secret: Keyferry never overwrites a user's Secret, only one of several mirrors gets a target, and marks on
 * a copy name its owner.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { rowsOf } from '../../support/long.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import {
  annotations,
  COPY_LABEL,
  HOME,
  LAST_SYNC_AT,
  mirrorPath,
  MirrorScene,
  OWNED_BY,
  PARENT_VERSION,
  PLACE,
  RETAIN,
  secretPath,
  SOURCE_TYPE,
} from './support.ts';

let scene: MirrorScene;

before(async () => {
  scene = await MirrorScene.open({ controllerManager: false });
  await scene.operator();
});
after(() => scene.close());

const untouched = async (object: Json): Promise<boolean> => {
  const { namespace, name } = object.metadata;
  const now = await scene.find(namespace, name);
  return JSON.stringify(now) === JSON.stringify(object);
};

/** Creates a namespace, a source and a mirror with the same name, and waits until the mirror is Synced. */
const settled = async (name: string, spec: Json = {}): Promise<Json> => {
  await scene.namespaces(name);
  await scene.secret(HOME, name, { a: '1' });
  await scene.mirror(name, [name], spec);
  const copy = await scene.copied(name, name, { a: '1' });
  await scene.ready(name, 'Synced');
  return copy;
};

/** Status writes of one mirror are 1 s apart. So every effect of an event is visible after this time, ms. */
const SETTLE_MS = 1000;

describe("a user's Secret in the place of a copy", { concurrency: 8 }, () => {
  const marked = (mark: string): Json => ({ metadata: { annotations: { [OWNED_BY]: mark } } });
  /** `%` is replaced by the mirror's name. */
  const marks: Readonly<Record<string, Json>> = {
    'without any mark': {},
    'with an empty mark': marked(''),
    'with a mark that names no namespace': marked('%'),
    'with a mark of three parts': marked(`${HOME}/%/x`),
    'with all labels and annotations of a copy except the mark': {
      metadata: {
        labels: { [COPY_LABEL]: 'mirrors' },
        annotations: { [SOURCE_TYPE]: 'secret', [PARENT_VERSION]: '1', [LAST_SYNC_AT]: 'x' },
      },
    },
  };
  for (const [index, [title, more]] of rowsOf(Object.entries(marks), 3).entries()) {
    it(`a user's Secret with the namespace and name of a copy, ${title}, stays unchanged when the mirror is edited or deleted`, async () => {
      const name = `foreign-${index}`;
      const free = `${name}-free`;
      await scene.namespaces(name, free);
      const text = JSON.stringify(more).replaceAll('%', name);
      const foreign = await scene.secret(name, name, { theirs: 'x' }, JSON.parse(text));
      await scene.secret(HOME, name, { a: '1' });
      await scene.mirror(name, [name, free]);
      await scene.copied(free, name, { a: '1' });
      const status = await scene.ready(name, 'Conflict', new RegExp(`${name}\\b`));
      assert.equal(status.mirrorStatus, 'Active');
      const ready = status.conditions[0];
      assert.equal(ready.status, 'False');
      await scene.event(name, 'Conflict', new RegExp(`namespace ${name}:`));
      await scene.change(HOME, name, { a: '2' });
      await scene.copied(free, name, { a: '2' });
      assert.ok(await untouched(foreign), 'after a change of the source');
      await scene.api.delete(secretPath(HOME, name));
      await scene.ready(name, 'NoSecret');
      assert.ok(await untouched(foreign), 'after the source was deleted');
      await scene.secret(HOME, name, { a: '3' });
      await scene.copied(free, name, { a: '3' });
      await scene.ready(name, 'Conflict');
      await scene.api.patch(mirrorPath(name), { spec: { destination: { namespaces: [free] } } });
      await scene.ready(name, 'Synced');
      assert.ok(await untouched(foreign), 'after a narrowing');
      await scene.api.patch(mirrorPath(name), { spec: { destination: { namespaces: [name, free] } } });
      await scene.ready(name, 'Conflict');
      await scene.api.delete(mirrorPath(name));
      await scene.gone(mirrorPath(name), secretPath(free, name));
      await staysTrue(() => untouched(foreign), SETTLE_MS, 'the foreign Secret, after the mirror was deleted');
    });
  }

  it('if a user marks a Secret as a retained copy of another mirror, it stays; without the retain mark, the mirror that claims it takes it over', async () => {
    // The mark names the mirror `bystander`, which does not claim this Secret. So for Keyferry it is a copy that
    // `bystander` left.
    await settled('bystander');
    await scene.namespaces('forged');
    const forged = await scene.secret(
      'forged',
      'forged',
      { theirs: 'x' },
      {
        metadata: {
          labels: { [COPY_LABEL]: 'mirrors' },
          annotations: { [OWNED_BY]: `${HOME}/bystander`, [PLACE]: 'forged/forged', [RETAIN]: 'true' },
        },
      },
    );
    await scene.secret(HOME, 'forged', { a: '1' });
    await scene.mirror('forged', ['forged']);
    await scene.ready('forged', 'Conflict', /bystander/);
    await staysTrue(() => untouched(forged), SETTLE_MS, 'a copy that its mirror retains');
    await scene.api.patch(secretPath('forged', 'forged'), annotations({ [RETAIN]: null }));
    await scene.copied('forged', 'forged', { a: '1' });
  });

  it('if a user creates a Secret in place of a copy that was just deleted, the deletion of the mirror does not delete that Secret', async () => {
    await settled('race');
    const path = secretPath('race', 'race');
    await scene.api.patch(path, { metadata: { finalizers: ['example.com/hold'] } });
    await scene.api.delete(mirrorPath('race'));
    await waitFor(async () => (await scene.find('race', 'race'))?.metadata.deletionTimestamp !== undefined);
    await scene.api.patch(path, { metadata: { finalizers: null } });
    await scene.gone(path);
    const theirs = await scene.secret('race', 'race', { theirs: 'x' });
    await scene.gone(mirrorPath('race'));
    await staysTrue(() => untouched(theirs), SETTLE_MS, 'the user’s Secret');
  });
});

describe('copies made by the original', { concurrency: 4 }, () => {
  const original = (name: string, more: Json = {}): Json => ({
    metadata: {
      annotations: {
        [OWNED_BY]: `${HOME}/${name}`,
        'mirrors.kts.studio/last-sync-at': '2022-08-05 21:28:55.123456789 +0000 UTC m=+12.34',
        'mirrors.kts.studio/parent-version': '17',
        'mirrors.kts.studio/source-type': 'secret',
      },
    },
    ...more,
  });

  it('a mirror takes over the copies that the original made, and writes no data that are up to date', async () => {
    await scene.namespaces('adopt-a', 'adopt-b');
    const same = await scene.secret('adopt-a', 'adopt', { a: '1' }, original('adopt'));
    await scene.secret('adopt-b', 'adopt', { a: 'old' }, original('adopt'));
    await scene.secret(HOME, 'adopt', { a: '1' });
    await scene.mirror('adopt', ['adopt-.']);
    await scene.ready('adopt', 'Synced');
    const adopted = await scene.copied('adopt-a', 'adopt', { a: '1' });
    assert.equal(adopted.metadata.uid, same.metadata.uid);
    assert.equal(adopted.metadata.labels[COPY_LABEL], 'mirrors');
    assert.equal(adopted.metadata.annotations[PLACE], 'adopt-a/adopt');
    const manager = adopted.metadata.managedFields?.find((entry: Json) => entry.manager === 'keyferry');
    assert.equal(manager?.fieldsV1['f:data'], undefined, 'its data were not written');
    await scene.copied('adopt-b', 'adopt', { a: '1' });
  });

  it('a copy that the original made is deleted with its mirror, also if Keyferry never saw the mirror before', async () => {
    await scene.namespaces('leave-a', 'leave-b');
    await scene.secret('leave-a', 'leave', { a: '1' }, original('leave'));
    const other = await scene.secret('leave-b', 'leave', { a: '1' }, original('leave-not'));
    await scene.api.create({
      apiVersion: 'mirrors.kts.studio/v1alpha2',
      kind: 'SecretMirror',
      metadata: { name: 'leave', namespace: HOME, finalizers: ['mirrors.kts.studio/finalizer'] },
      spec: { source: { name: 'leave' }, destination: { namespaces: ['leave-a'] } },
    });
    await scene.api.delete(mirrorPath('leave'));
    await scene.gone(mirrorPath('leave'), secretPath('leave-a', 'leave'));
    assert.ok(await untouched(other));
  });
});

describe('two mirrors with one target', { concurrency: 4 }, () => {
  it('if two mirrors have one target, the older one copies, and the other takes over when the older one is deleted', async () => {
    await scene.namespaces('twice', 'twice-other');
    await scene.secret(HOME, 'twice', { from: 'older' });
    await scene.secret('twice-other', 'twice', { from: 'younger' });
    const older = await scene.mirror('twice', ['twice']);
    await scene.copied('twice', 'twice', { from: 'older' });
    // `creationTimestamp` has whole seconds, and within one second the uid decides. So the younger mirror is created at
    // least 1 s after the older one.
    await waitFor(() => Date.now() >= Date.parse(older.metadata.creationTimestamp) + 1000, { message: 'a second' });
    await scene.mirror('twice-b', ['twice'], { source: { name: 'twice' } }, 'twice-other');
    const lost = await scene.ready('twice-b', 'Conflict', /SecretMirror default\/twice\b/, 'twice-other');
    assert.equal(lost.mirrorStatus, 'Active');
    await scene.ready('twice', 'Synced');
    await scene.change('twice-other', 'twice', { from: 'changed' });
    const before = await scene.copied('twice', 'twice', { from: 'older' });
    await staysTrue(() => untouched(before), SETTLE_MS, 'the older mirror’s copy');
    await scene.api.delete(mirrorPath('twice'));
    await scene.gone(mirrorPath('twice'));
    const after = await scene.copied('twice', 'twice', { from: 'changed' });
    assert.equal(after.metadata.annotations[OWNED_BY], 'twice-other/twice-b');
    await scene.ready('twice-b', 'Synced', /(?:)/, 'twice-other');
  });

  it('if the older of two mirrors with one target has no source, the younger makes the copy, and keeps it when that source appears', async () => {
    await scene.namespaces('blocked', 'blocked-other');
    const older = await scene.mirror('blocked', ['blocked']);
    await scene.ready('blocked', 'NoSecret');
    await waitFor(() => Date.now() >= Date.parse(older.metadata.creationTimestamp) + 1000, { message: 'a second' });
    await scene.mirror('blocked', ['blocked'], {}, 'blocked-other');
    await scene.secret('blocked-other', 'blocked', { from: 'younger' });
    const { metadata } = await scene.copied('blocked', 'blocked', { from: 'younger' });
    await scene.ready('blocked', 'Synced', /(?:)/, 'blocked-other');
    await scene.secret(HOME, 'blocked', { from: 'older' });
    await scene.ready('blocked', 'Conflict', /SecretMirror blocked-other\/blocked/);
    await scene.change('blocked-other', 'blocked', { from: 'changed' });
    await scene.copied('blocked', 'blocked', { from: 'changed' });
    await scene.api.delete(secretPath('blocked-other', 'blocked'));
    await scene.ready('blocked', 'NoSecret', /(?:)/, 'blocked-other');
    await scene.copied('blocked', 'blocked', { from: 'changed' });
    await scene.api.delete(mirrorPath('blocked', 'blocked-other'));
    const taken = await scene.copied('blocked', 'blocked', { from: 'older' });
    assert.equal(taken.metadata.uid, metadata.uid);
    // The target is free again, and both sources exist: the oldest mirror gets it.
    await scene.ready('blocked', 'Synced');
  });

  it('if a mirror copies the copy of another mirror, changes reach both copies, and each copy has only the mark of its own mirror', async () => {
    await scene.namespaces('chain-1', 'chain-2');
    await scene.secret(HOME, 'chain', { a: '1' }, { metadata: { labels: { app: 'web' } } });
    await scene.mirror('chain', ['chain-1']);
    await scene.mirror('chain-next', ['chain-2'], { source: { name: 'chain' } }, 'chain-1');
    const last = await scene.copied('chain-2', 'chain', { a: '1' });
    assert.equal(last.metadata.annotations[OWNED_BY], 'chain-1/chain-next');
    await scene.change(HOME, 'chain', { a: '2' });
    await scene.copied('chain-2', 'chain', { a: '2' });
    await scene.api.patch(secretPath(HOME, 'chain'), { metadata: { labels: { app: null, new: 'x' } } });
    await waitFor(async () => {
      const { metadata } = await scene.find('chain-2', 'chain');
      return metadata.labels.new === 'x' && metadata.labels.app === undefined;
    });
  });
});

describe('patterns of a mirror', { concurrency: 4 }, () => {
  it("overlapping patterns make one copy per namespace; a pattern that matches the source's namespace leaves the source unchanged", async () => {
    await scene.namespaces('over-a');
    const source = await scene.secret(HOME, 'over', { a: '1' });
    await scene.mirror('over', ['over-.', 'over-a', '.*ver-a', HOME, 'defaul.']);
    const copy = await scene.copied('over-a', 'over', { a: '1' });
    await scene.ready('over', 'Synced', /^1 copy is up to date$/);
    await staysTrue(() => untouched(copy), SETTLE_MS, 'the copy');
    assert.ok(await untouched(source));
    await scene.api.delete(mirrorPath('over'));
    await scene.gone(mirrorPath('over'));
    assert.ok(await untouched(source));
  });

  it('patterns of a mirror have RE2 syntax, and match in linear time', async () => {
    const long = `re2-${'a'.repeat(58)}`;
    await scene.namespaces('re2-one', 're2-22', long);
    await scene.secret(HOME, 're2', { a: '1' });
    await scene.mirror('re2', [
      '(?i)RE2-ONE',
      're2-\\d{2}',
      '\\Are2-[[:digit:]]+\\z',
      '(?P<n>re2)-\\pL+!',
      're2-(a*)*(a*)*(a*)*(a*)*b',
    ]);
    await scene.copied('re2-one', 're2', { a: '1' }, 2000);
    await scene.copied('re2-22', 're2', { a: '1' }, 2000);
    await scene.ready('re2', 'Synced', /^2 copies/);
    assert.equal(await scene.find(long, 're2'), undefined);
  });
});
