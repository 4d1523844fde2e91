/** Direct mirrors, where reflector's annotations differ from those of other systems (`../annotated/pulls.test.ts`). */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import { autoInto, ReflectorScene } from './support.ts';

let scene: ReflectorScene;
before(async () => {
  scene = await ReflectorScene.open();
  await scene.namespaces('source', 'team-a', 'team-b');
  await scene.operator();
});
after(() => scene.close());

it('a mirror in the namespace of its source needs that namespace to be allowed, and a mirror can serve another one', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/near', { a: '1' }, { allowed: 'true', 'allowed-namespaces': 'team-a' });
  await scene.put(secrets, 'source/beside', {}, { reflects: 'source/near', allowed: 'true' });
  await secrets.warning('source/beside', 'Denied');
  await scene.say(secrets, 'source/near', { 'allowed-namespaces': 'source' });
  await secrets.holds('source/beside', { a: '1' });
  await scene.put(secrets, 'team-a/second', {}, { reflects: 'source/beside' });
  await secrets.holds('team-a/second', { a: '1' });
  await secrets.change('source/near', { a: '2' });
  await secrets.holds('team-a/second', { a: '2' });
});

it('a source may allow namespaces by their labels: a label that is put on or taken off counts at once', async () => {
  const { secrets } = scene;
  await scene.put(
    secrets,
    'source/labelled',
    { a: '1' },
    { allowed: 'true', 'allowed-namespaces-selector': 'tier in (prod)' },
  );
  await scene.put(secrets, 'team-a/labelled', {}, { reflects: 'source/labelled' });
  await secrets.warning('team-a/labelled', 'Denied');
  await scene.label('team-a', { tier: 'prod' });
  await secrets.holds('team-a/labelled', { a: '1' });
  await scene.label('team-a', { tier: null });
  await secrets.change('source/labelled', { a: '2' });
  await secrets.stayUnchanged(['team-a/labelled'], 'a mirror in a namespace without the label');
  await scene.say(secrets, 'source/labelled', { 'allowed-namespaces-selector': 'kubernetes.io/metadata.name=team-a' });
  await secrets.holds('team-a/labelled', { a: '2' });
});

it('data alone go into an object of another type; records of Helm are neither copied nor filled', async () => {
  const { secrets } = scene;
  const type = 'kubernetes.io/basic-auth';
  await scene.put(secrets, 'source/typed', { username: 'u', password: 'p' }, { allowed: 'true' }, { type });
  await scene.put(secrets, 'team-a/typed', {}, { reflects: 'source/typed' });
  assert.equal((await secrets.holds('team-a/typed', { username: 'u', password: 'p' })).type, 'Opaque');
  const helm = { type: 'helm.sh/release.v1' };
  await scene.put(secrets, 'team-a/helm', { own: 'x' }, { reflects: 'source/typed' }, helm);
  await scene.put(secrets, 'source/release', { release: '1' }, autoInto('team-a'), helm);
  for (const name of ['team-a/helm', 'source/release']) await secrets.warning(name, 'RefusedType');
  await secrets.holds('team-a/helm', { own: 'x' });
  assert.equal(await secrets.find('team-a/release'), undefined);
});
