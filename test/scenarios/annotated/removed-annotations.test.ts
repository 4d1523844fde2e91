/** An event says which copies go because the annotations of a rule are gone from an object that is still there. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { staysTrue } from '../../support/wait-for.ts';
import { AnnotatedScene } from './support.ts';
import { SYSTEMS, without } from './systems.ts';

let scene: AnnotatedScene;
before(async () => {
  scene = await AnnotatedScene.open();
  await scene.namespaces('home', 'a', 'b');
  const args = ['--source-grace=1s', '--leader-elect', '--leader-elect-namespace=home'];
  await scene.operator(args);
  // The second one waits for the Lease.
  await scene.started(args);
});
after(() => scene.close());

const eventsOn = async (name: string): Promise<Json[]> => {
  const events = await scene.api.list('/api/v1/namespaces/home/events');
  return events.filter(({ involvedObject, reason }) => involvedObject.name === name && reason === 'RuleRemoved');
};

/** Replaces the whole object, as a program does that makes it from a template without the annotations. */
async function writeFromTemplate(name: string): Promise<void> {
  const { metadata, ...object } = await scene.secrets.find(name);
  const { annotations: _, managedFields: _fields, ...rest } = metadata;
  await scene.api.call('PUT', scene.secrets.path(name), { body: { ...object, metadata: rest } });
}

for (const { name: controller, push } of SYSTEMS)
  it(`when another program removes the annotations of ${controller}, one event on the source says how many copies go`, async () => {
    const { secrets } = scene;
    const annotations = push('a', 'b');
    await scene.put(secrets, `home/${controller}`, { a: '1' }, annotations);
    for (const namespace of ['a', 'b']) await secrets.holds(`${namespace}/${controller}`, { a: '1' });
    await writeFromTemplate(`home/${controller}`);
    const { message, type } = await secrets.warning(`home/${controller}`, 'RuleRemoved');
    assert.equal(type, 'Warning');
    assert.equal(
      message,
      `annotation ${Object.keys(annotations).toSorted().join(', ')} is gone from the object, so its 2 copies go`,
    );
    for (const namespace of ['a', 'b']) await secrets.gone(`${namespace}/${controller}`);
    assert.deepEqual(
      (await eventsOn(controller)).map(({ count }) => count),
      [1],
    );
  });

it('no event tells of copies that another rule wants, or that go with their source', async () => {
  const { secrets } = scene;
  const [reflector = {}, replicator = {}] = ['reflector', 'replicator'].map((system) =>
    SYSTEMS.find(({ name }) => name === system)?.push('a', 'b'),
  );
  await scene.put(secrets, 'home/moved', { a: '1' }, { ...reflector, ...replicator });
  for (const copy of ['a/moved', 'b/moved'])
    for (const mark of ['reflector.v1.k8s.emberstack.com/reflects', 'k8s-replicator/replicated-by'])
      await secrets.becomes(copy, ({ metadata }) => mark in metadata.annotations, 'of both');
  await scene.put(secrets, 'home/deleted', { a: '1' }, reflector);
  await secrets.holds('a/deleted', { a: '1' });
  await scene.say(secrets, 'home/moved', without(reflector));
  await secrets.delete('home/deleted');
  await secrets.gone('a/deleted');
  await secrets.becomes(
    'a/moved',
    ({ metadata }) => !('reflector.v1.k8s.emberstack.com/reflects' in metadata.annotations),
    'of one',
  );
  // A rule is reported at most once a second.
  await staysTrue(async () => (await eventsOn('moved')).length === 0, 1500, 'no event, because the copies stay');
  await scene.say(secrets, 'home/moved', without(replicator));
  await secrets.warning('home/moved', 'RuleRemoved');
  assert.deepEqual(
    (await eventsOn('moved')).map(({ message }) => message),
    ['annotation k8s-replicator/replicate-to-namespaces is gone from the object, so its 2 copies go'],
  );
  assert.deepEqual(await eventsOn('deleted'), []);
});
