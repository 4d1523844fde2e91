/** `--adopt-orphans`: mirrors of the original whose source is gone, beside objects that only look like such mirrors. */
import assert from 'node:assert/strict';
import { it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { annotations, autoInto, type ReflectorScene as Scene, ReflectorScene } from './support.ts';

const MARKS = { reflects: 'source/gone', 'auto-reflects': 'True', 'reflected-version': '1', 'reflected-at': '"2024"' };

/** Makes an object with the marks of an automatic mirror. */
async function marked(scene: Scene, name: string, given: Readonly<Record<string, string>> = {}, meta: Json = {}) {
  const [namespace, object] = name.split('/');
  const { secrets } = scene;
  const marks = Object.entries({ ...MARKS, ...given }).filter(([, value]) => value !== '');
  return await scene.api.create({
    apiVersion: 'v1',
    kind: 'Secret',
    data: secrets.data({ a: '1' }),
    metadata: { ...meta, namespace, name: object, annotations: annotations(Object.fromEntries(marks)) },
  });
}

it('mirrors whose source is gone are deleted with --adopt-orphans alone, and nothing that may be the object of a user', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = stack.adopt(await ReflectorScene.open(), (opened) => opened.close());
  const { secrets, api } = scene;
  await scene.namespaces('source', 'team-a', 'team-b', 'team-c', 'team-d', 'team-e');
  await scene.put(secrets, 'source/narrow', { a: '1' }, autoInto('team-a'));
  const stay: Readonly<Record<string, readonly [Readonly<Record<string, string>>, Json?]>> = {
    // Forged: not as the original makes them.
    'source/self': [{ reflects: 'source/self' }],
    'team-a/renamed': [{}],
    'team-a/no-version': [{ reflects: 'source/no-version', 'reflected-version': '' }],
    'team-a/direct': [{ reflects: 'source/direct', 'auto-reflects': 'False' }],
    'team-a/labelled': [{ reflects: 'source/labelled' }, { labels: { app: 'mine' } }],
    'team-a/noted': [{ reflects: 'source/noted', 'example.com/by': 'somebody' }],
    // The clone of a copy that Keyferry made elsewhere.
    'team-c/gone': [{ 'keyferry.dev/target': 'team-a/gone' }],
    // Its source lives, and does not want it.
    'team-b/narrow': [{ reflects: 'source/narrow' }],
    // Other objects are filled from it.
    'team-d/gone': [{}],
    // An annotation of another controller fills it, or makes copies of it.
    'team-e/gone': [{ 'k8s-replicator/replicate-from': 'source/narrow' }],
    'team-e/pushed': [{ reflects: 'source/pushed', 'k8s-replicator/replicate-to': 'elsewhere' }],
  };
  const versions: Record<string, string> = {};
  for (const [name, [given, meta]] of Object.entries(stay))
    versions[name] = (await marked(scene, name, given, meta)).metadata.resourceVersion;
  await scene.put(secrets, 'team-a/reader', {}, { reflects: 'team-d/gone' });
  for (const name of ['team-a/gone', 'team-b/gone']) await marked(scene, name);
  await marked(scene, 'team-a/old', { reflects: 'source/old', 'auto-reflects': 'source/old' });
  // k8s-replicator writes its own marks.
  const pushed = { 'k8s-replicator/replicated-by': 'source/app', 'k8s-replicator/replicated-from-version': '1' };
  const copyOf = async (name: string, given: Readonly<Record<string, string>>): Promise<Json> => {
    const none = Object.fromEntries(Object.keys(MARKS).map((mark) => [mark, '']));
    return await marked(scene, name, { ...none, ...given });
  };
  await copyOf('team-a/app', pushed);
  const unknown = await copyOf('team-b/app', { ...pushed, 'k8s-replicator/replicated-bye': 'x' });
  versions['team-b/app'] = unknown.metadata.resourceVersion;
  const leftovers = ['team-a/gone', 'team-b/gone', 'team-a/old', 'team-a/app'];
  const before = await secrets.versions(leftovers);
  const run = { command: 'run', args: ['--controllers=replicator,reflector'] } as const;

  const off = await scene.operator([], run);
  await secrets.warning('team-a/reader', 'Denied');
  await secrets.holds('team-a/narrow', { a: '1' });
  await secrets.stayUnchanged(leftovers, 'mirrors without a source');
  assert.equal(await secrets.versions(leftovers), before);
  await off.stop();

  const on = await scene.operator([], { ...run, args: [...run.args, '--adopt-orphans'] });
  for (const name of leftovers) await secrets.gone(name);
  // What becomes an orphan later goes, too: all marks of the source go, then the source itself.
  await api.patch(secrets.path('source/narrow'), { metadata: { annotations: null } });
  await secrets.gone('team-b/narrow');
  delete versions['team-b/narrow'];
  await secrets.stayUnchanged(Object.keys(versions), 'objects that may be those of users');
  for (const [name, version] of Object.entries(versions))
    assert.equal((await secrets.find(name)).metadata.resourceVersion, version, name);
  await on.stop();
});
