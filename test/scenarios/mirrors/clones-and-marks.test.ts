/**
 * A mark on a copy counts only in the place for which Keyferry wrote it. Objects that users clone, restore or mark by
 * hand belong to the users, and the source of a copy is never deleted.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { isDeepStrictEqual } from 'node:util';

import type { Json } from '../../support/api.ts';
import { rowsOf } from '../../support/long.ts';
import { staysTrue } from '../../support/wait-for.ts';
import {
  annotations,
  COPY_LABEL,
  HOME,
  mirrorPath,
  MirrorScene,
  OWNED_BY,
  PLACE,
  RETAIN,
  secretPath,
} from './support.ts';

let scene: MirrorScene;
const RUN = { command: 'run', args: ['--controllers', 'mirrors,replicator'] } as const;

before(async () => {
  scene = await MirrorScene.open({ controllerManager: false });
  await scene.operator(RUN);
  await settled('bystander');
});
after(() => scene.close());

/** Keyferry has reacted to an event after this time, ms. */
const SETTLE_MS = 1000;

const untouched = async (...objects: readonly Json[]): Promise<boolean> => {
  const now = await Promise.all(objects.map(({ metadata }) => scene.find(metadata.namespace, metadata.name)));
  return JSON.stringify(now) === JSON.stringify(objects);
};

/**
 * Creates an object again with its marks, in another namespace or with another name. A user does so with `kubectl get
 * -o yaml` and `kubectl apply`.
 */
const clone = async ({ metadata, data, type }: Json, namespace: string, name: string = metadata.name): Promise<Json> =>
  await scene.api.create({
    apiVersion: 'v1',
    kind: 'Secret',
    type,
    data,
    metadata: { namespace, name, labels: metadata.labels, annotations: metadata.annotations },
  });

/** Creates a mirror with one copy in namespace `<name>-a`. Namespace `<name>-b` exists and gets no copy. */
const settled = async (name: string, spec: Json = {}): Promise<Json> => {
  await scene.namespaces(`${name}-a`, `${name}-b`);
  await scene.secret(HOME, name, { a: '1' });
  await scene.mirror(name, [`${name}-a`], spec);
  const copy = await scene.copied(`${name}-a`, name, { a: '1' });
  await scene.ready(name, 'Synced');
  return copy;
};

/** Creates two mirrors: one copies from HOME to `<name>-a`, the other copies that copy to `<name>-b`. */
const chain = async (name: string): Promise<void> => {
  await settled(name);
  await scene.mirror('next', [`${name}-b`], { source: { name } }, `${name}-a`);
  await scene.copied(`${name}-b`, name, { a: '1' });
  await scene.ready('next', 'Synced', /(?:)/, `${name}-a`);
};

/**
 * Waits until Keyferry has handled all earlier events: creates a copy without a mirror, and waits until Keyferry
 * deletes it.
 */
const waitForEvents = async (name: string): Promise<void> => {
  await scene.secret(
    `${name}-a`,
    `${name}-unwanted`,
    { a: '1' },
    {
      metadata: {
        labels: { [COPY_LABEL]: 'mirrors' },
        annotations: { [OWNED_BY]: `${HOME}/${name}-never`, [PLACE]: `${name}-a/${name}-unwanted` },
      },
    },
  );
  await scene.gone(secretPath(`${name}-a`, `${name}-unwanted`));
};

describe('a clone of a copy', { concurrency: 4 }, () => {
  it('if a user clones a copy to another namespace or name, the clone stays unchanged when its mirror is edited or deleted', async () => {
    const copy = await settled('cloned');
    assert.equal(copy.metadata.annotations[PLACE], 'cloned-a/cloned');
    const clones = [await clone(copy, 'cloned-b'), await clone(copy, 'cloned-a', 'cloned-too')];
    await waitForEvents('cloned');
    await scene.change(HOME, 'cloned', { a: '2' });
    await scene.copied('cloned-a', 'cloned', { a: '2' });
    assert.ok(await untouched(...clones), 'after a change of the source');
    await scene.api.patch(mirrorPath('cloned'), { spec: { destination: { namespaces: ['cloned-.'] } } });
    await scene.ready('cloned', 'Conflict', /namespace cloned-b: .*cloned from a copy.*keyferry\.dev\/target/);
    await scene.event('cloned', 'Conflict', /cloned-b/);
    await scene.api.patch(mirrorPath('cloned'), { spec: { destination: { namespaces: ['cloned-a'] } } });
    await scene.ready('cloned', 'Synced');
    await scene.api.delete(mirrorPath('cloned'));
    await scene.gone(mirrorPath('cloned'), secretPath('cloned-a', 'cloned'));
    await waitForEvents('cloned');
    await staysTrue(() => untouched(...clones), SETTLE_MS, 'the clones, after the mirror was deleted');
  });

  it('if a mirror with deletePolicy retain is deleted, its copies get the retain mark, and clones of its copies do not', async () => {
    const copy = await settled('kept', { deletePolicy: 'retain' });
    const { metadata } = await clone(copy, 'kept-b');
    const theirs = await scene.api.patch(secretPath('kept-b', metadata.name), annotations({ [RETAIN]: null }));
    await scene.api.delete(mirrorPath('kept'));
    await scene.gone(mirrorPath('kept'));
    await waitForEvents('kept');
    await staysTrue(() => untouched(theirs), SETTLE_MS, 'the clone');
    assert.equal((await scene.find('kept-a', 'kept')).metadata.annotations[RETAIN], 'true');
  });
});

