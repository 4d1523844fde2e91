/** Automatic mirrors, where reflector's annotations differ from those of other systems (`../annotated/pushes.test.ts`). */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import { autoInto, mark, ReflectorScene } from './support.ts';

let scene: ReflectorScene;
before(async () => {
  scene = await ReflectorScene.open();
  await scene.namespaces('source', 'team-a', 'team-b', 'team-c');
  await scene.operator();
});
after(() => scene.close());

it('a list and a selector add up, the other pair of annotations narrows them, and either switch ends the mirrors', async () => {
  const { secrets } = scene;
  await scene.put(
    secrets,
    'source/either',
    { a: '1' },
    { ...autoInto('team-b'), 'auto-namespaces-selector': 'get=yes' },
  );
  await secrets.holds('team-b/either', { a: '1' });
  await scene.label('team-a', { get: 'yes' });
  await secrets.holds('team-a/either', { a: '1' });
  await scene.say(secrets, 'source/either', { 'allowed-namespaces': 'team-a' });
  await secrets.gone('team-b/either');
  for (const name of ['auto', 'allowed']) {
    await secrets.holds('team-a/either', { a: '1' });
    await scene.say(secrets, 'source/either', { [name]: 'false' });
    await secrets.gone('team-a/either');
    await scene.say(secrets, 'source/either', { [name]: 'true' });
  }
  await scene.put(secrets, 'team-c/pull', {}, { reflects: 'source/either' });
  await secrets.warning('team-c/pull', 'Denied');
});

it('a direct mirror stays one in and outside of the list of its source, and a copy is a source only if a user says so', async () => {
  const { secrets } = scene;
  for (const name of ['team-b/taken', 'team-c/taken']) await scene.put(secrets, name, {}, { reflects: 'source/taken' });
  await scene.put(secrets, 'source/taken', { a: '1' }, autoInto('team-[ab]'));
  for (const name of ['team-b/taken', 'team-c/taken'])
    assert.equal(mark(await secrets.holds(name, { a: '1' }), 'auto-reflects'), 'False');
  await secrets.holds('team-a/taken', { a: '1' });
  await scene.put(secrets, 'team-c/from-copy', {}, { reflects: 'team-a/taken' });
  await secrets.warning('team-c/from-copy', 'Denied');
  await scene.say(secrets, 'team-a/taken', { allowed: 'true' });
  await secrets.holds('team-c/from-copy', { a: '1' });
  await scene.say(secrets, 'source/taken', { 'auto-namespaces': 'team-c' });
  await secrets.gone('team-a/taken');
  await secrets.delete('source/taken');
  await secrets.stayUnchanged(['team-b/taken', 'team-c/taken'], 'objects of users whose source is gone');
});

it('values that nobody can read stop no other source, delete no copy, and are events on their objects', async () => {
  const { secrets } = scene;
  const bad: Record<string, readonly [string, string]> = {
    star: ['*', 'IllFormed'],
    open: ['(((', 'IllFormed'],
    behind: ['(?<=x)y', 'Unsupported'],
    long: [`team-a,${'x'.repeat(100_000)}`, 'IllFormed'],
  };
  await scene.put(secrets, 'source/kept', { a: '1' }, autoInto('team-a'));
  await secrets.holds('team-a/kept', { a: '1' });
  for (const [name, [list]] of Object.entries(bad))
    await scene.put(secrets, `source/${name}`, { a: '1' }, autoInto(list));
  await scene.say(secrets, 'source/kept', { 'auto-namespaces': 'team-b,team-a(' });
  await scene.put(secrets, 'source/fine', { a: '1' }, autoInto('(a+)+$,^(?!(?:team-a|source)$)team-.*'));
  await secrets.holds('team-b/fine', { a: '1' });
  await secrets.holds('team-b/kept', { a: '1' });
  for (const [name, [, reason]] of Object.entries(bad)) await secrets.warning(`source/${name}`, reason);
  await secrets.warning('source/kept', 'IllFormed');
  await secrets.holds('team-a/kept', { a: '1' });
  assert.equal(await secrets.find('team-a/fine'), undefined);
  await scene.say(secrets, 'source/kept', { 'auto-namespaces': 'team-b' });
  await secrets.gone('team-a/kept');
  await scene.put(secrets, 'source/word', { a: '1' }, { ...autoInto('team-a'), auto: 'yes' });
  await secrets.warning('source/word', 'IllFormed');
  assert.equal(await secrets.find('team-a/word'), undefined);
});

it('a list that no namespace can match is an event on its object', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/upper', { a: '1' }, autoInto('TA'));
  await secrets.warning('source/upper', 'MisreadPattern');
  // Only commas mean nobody, which some users want.
  await scene.put(secrets, 'source/nobody', { a: '1' }, autoInto('team-a', { 'allowed-namespaces': ',,,' }));
  await scene.absent(secrets, 'team-a/nobody');
  const events = await scene.api.list('/api/v1/namespaces/source/events');
  assert.deepEqual(
    events.filter(({ involvedObject }) => involvedObject.name === 'nobody'),
    [],
  );
});
