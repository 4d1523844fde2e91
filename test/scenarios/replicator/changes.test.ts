/**
 * Users change annotations while the replicator runs: they name other sources, close and open cycles, remove marks,
 * grant and withdraw permissions.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { longIt, rowsOf } from '../../support/long.ts';
import { waitForStable } from '../../support/wait-for.ts';
import { annotation, type KindScene, KINDS, ReplicatorScene, SETTLE_MS } from './support.ts';

const ALLOWED = { 'replication-allowed': 'true' };

let scene: ReplicatorScene;
before(async () => {
  scene = await ReplicatorScene.open({ controllerManager: false });
  await scene.namespaces('source', 'team-a', 'team-b');
  await scene.operator();
});
after(() => scene.close());

for (const kind of rowsOf(KINDS)) {
  describe(kind.kind, () => {
    let users: KindScene;
    before(() => {
      users = scene.of(kind);
    });

    for (const length of rowsOf([1, 5, 2, 3], 2)) {
      it(`if a replicate-from closes a cycle of ${length + 1} pulls, writes stop and its object keeps its data; once it is removed, all others pull that data`, async () => {
        const names = Array.from({ length: length + 1 }, (_, index) => `team-a/cycle-${length}-${index}`);
        const [head = '', ...links] = names;
        const tail = links.at(-1) ?? '';
        await users.create(head, { a: '1' }, ALLOWED);
        for (const [index, link] of links.entries()) {
          await users.create(link, {}, { ...ALLOWED, 'replicate-from': names[index] ?? '' });
        }
        await users.holds(tail, { a: '1' });
        await users.annotate(head, { 'replicate-from': tail });
        await waitForStable(async () => await users.versions(names), SETTLE_MS, 'all writes');
        await users.holds(head, { a: '1' });
        await users.annotate(head, { 'replicate-from': null });
        await users.change(head, { a: '2' });
        for (const link of links) await users.holds(link, { a: '2' });
      });
    }

    longIt(
      'if replicate-from names another source, the object is filled from it, or cleared if that source is missing or does not permit it',
      async () => {
        await users.create('source/one', { a: 'one' }, ALLOWED);
        await users.create('source/two', { b: 'two' }, ALLOWED);
        await users.create('source/closed', { c: 'closed' });
        await users.create('team-a/turns', {}, { 'replicate-from': 'source/one' });
        await users.holds('team-a/turns', { a: 'one' });
        await users.annotate('team-a/turns', { 'replicate-from': 'source/two' });
        const turned = await users.holds('team-a/turns', { b: 'two' });
        assert.equal(annotation(turned, 'replicated-from-origin'), 'source/two');
        await users.change('source/one', { a: 'changed' });
        await users.stayUnchanged(['team-a/turns'], 'the target with its new source');
        await users.annotate('team-a/turns', { 'replicate-from': 'source/closed' });
        await users.holds('team-a/turns', {});
        await users.annotate('team-a/turns', { 'replicate-from': 'source/two' });
        await users.holds('team-a/turns', { b: 'two' });
        await users.annotate('team-a/turns', { 'replicate-from': 'source/none' });
        await users.holds('team-a/turns', {});
        await users.annotate('team-a/turns', { 'replicate-from': null });
        await users.change('team-a/turns', { own: 'mine' });
        await users.create('source/none', { d: 'late' }, ALLOWED);
        await users.stayUnchanged(['team-a/turns'], 'the target without its annotation');
      },
    );

    it('if a user set replicate-once-version on an object that was never filled, the object keeps its data', async () => {
      await users.create(
        'team-a/own-version',
        { own: 'mine' },
        { 'replicate-from': 'source/nowhere', 'replicate-once': 'true', 'replicate-once-version': 'v1' },
      );
      await users.stayUnchanged(['team-a/own-version'], 'a target that was never filled');
      await users.holds('team-a/own-version', { own: 'mine' });
      await users.create('source/nowhere', { a: '1' }, { ...ALLOWED, 'replicate-once-version': 'v1' });
      const filled = await users.holds('team-a/own-version', { a: '1' });
      assert.equal(annotation(filled, 'replicate-once-version'), 'v1');
      await users.change('source/nowhere', { a: '2' });
      await users.stayUnchanged(['team-a/own-version'], 'a frozen target');
      await users.annotate('source/nowhere', { 'replicate-once-version': 'v2' });
      await users.holds('team-a/own-version', { a: '2' });
    });

    it('if a permission is withdrawn, all objects behind it in a chain of pulls are cleared; if it is granted again, they are filled', async () => {
      const chain = ['team-a/grant-1', 'team-b/grant-2', 'team-a/grant-3'];
      await users.create('source/grant', { a: '1' }, { 'replication-allowed-namespaces': 'team-.*' });
      for (const [index, name] of chain.entries()) {
        await users.create(name, {}, { ...ALLOWED, 'replicate-from': chain[index - 1] ?? 'source/grant' });
      }
      for (const name of chain) await users.holds(name, { a: '1' });
      await users.annotate('source/grant', { 'replication-allowed-namespaces': 'team-a' });
      await users.holds(chain[1] ?? '', {});
      await users.holds(chain[2] ?? '', {});
      await users.holds(chain[0] ?? '', { a: '1' });
      await users.annotate('source/grant', { 'replication-allowed-namespaces': 'team-a,team-b' });
      for (const name of chain) await users.holds(name, { a: '1' });
      await users.annotate('source/grant', { 'replication-allowed': 'false' });
      for (const name of chain) await users.holds(name, {});
    });

    it('if a user removes the mark from a pushed copy, Keyferry no longer writes or deletes the copy', async () => {
      await users.create('source/marks', { a: '1' }, { 'replicate-to': 'team-a/unmarked' });
      await users.holds('team-a/unmarked', { a: '1' });
      await users.annotate('team-a/unmarked', { 'replicated-by': null });
      await users.warning('source/marks', 'Conflict');
      await users.change('source/marks', { a: '2' });
      await users.stayUnchanged(['team-a/unmarked'], 'a copy without its mark');
      await users.delete('source/marks');
      await users.stayUnchanged(['team-a/unmarked'], 'a copy without its mark');
      await users.holds('team-a/unmarked', { a: '1' });
    });

    it('if a pushed copy has an unknown annotation when its source is deleted, the copy stays until the annotation is removed', async () => {
      await users.create('source/leaves', { a: '1' }, { 'replicate-to': 'team-a/odd' });
      await users.holds('team-a/odd', { a: '1' });
      await users.annotate('team-a/odd', { 'replicate-too': 'x' });
      await users.change('source/leaves', { a: '2' });
      await users.stayUnchanged(['team-a/odd'], 'a copy with an unknown annotation');
      await users.delete('source/leaves');
      await users.stayUnchanged(['team-a/odd'], 'a copy with an unknown annotation');
      await users.annotate('team-a/odd', { 'replicate-too': null });
      await users.gone('team-a/odd');
    });

    it('an annotation with `..` in a name is refused, and a namespace in upper case matches no namespace', async () => {
      const bad: Readonly<Record<string, string>> = { 'replicate-to': 'team-a/..', 'replicate-from': '../x' };
      for (const [name, value] of Object.entries(bad)) {
        const object = `source/bad-${name}`;
        await users.create(object, { a: '1' }, { [name]: value });
        const { message } = await users.warning(object, 'IllFormed');
        assert.ok(message.includes(`k8s-replicator/${name}`) && message.includes(value), message);
      }
      await users.create('source/upper', { a: '1' }, { 'replicate-to-namespaces': 'TEAM-A,team-b' });
      await users.holds('team-b/upper', { a: '1' });
      assert.equal(await users.find('team-a/upper'), undefined);
    });
  });
}

describe('token Secrets', () => {
  it('a token Secret with replicate-from is never filled or cleared', async () => {
    const secrets = scene.of(KINDS[0]!);
    const type = 'bootstrap.kubernetes.io/token';
    await secrets.create('source/plain', { a: '1' }, ALLOWED);
    await secrets.create('team-a/token', { own: 'x' }, { 'replicate-from': 'source/plain' }, { type });
    await secrets.warning('team-a/token', 'RefusedType');
    const filled = {
      'replicate-from': 'source/not-there',
      'replicated-from-version': '1',
      'replicated-from-allowed': '.*',
    };
    await secrets.create('team-a/token-filled', { own: 'x' }, filled, { type });
    await secrets.warning('team-a/token-filled', 'RefusedType');
    await secrets.stayUnchanged(['team-a/token', 'team-a/token-filled'], 'tokens');
  });
});

describe('binaryData of a ConfigMap', () => {
  it('binaryData of a pulled ConfigMap is removed when the source loses it, and when the permission is withdrawn', async () => {
    const maps = scene.of(KINDS[1]!);
    const binaryData = { blob: Buffer.from([0, 255, 1]).toString('base64') };
    await maps.create('source/bytes', { text: 'x' }, ALLOWED, { binaryData });
    await maps.create('team-a/bytes', {}, { 'replicate-from': 'source/bytes' });
    const filled = await maps.holds('team-a/bytes', { text: 'x' });
    assert.deepEqual(filled.binaryData, binaryData);
    const without = (object: Json): boolean => Object.keys(object.binaryData ?? {}).length === 0;
    await scene.api.patch(maps.path('source/bytes'), { binaryData: null });
    await maps.becomes('team-a/bytes', without, 'without bytes');
    await scene.api.patch(maps.path('source/bytes'), { binaryData });
    await maps.becomes('team-a/bytes', (object) => !without(object), 'with bytes again');
    await maps.annotate('source/bytes', { 'replication-allowed': null });
    await maps.becomes('team-a/bytes', (object) => without(object), 'cleared');
    await maps.holds('team-a/bytes', {});
  });
});
