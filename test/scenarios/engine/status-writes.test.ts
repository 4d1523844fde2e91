/** What is said of a mirror right after the start is said in one write, if it is about to be settled. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { HOME, MirrorScene } from '../mirrors/support.ts';

const MIRRORS = 50;
const NAMESPACES = 5;
/** Well below what is waited for copies that are being made. */
const SOON_MS = 1000;

let scene: MirrorScene;

before(async () => {
  scene = await MirrorScene.open({ audit: true });
});
after(() => scene.close());

/** Statuses that were written so far. */
const writes = (): number =>
  readFileSync(scene.plane.auditLogPath, 'utf8')
    .split('\n')
    .filter((line) => line.endsWith('}'))
    .map((line): Json => JSON.parse(line))
    .filter(
      ({ verb, objectRef }) =>
        verb === 'patch' && objectRef?.resource === 'secretmirrors' && objectRef.subresource === 'status',
    ).length;

it('of many mirrors that are there at the start', async () => {
  await scene.namespaces(...Array.from({ length: NAMESPACES }, (_, n) => `ns-${n}`));
  const names = Array.from({ length: MIRRORS }, (_, n) => `m-${n}`);
  for (const name of names) {
    await scene.secret(HOME, name, { a: '1' });
    await scene.mirror(name, ['ns-.+']);
  }
  await scene.operator();
  for (const name of names) await scene.ready(name, 'Synced', new RegExp(`^${NAMESPACES} copies`));
  // A machine that is busy with something else may need longer than is waited for some of them.
  assert.ok(writes() <= MIRRORS * 1.2, `${writes()} statuses of ${MIRRORS} mirrors were written`);
});

it('of one that comes later', async () => {
  const before = writes();
  await scene.secret(HOME, 'later', { a: '1' });
  await scene.mirror('later', ['ns-.+']);
  await scene.ready('later', 'Synced');
  assert.equal(writes() - before, 1);
});

it('but at once, that there is no source', async () => {
  const begin = performance.now();
  await scene.mirror('without', ['ns-.+']);
  await scene.ready('without', 'NoSecret');
  assert.ok(performance.now() - begin < SOON_MS, `${performance.now() - begin} ms`);
});