describe('a source with the marks of a copy', { concurrency: 4 }, () => {
  it('if a user restores a deleted source from one of its copies, the restored Secret is a source, not a copy', async () => {
    const copy = await settled('restored');
    await scene.api.delete(secretPath(HOME, 'restored'));
    await scene.ready('restored', 'NoSecret');
    const source = await clone(copy, HOME);
    await scene.ready('restored', 'Synced');
    await waitForEvents('restored');
    assert.ok(await untouched(source));
    await scene.change(HOME, 'restored', { a: '2' });
    const { metadata } = await scene.copied('restored-a', 'restored', { a: '2' });
    assert.equal(metadata.annotations[PLACE], 'restored-a/restored');
    await scene.api.delete(mirrorPath('restored'));
    await scene.gone(mirrorPath('restored'), secretPath('restored-a', 'restored'));
    await waitForEvents('restored');
    assert.equal((await scene.find(HOME, 'restored')).metadata.uid, source.metadata.uid);
  });

  const marks: Readonly<Record<string, (name: string) => string>> = {
    'its own mirror': (name) => `${HOME}/${name}`,
    'a mirror that is gone': () => `${HOME}/never-there`,
    'a mirror with another target': () => `${HOME}/bystander`,
  };
  for (const [index, [title, mark]] of rowsOf(Object.entries(marks)).entries()) {
    for (const placed of [false, true]) {
      it(`if a user marks a source as a copy of ${title}${placed ? ', with the annotation keyferry.dev/target' : ''}, the source keeps its data and is not deleted`, async () => {
        const name = `hand-${index}-${placed}`;
        await settled(name);
        const marked = await scene.api.patch(secretPath(HOME, name), {
          metadata: {
            labels: { [COPY_LABEL]: 'mirrors' },
            annotations: { [OWNED_BY]: mark(name), ...(placed ? { [PLACE]: `${HOME}/${name}` } : {}) },
          },
        });
        await waitForEvents(name);
        // Its own mirror retains it, as each copy that has become the source.
        const isKept = async (): Promise<boolean> => {
          const { metadata, data } = await scene.find(HOME, name);
          return metadata.uid === marked.metadata.uid && isDeepStrictEqual(data, marked.data);
        };
        await staysTrue(isKept, SETTLE_MS, 'the source');
        await scene.change(HOME, name, { a: '2' });
        await scene.copied(`${name}-a`, name, { a: '2' });
      });
    }
  }

  it('if a user marks a source as a copy of another mirror that claims it, that mirror does not overwrite the source', async () => {
    await settled('wanted');
    await scene.secret('wanted-b', 'wanted', { a: 'of b' });
    await scene.mirror('wanting', [HOME], { source: { name: 'wanted' } }, 'wanted-b');
    await scene.ready('wanting', 'Conflict', /(?:)/, 'wanted-b');
    const marked = await scene.api.patch(secretPath(HOME, 'wanted'), {
      metadata: { labels: { [COPY_LABEL]: 'mirrors' }, annotations: { [OWNED_BY]: 'wanted-b/wanting' } },
    });
    await scene.ready('wanting', 'Conflict', /is the source of SecretMirror default\/wanted/, 'wanted-b');
    await scene.api.delete(mirrorPath('wanting', 'wanted-b'));
    await scene.gone(mirrorPath('wanting', 'wanted-b'));
    await waitForEvents('wanted');
    await staysTrue(() => untouched(marked), SETTLE_MS, 'the source');
  });
});

