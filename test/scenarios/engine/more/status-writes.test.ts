/** If the copies of a mirror are made soon, its status is written one time, also immediately after a start. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import { readJsonLines } from '../../../support/json-lines.ts';
import { within } from '../../../support/yardstick.ts';
import { HOME, MirrorScene } from '../../mirrors/support.ts';

const MIRRORS = 50;
const NAMESPACES = 5;
/** Limit for a status, ms on an idle machine. It is far below the time for which the engine waits for copies. */
const SOON_MS = 1000;
/** After this time without all copies, the status reports that copies are in progress, ms. */
const PATIENCE_MS = 2000;

/** The shortest time from a start to the first reconcile of a mirror, ms. */
const START_MS = 500;

let scene: MirrorScene;

before(async () => {
  scene = await MirrorScene.open({ audit: true, controllerManager: false });
});
after(() => scene.close());

/** The number of status writes by now. */
const writes = (): number =>
  readJsonLines(scene.plane.auditLogPath).filter(
    ({ verb, objectRef }) =>
      verb === 'patch' && objectRef?.resource === 'secretmirrors' && objectRef.subresource === 'status',
  ).length;

/** The most status writes of one mirror that report copies in progress: one for each PATIENCE_MS after `from`. */
const interim = (from: number): number => Math.floor(Math.max(0, performance.now() - from) / PATIENCE_MS);

it('after a start, the status of each of 50 mirrors is written one time', async () => {
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

it('the status of a mirror that is created while the operator runs is written one time', async () => {
  const before = writes();
  await scene.secret(HOME, 'later', { a: '1' });
  const from = performance.now();
  await scene.mirror('later', ['ns-.+']);
  await scene.ready('later', 'Synced', new RegExp(`^${NAMESPACES} copies`));
  const written = writes() - before;
  assert.ok(written >= 1 && written <= 1 + interim(from), `${written} statuses`);
});

it('the status of a mirror without a source is written within 1 s', async () => {
  await within(SOON_MS, 'the status', async () => {
    await scene.mirror('without', ['ns-.+']);
    await scene.ready('without', 'NoSecret');
  });
});
