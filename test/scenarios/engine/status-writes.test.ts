/** A mirror whose copies are made soon gets one status write and not several, also right after a start. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import { readJsonLines } from '../../support/json-lines.ts';
import { within } from '../../support/yardstick.ts';
import { HOME, MirrorScene } from '../mirrors/support.ts';

const MIRRORS = 50;
const NAMESPACES = 5;
/** Limit for a status, ms on an idle machine: far below the time that the engine waits for copies. */
const SOON_MS = 1000;
/** The time that the engine waits for copies before the status reports them as in progress, ms. */
const PATIENCE_MS = 2000;

/** The shortest time from a start to the first reconcile of a mirror, ms. */
const START_MS = 500;

let scene: MirrorScene;

before(async () => {
  scene = await MirrorScene.open({ audit: true });
});
after(() => scene.close());

/** The number of status writes so far. */
const writes = (): number =>
  readJsonLines(scene.plane.auditLogPath).filter(
    ({ verb, objectRef }) =>
      verb === 'patch' && objectRef?.resource === 'secretmirrors' && objectRef.subresource === 'status',
  ).length;

/** The most status writes for one mirror that report copies in progress: one for each PATIENCE_MS since `from`. */
const interim = (from: number): number => Math.floor(Math.max(0, performance.now() - from) / PATIENCE_MS);

it('after a start, each of 50 mirrors gets one status write', async () => {
  await scene.namespaces(...Array.from({ length: NAMESPACES }, (_, n) => `ns-${n}`));
  const names = Array.from({ length: MIRRORS }, (_, n) => `m-${n}`);
  for (const name of names) {
    await scene.secret(HOME, name, { a: '1' });
    await scene.mirror(name, ['ns-.+']);
  }
  const from = performance.now();
  await scene.operator();
  for (const name of names) await scene.ready(name, 'Synced', new RegExp(`^${NAMESPACES} copies`));
  const most = MIRRORS * (1.2 + interim(from + START_MS));
  assert.ok(writes() <= most, `${writes()} statuses of ${MIRRORS} mirrors were written, not ${most}`);
});

it('a mirror that is created later gets one status write', async () => {
  const before = writes();
  await scene.secret(HOME, 'later', { a: '1' });
  const from = performance.now();
  await scene.mirror('later', ['ns-.+']);
  await scene.ready('later', 'Synced', new RegExp(`^${NAMESPACES} copies`));
  const written = writes() - before;
  assert.ok(written >= 1 && written <= 1 + interim(from), `${written} statuses`);
});

it('the status of a mirror without a source is written at once', async () => {
  await within(SOON_MS, 'the status', async () => {
    await scene.mirror('without', ['ns-.+']);
    await scene.ready('without', 'NoSecret');
  });
});