describe('a copy from which another mirror makes copies', { concurrency: 4 }, () => {
  it('a copy that another mirror uses as source stays when its own mirror is deleted, until no mirror uses the copy', async () => {
    await chain('middle');
    await scene.mirror('later', ['middle-none'], { source: { name: 'middle' } }, 'middle-a');
    await scene.ready('later', 'Synced', /^0 copies/, 'middle-a');
    const copy = await scene.find('middle-a', 'middle');
    await scene.api.delete(mirrorPath('middle'));
    await scene.gone(mirrorPath('middle'));
    await scene.event('middle', 'SourceInUse', /middle-a/);
    await scene.api.delete(mirrorPath('next', 'middle-a'));
    await scene.gone(mirrorPath('next', 'middle-a'), secretPath('middle-b', 'middle'));
    await waitForEvents('middle');
    await staysTrue(() => untouched(copy), SETTLE_MS, 'the copy that a mirror without targets needs');
    await scene.api.delete(mirrorPath('later', 'middle-a'));
    await scene.gone(secretPath('middle-a', 'middle'));
  });

  it('a copy that another mirror uses as source stays when its own mirror no longer selects it, and a later mirror can take it over', async () => {
    await chain('taken');
    const { uid } = (await scene.find('taken-a', 'taken')).metadata;
    await scene.api.patch(mirrorPath('taken'), { spec: { destination: { namespaces: ['nowhere'] } } });
    await scene.ready('taken', 'Synced', /^0 copies/);
    await waitForEvents('taken');
    assert.equal((await scene.find('taken-a', 'taken')).metadata.uid, uid);
    await scene.mirror('taken-over', ['taken-a'], { source: { name: 'taken' } });
    await scene.ready('taken-over', 'Synced');
    await scene.change(HOME, 'taken', { a: '2' });
    await scene.copied('taken-b', 'taken', { a: '2' });
    const copy = await scene.copied('taken-a', 'taken', { a: '2' });
    assert.equal(copy.metadata.uid, uid);
    assert.equal(copy.metadata.annotations[OWNED_BY], `${HOME}/taken-over`);
  });
});

describe('a copy from which another mirror makes copies, while Keyferry is down', () => {
  it('a copy that another mirror uses as source stays if its own mirror is deleted while Keyferry is down', async () => {
    await chain('down');
    const first = scene.operators.at(-1);
    await first?.kill9();
    await scene.api.delete(mirrorPath('down'));
    await scene.operator(RUN);
    await scene.gone(mirrorPath('down'));
    await waitForEvents('down');
    const copy = await scene.find('down-a', 'down');
    await scene.operators.at(-1)?.kill9();
    await scene.operator(RUN);
    await waitForEvents('down');
    await staysTrue(() => untouched(copy), SETTLE_MS, 'the copy, after two starts');
    await scene.api.delete(mirrorPath('next', 'down-a'));
    await scene.gone(secretPath('down-a', 'down'), secretPath('down-b', 'down'));
  });
});

describe('a copy without the annotation keyferry.dev/target', { concurrency: 4 }, () => {
  const original = (name: string, mirror: string, more: Json = {}): Promise<Json> =>
    scene.secret(
      `${name}-a`,
      name,
      { a: '1' },
      {
        metadata: {
          labels: { [COPY_LABEL]: 'mirrors', ...more },
          annotations: { [OWNED_BY]: `${HOME}/${mirror}`, 'mirrors.kts.studio/parent-version': '1' },
        },
      },
    );

  it("if the original marked a Secret for a mirror that does not claim it, the Secret stays, also after the mirror's deletion", async () => {
    await settled('unclaimed');
    const left = await original('unclaimed', 'unclaimed').catch(() => undefined);
    assert.equal(left, undefined, 'there is a copy already');
    await scene.namespaces('unclaimed-left-a');
    const theirs = [await original('unclaimed-left', 'unclaimed'), await scene.find('unclaimed-a', 'unclaimed')];
    await waitForEvents('unclaimed');
    assert.ok(await untouched(...theirs));
    await scene.api.delete(mirrorPath('unclaimed'));
    await scene.gone(mirrorPath('unclaimed'), secretPath('unclaimed-a', 'unclaimed'));
    await waitForEvents('unclaimed');
    await staysTrue(() => untouched(theirs[0]), SETTLE_MS, 'it, after the mirror was deleted');
  });

  it('if another mirror has a copy that the original made as its source, the mirror that selects this copy can still take it over', async () => {
    await scene.namespaces('chained-a', 'chained-b');
    await original('chained', 'chained');
    await scene.mirror('next', ['chained-b'], { source: { name: 'chained' } }, 'chained-a');
    await scene.copied('chained-b', 'chained', { a: '1' });
    await scene.secret(HOME, 'chained', { a: '2' });
    await scene.mirror('chained', ['chained-a']);
    await scene.copied('chained-b', 'chained', { a: '2' });
    await scene.ready('chained', 'Synced');
  });
});
