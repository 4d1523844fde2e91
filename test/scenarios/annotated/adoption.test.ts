/** Copies that an original made, in every system: adopted with one patch of metadata each, and handed back. */
import assert from 'node:assert/strict';
import { it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { Audited, AnnotatedScene, opened, type Texts } from './support.ts';
import { CLUSTER, type System, SYSTEMS } from './systems.ts';

/** What is there besides: copies that are adopted, and objects that stay as they are. */
interface More {
  readonly adopted?: readonly Json[];
  readonly left?: readonly Json[];
}

type Make = (place: string, source: Json, given?: Json) => Promise<Json>;

const MORE: Readonly<Record<string, (scene: AnnotatedScene, source: Json, make: Make) => Promise<More>>> = {
  reflector: async ({ api }, source, make) => {
    const reflector = (auto: string): Texts => ({ 'reflector.v1.k8s.emberstack.com/auto-reflects': auto });
    // Older versions wrote other values.
    await api.createNamespaces(['old-1', 'old-2']);
    const given = { data: source.data, type: source.type };
    return {
      adopted: [
        await make('old-1/s', source, { ...given, annotations: reflector('true') }),
        await make('old-2/s', source, { ...given, annotations: reflector('source/s') }),
      ],
      left: [
        await make('team-c/settled', source, { type: 'Opaque', annotations: reflector('False') }),
        await make('team-a/renamed', source),
      ],
    };
  },
  mittwald: async (scene, source, make) => {
    const { api, secrets } = scene;
    await api.createNamespaces(['old-1', 'old-2', 'old-3']);
    const from = { 'replicator.v1.mittwald.de/replicate-from': 'source/other' };
    return {
      // With a key of somebody else.
      adopted: [await make('old-1/s', source, { data: { ...source.data, own: 'eA==' } })],
      left: [
        await make('old-2/s', source, { annotations: from }),
        await make('team-a/orphan', source),
        await secrets.create('old-3/s', { a: '1', b: '1' }),
      ],
    };
  },
  'config-syncer': async (_scene, source, make) => ({ left: [await make('team-c/renamed', source)] }),
  replicator: async (_scene, source, make) => ({ left: [await make('team-a/renamed', source)] }),
};

for (const system of SYSTEMS)
  it(`copies of ${system.name}'s original are adopted with one patch each, the next start writes nothing, and the original may go on`, async () => {
    await using stack = new AsyncDisposableStack();
    const namespaces = ['source', 'team-a', 'team-b', 'team-c', 'team-d'];
    const scene = await opened(stack, AnnotatedScene, ...namespaces);
    await story(scene, system);
  });

async function story(scene: AnnotatedScene, system: System): Promise<void> {
  const { secrets, configMaps, api } = scene;
  const { push, original, pull, version } = system;
  const make: Make = async (place, source, given = {}) => {
    const [namespace, name] = place.split('/');
    const { annotations, labels } = original(source);
    const { annotations: more, ...fields } = given;
    const { metadata: _, ...content } = source;
    const metadata = { namespace, name, labels, annotations: { ...annotations, ...more } };
    return await api.create({ ...content, ...fields, metadata });
  };
  const find = async ({ metadata: { namespace, name }, ...object }: Json): Promise<Json> =>
    await scene.ofKind(object).find(`${namespace}/${name}`);
  const pathOf = ({ metadata: { namespace, name } }: Json): string => `${namespace}/${name}`;

  const all = push('team-a', 'team-b', 'old-1', 'old-2', 'old-3');
  const metadata = { labels: { team: 'x' } };
  const source = await scene.put(secrets, 'source/s', { a: '1', b: '1' }, all, { metadata, type: 'my/type' });
  const map = await scene.put(configMaps, 'source/m', { a: '1' }, push('team-a'), { binaryData: { b: 'AAAA' } });
  const narrow = await scene.put(secrets, 'source/narrow', { a: '1' }, push('team-a'));
  const more = await MORE[system.name]?.(scene, source, make);
  const made = [
    await make('team-a/s', source),
    await make('team-b/s', source),
    await make('team-a/m', map),
    ...(more?.adopted ?? []),
  ];
  // Of a source that does not want it, and of one that is gone.
  const left = [await make('team-b/narrow', narrow), await make('team-b/gone', source), ...(more?.left ?? [])];
  const pulls = pull === undefined ? [] : ['patch team-c/pull'];
  if (pull !== undefined) {
    await scene.say(secrets, 'source/narrow', pull.permit);
    await scene.put(secrets, 'team-c/pull', {}, pull.ask('source/narrow'));
    await scene.put(secrets, 'team-d/never', { own: 'x' }, pull.ask('source/nothing'));
  }
  const sources = await Promise.all([source, map, narrow].map(find));

  const audited = await Audited.of(scene);
  const args = [`--config-syncer-cluster-name=${CLUSTER}`, '--source-grace=1s'];
  const first = await audited.run(args);
  const created = first.filter((write) => write.startsWith('create'));
  assert.deepEqual(created, ['create team-a/narrow']);
  assert.deepEqual(
    first.filter((write) => !write.startsWith('create')),
    [...made.map((one) => `patch ${pathOf(one)}`), ...pulls].toSorted(),
  );
  for (const before of made) {
    const now = await find(before);
    const contentOf = (object: Json): unknown => [object.metadata.uid, object.type, object.data, object.binaryData];
    assert.deepEqual(contentOf(now), contentOf(before));
    assert.equal(now.metadata.annotations['keyferry.dev/target'], pathOf(before));
  }
  for (const same of [...left, ...sources])
    assert.equal((await find(same)).metadata.resourceVersion, same.metadata.resourceVersion, pathOf(same));
  assert.deepEqual(await audited.run(args), []);

  // With the version of the source on its copies, the original writes nothing at its start.
  const operator = await scene.operator(args);
  await scene.set(secrets, 'source/s', { a: '2' });
  for (const name of ['team-a/s', 'team-b/s']) await secrets.holds(name, { a: '2', b: '1' });
  await operator.stop();
  const now = await secrets.version('source/s');
  for (const name of ['team-a/s', 'team-b/s']) assert.equal(version(await secrets.find(name)), now);
  // It writes a copy in its way while Keyferry is away, without what it does not know, and hands it back.
  const { labels, annotations: its } = original(await secrets.find('source/s'));
  // Only config-syncer takes the annotations of others away.
  const others = system.name === 'config-syncer' ? {} : (await secrets.find('team-a/s')).metadata.annotations;
  const annotations = { ...others, ...its };
  await api.patch(
    secrets.path('team-a/s'),
    [
      { op: 'add', path: '/metadata/labels', value: labels ?? {} },
      { op: 'add', path: '/metadata/annotations', value: annotations },
      { op: 'add', path: '/data', value: secrets.data({ a: '3', b: '1' }) },
    ],
    'json',
  );
  await scene.set(secrets, 'source/s', { a: '3' });
  const again = await scene.operator(args);
  await secrets.holds('team-b/s', { a: '3', b: '1' });
  assert.equal((await secrets.holds('team-a/s', { a: '3', b: '1' })).metadata.uid, made[0]?.metadata.uid);
  await secrets.becomes('team-a/s', (copy) => 'keyferry.dev/target' in copy.metadata.annotations, 'adopted again');
  await again.stop();
  // A source that goes while nobody looks takes the adopted copies with it, and no others.
  await secrets.delete('source/s');
  await scene.operator(args);
  for (const name of ['team-a/s', 'team-b/s']) await secrets.gone(name);
  for (const one of left) assert.notEqual(await find(one), undefined, pathOf(one));
}
