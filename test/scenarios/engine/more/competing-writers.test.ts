/**
 * If another client keeps changing or deleting a copy, the operator repairs the copy after growing pauses. When the
 * client stops, the copy is repaired.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../../support/api.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { annotations, HOME, labels, MirrorScene, PARENT_VERSION, secretPath } from '../../mirrors/support.ts';
import { annotate, annotation, type KindScene, KINDS, ReplicatorScene } from '../../replicator/support.ts';

const FIGHT_MS = 4000;
/**
 * The most repairs in the time of the test: ten without a pause, then one after each pause of 1, 2 and 4 s, and one to
 * spare.
 */
const MOST_WRITES = 14;
/** After this many repairs the next pause is 2 s. This is long enough for the status to report the other client. */
const FEWEST_WRITES = 11;

/** Undoes each repair of a copy immediately for some time, and checks that there are not too many repairs. */
async function undoRepairs(
  look: () => Promise<Json>,
  isRight: (copy: Json) => boolean,
  undo: () => unknown,
): Promise<void> {
  let rounds = 0;
  const end = performance.now() + FIGHT_MS;
  const round = async (): Promise<boolean> => {
    const copy = await look();
    if (copy !== undefined && isRight(copy)) {
      rounds += 1;
      await undo();
    }
    // A busy machine needs longer even for the first repairs, which have no pause. So the test also counts the rounds.
    return performance.now() > end && rounds > FEWEST_WRITES;
  };
  await waitFor(round, { intervalMs: 5, message: () => `a repair after ${rounds} rounds` });
  assert.ok(rounds <= MOST_WRITES, `it was repaired ${rounds} times`);
}

describe('a copy of a SecretMirror', { concurrency: 4 }, () => {
  let scene: MirrorScene;
  before(async () => {
    scene = await MirrorScene.open();
    await scene.operator();
  });
  after(() => scene.close());

  const path = (name: string): string => secretPath(name, name);
  const team = (copy: Json): string => copy.metadata.labels.team;
  const undoings: Readonly<Record<string, (name: string) => unknown>> = {
    'is changed': (name) => scene.api.patch(path(name), labels({ team: 'b' })),
    'also loses the annotation of its version': (name) =>
      scene.api.patch(path(name), {
        metadata: { ...labels({ team: 'b' }).metadata, ...annotations({ [PARENT_VERSION]: null }).metadata },
      }),
    'is deleted': (name) => scene.api.delete(path(name)),
  };
  for (const [index, [title, undo]] of Object.entries(undoings).entries()) {
    it(`if another client keeps damaging a copy (it ${title}), Keyferry repairs it after growing pauses, and in the end it is right`, async () => {
      const name = `contest-${index}`;
      await scene.namespaces(name);
      await scene.secret(HOME, name, { a: '1' }, { metadata: { labels: { team: 'a' } } });
      await scene.mirror(name, [name]);
      await scene.copied(name, name, { a: '1' });
      await undoRepairs(
        () => scene.find(name, name),
        (copy) => team(copy) === 'a',
        () => undo(name),
      );
      await scene.ready(name, 'SyncError', /keeps modifying or deleting it/);
      await waitFor(async () => team(await scene.find(name, name)) === 'a');
      await scene.ready(name, 'Synced');
      // The next change of the source reaches the copy without a pause.
      await scene.change(HOME, name, { a: '2' });
      await scene.copied(name, name, { a: '2' }, 2000);
    });
  }
});

describe('a target of the replicator', { concurrency: 4 }, () => {
  let scene: ReplicatorScene;
  let users: KindScene;
  before(async () => {
    scene = await ReplicatorScene.open({ controllerManager: false });
    await scene.namespaces('source', 'team-a');
    users = scene.of(KINDS[0]!);
    await scene.operator();
  });
  after(() => scene.close());

  const holds = (name: string, copy: Json): boolean => copy.data?.a === users.data({ a: name }).a;

  it('if another client keeps deleting a pushed copy, Keyferry creates it after growing pauses, and in the end it exists', async () => {
    await users.create('source/pushed', { a: 'pushed' }, { 'replicate-to': 'team-a/pushed' });
    await users.holds('team-a/pushed', { a: 'pushed' });
    await undoRepairs(
      () => users.find('team-a/pushed'),
      () => true,
      () => users.delete('team-a/pushed'),
    );
    await users.holds('team-a/pushed', { a: 'pushed' });
  });

  it('if another client keeps replacing a pulled object with its manifest, Keyferry fills it after growing pauses, and in the end it is right', async () => {
    await users.create('source/pulled', { a: 'pulled' }, { 'replication-allowed': 'true' });
    await users.create('team-a/pulled', {}, { 'replicate-from': 'source/pulled' });
    await users.holds('team-a/pulled', { a: 'pulled' });
    // The manifest as a user has it in a repository: without data, and without the annotations of Keyferry.
    const bare = {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'pulled', namespace: 'team-a', annotations: annotate({ 'replicate-from': 'source/pulled' }) },
    };
    await undoRepairs(
      () => users.find('team-a/pulled'),
      (copy) => holds('pulled', copy),
      () => scene.api.replace(users.path('team-a/pulled'), bare),
    );
    const filled = await users.holds('team-a/pulled', { a: 'pulled' });
    assert.equal(annotation(filled, 'replicated-from-version'), await users.version('source/pulled'));
  });
});
