/** A mirror whose copies are made soon gets one status write, also right after the start. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import { readJsonLines } from '../../support/json-lines.ts';
import { within } from '../../support/yardstick.ts';
import { HOME, MirrorScene } from '../mirrors/support.ts';

const MIRRORS = 50;
const NAMESPACES = 5;
/** Well below the time that the engine waits for copies in progress; on an idle machine. */
const SOON_MS = 1000;
/** The time that the engine waits for copies in progress before the status reports them. */
const PATIENCE_MS = 2000;

/** The minimum time from the start to the first reconcile of a mirror. */
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

/** The maximum number of status writes of one mirror that report copies in progress: one for each time that the engine waited since `from`. */
const interim = (from: number): number => Math.floor(Math.max(0, performance.now() - from) / PATIENCE_MS);

it('each of many mirrors gets one status write at the start', async () => {
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

it('a mirror created later gets one status write', async () => {
  const before = writes();
  await scene.secret(HOME, 'later', { a: '1' });
  const from = performance.now();
  await scene.mirror('later', ['ns-.+']);
  await scene.ready('later', 'Synced', new RegExp(`^${NAMESPACES} copies`));
  const written = writes() - before;
  assert.ok(written >= 1 && written <= 1 + interim(from), `${written} statuses`);
});

it('a missing source is reported at once', async () => {
  await within(SOON_MS, 'the status', async () => {
    await scene.mirror('without', ['ns-.+']);
    await scene.ready('without', 'NoSecret');
  });
});
