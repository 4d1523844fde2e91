/** All controllers of annotations and SecretMirrors in one process, beyond what every pair of them shows (../../engine/every-pair). */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import type { Json } from '../../../support/api.ts';
import type { Keyferry } from '../../../support/keyferry.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { AnnotatedScene, type Texts } from '../support.ts';
import { SYSTEMS, type System, without } from '../systems.ts';

const MIRRORS = '/apis/mirrors.kts.studio/v1alpha2/namespaces/source/secretmirrors';
const RUN = {
  command: 'run',
  args: ['--controllers=mirrors,replicator,reflector,config-syncer,mittwald', '--source-grace=1s'],
} as const;
const MARKS = {
  'k8s-replicator/replicated-by': 'replicator',
  'mirrors.kts.studio/owned-by': 'mirrors',
  'reflector.v1.k8s.emberstack.com/reflects': 'reflector',
  'keyferry.dev/synced-from': 'config-syncer',
  'keyferry.dev/replicated-from': 'mittwald',
};

let scene: AnnotatedScene;
let operator: Keyferry;
before(async () => {
  scene = await AnnotatedScene.open({ crds: true });
  await scene.namespaces('source', 'team-a', 'team-b', 'team-c');
  operator = await scene.operator([], RUN);
});
after(() => scene.close());

function words(name: string): Required<System> {
  return (SYSTEMS.find((system) => system.name === name) ?? assert.fail(name)) as Required<System>;
}
const [replicator, reflector, mittwald, sync] = ['replicator', 'reflector', 'mittwald', 'config-syncer'].map(words) as [
  Required<System>,
  Required<System>,
  Required<System>,
  Required<System>,
];

function marksOf({ metadata: { annotations = {} } }: Json): string {
  return Object.entries(MARKS)
    .flatMap(([key, name]) => (key in annotations ? [name] : []))
    .join();
}

async function has(place: string, wanted: string): Promise<Json> {
  return await scene.secrets.becomes(place, (copy) => marksOf(copy) === wanted, wanted);
}

async function mirror(name: string): Promise<void> {
  await scene.api.create({
    apiVersion: 'mirrors.kts.studio/v1alpha2',
    kind: 'SecretMirror',
    metadata: { namespace: 'source', name },
    spec: { source: { name }, destination: { namespaces: ['team-a'] } },
  });
}

async function put(place: string, values: Texts, given: Texts, more: Json = {}): Promise<Json> {
  return await scene.put(scene.secrets, place, values, given, more);
}

async function say(place: string, given: Readonly<Record<string, string | null>>): Promise<void> {
  await scene.say(scene.secrets, place, given);
}

it('rules of four controllers with one source make one copy with all that one of them copies; it goes with the last', async () => {
  const { secrets, api } = scene;
  const more = { metadata: { labels: { grafana_dashboard: '1', plain: 'x' } } };
  await put('source/one', { a: '1' }, { ...replicator.push('team-a'), 'my.org/note': 'x' }, more);
  const { metadata } = await has('team-a/one', 'replicator');
  await say('source/one', sync.push('team-a'));
  const shared = await has('team-a/one', 'replicator,config-syncer');
  const { labels, annotations } = shared.metadata;
  assert.deepEqual([labels['grafana_dashboard'], annotations['my.org/note']], ['1', 'x']);
  await say('source/one', reflector.push('team-a'));
  await mirror('one');
  await has('team-a/one', 'replicator,mirrors,reflector,config-syncer');
  await secrets.change('source/one', { a: '2' });
  const all = await secrets.holds('team-a/one', { a: '2' });
  const version = await secrets.version('source/one');
  for (const system of [replicator, reflector, sync]) assert.equal(system.version(all), version, system.name);
  await secrets.stayUnchanged(['team-a/one', 'source/one'], 'a copy of four rules');
  const control = [replicator, reflector, sync].flatMap(({ push }) => Object.keys(push()));
  for (const key of control) assert.equal(all.metadata.annotations[key], undefined, key);
  await say('source/one', without(sync.push()));
  const rest = await has('team-a/one', 'replicator,mirrors,reflector');
  assert.equal(sync.version(rest), undefined);
  await say('source/one', { ...sync.push('team-a'), ...without(replicator.push()), ...without(reflector.push()) });
  await has('team-a/one', 'mirrors,config-syncer');
  await api.delete(`${MIRRORS}/one`);
  // From one system to another without a gap: it is the same object throughout.
  assert.equal((await has('team-a/one', 'config-syncer')).metadata.uid, metadata.uid);
  await secrets.delete('source/one');
  await secrets.gone('team-a/one');
});

it('copiers that copy each other’s control annotations in the originals do not ring here', async () => {
  const { secrets } = scene;
  const all = Object.assign({}, ...SYSTEMS.map(({ push }) => push('team-a', 'team-b', 'team-c'))) as Texts;
  await put('source/ring', { a: '1' }, all);
  const places = ['team-a/ring', 'team-b/ring', 'team-c/ring'];
  for (const place of places) {
    const { metadata } = await has(place, 'replicator,reflector,config-syncer,mittwald');
    for (const key of Object.keys(all)) assert.equal(metadata.annotations[key], undefined, key);
  }
  await secrets.stayUnchanged(['source/ring', ...places], 'copies of four rules');
});

it('two annotations that fill a new object from different sources: one fills it, and an event says which not', async () => {
  const { secrets } = scene;
  await put('source/one-of', { a: 'one' }, reflector.pull.permit);
  await put('source/two-of', { a: 'two' }, replicator.pull.permit);
  const asks = (one: string, other: string): Texts => ({ ...reflector.pull.ask(one), ...replicator.pull.ask(other) });
  await put('team-a/undecided', {}, asks('source/one-of', 'source/two-of'));
  await secrets.warning('team-a/undecided', 'Conflict');
  await secrets.holds('team-a/undecided', { a: 'one' });
  await secrets.stayUnchanged(['team-a/undecided'], 'an object with two sources');
  // One of the sources permits nothing: the other fills the object, whichever it is.
  for (const name of ['one', 'two']) {
    await put(`team-a/denied-${name}`, {}, asks(`source/${name}-of`, `source/${name}-of`));
    await secrets.warning(`team-a/denied-${name}`, 'Denied');
    await secrets.holds(`team-a/denied-${name}`, { a: name });
  }
});

it('two requests with one permitted source fill once, with both bookkeepings, and the object keeps its own keys', async () => {
  const { secrets } = scene;
  await put('source/both', { a: '1' }, { ...mittwald.pull.permit, ...replicator.pull.permit });
  const asks = { ...mittwald.pull.ask('source/both'), ...replicator.pull.ask('source/both') };
  await put('team-a/both', { own: 'x' }, asks);
  const isWhole = (filled: Json): boolean =>
    [mittwald, replicator].every(({ version }) => version(filled) !== undefined);
  await secrets.becomes('team-a/both', isWhole, 'filled with both bookkeepings');
  await scene.set(secrets, 'source/both', { a: '2' });
  await secrets.holds('team-a/both', { a: '2', own: 'x' });
  await secrets.stayUnchanged(['team-a/both'], 'an object that two annotations fill');
});

it('reflects on a copy of another controller is a Conflict, also if it names a source of the same name', async () => {
  const { secrets } = scene;
  await put('source/same', { a: 'mirror' }, {});
  await mirror('same');
  await put('source/pushed', { a: 'pushed' }, replicator.push('team-a'));
  for (const [name, value] of [
    ['same', 'mirror'],
    ['pushed', 'pushed'],
  ] as const) {
    await put(`team-c/${name}`, { a: 'reflector' }, reflector.pull.permit);
    await secrets.holds(`team-a/${name}`, { a: value });
    await say(`team-a/${name}`, reflector.pull.ask(`team-c/${name}`));
    await secrets.warning(`team-a/${name}`, 'Conflict');
    await secrets.holds(`team-a/${name}`, { a: value });
  }
  // What somebody writes into the bookkeeping of reflector's own mirror is put right.
  const auto = 'reflector.v1.k8s.emberstack.com/auto-reflects';
  await put('team-c/tampered', { a: '1' }, reflector.push('team-b'));
  await secrets.holds('team-b/tampered', { a: '1' });
  await say('team-b/tampered', { [auto]: 'False' });
  await secrets.becomes('team-b/tampered', ({ metadata }) => metadata.annotations[auto] === 'True', 'marked again');
});

it('a suspended SecretMirror keeps the copy that it shares as it is, also after a restart, and when the other rule ends', async () => {
  const { secrets, api } = scene;
  await mirror('suspended');
  await put('source/suspended', { a: '1' }, mittwald.push('team-a'));
  const copy = await has('team-a/suspended', 'mirrors,mittwald');
  await api.patch(`${MIRRORS}/suspended`, { spec: { suspend: true } });
  await waitFor(async () => JSON.stringify(await api.get(`${MIRRORS}/suspended`)).includes('"Suspended"'), {
    message: 'the suspension',
  });
  await scene.set(secrets, 'source/suspended', { a: '2' });
  await secrets.warning('source/suspended', 'Conflict');
  await secrets.stayUnchanged(['team-a/suspended'], 'one of its rules is suspended');
  await operator.kill9();
  operator = await scene.operator([], RUN);
  await secrets.stayUnchanged(['team-a/suspended'], 'one of its rules is suspended');
  await say('source/suspended', without(mittwald.push()));
  await secrets.stayUnchanged(['team-a/suspended'], 'one of its rules is suspended, and the other has ended');
  await api.patch(`${MIRRORS}/suspended`, { spec: { suspend: false } });
  const now = await secrets.holds('team-a/suspended', { a: '2' });
  assert.deepEqual([now.metadata.uid, marksOf(now)], [copy.metadata.uid, 'mirrors']);
});

it('a rule with a mistake keeps the copy that it shares when the SecretMirror that shares it is deleted', async () => {
  const { secrets, api } = scene;
  await mirror('mistaken');
  await put('source/mistaken', { a: '1' }, replicator.push('team-a'));
  await has('team-a/mistaken', 'replicator,mirrors');
  await say('source/mistaken', replicator.push('['));
  await secrets.warning('source/mistaken', 'IllFormed');
  await api.delete(`${MIRRORS}/mistaken`);
  await waitFor(async () => (await api.find(`${MIRRORS}/mistaken`)) === undefined, {
    message: 'the mirror to be gone',
  });
  await secrets.stayUnchanged(['team-a/mistaken'], 'its other rule has a mistake');
  await say('source/mistaken', replicator.push('team-a'));
  await has('team-a/mistaken', 'replicator');
});

it('if the next rule is of another controller, a copy with keys of somebody else becomes theirs', async () => {
  const { secrets } = scene;
  await put('source/mixed', { a: 'source' }, mittwald.push('team-a'));
  await secrets.holds('team-a/mixed', { a: 'source' });
  await scene.set(secrets, 'team-a/mixed', { own: 'x' });
  await put('team-b/mixed', { a: 'team-b' }, reflector.push('team-a'));
  await secrets.warning('team-b/mixed', 'Conflict');
  await secrets.delete('source/mixed');
  assert.equal(marksOf(await secrets.holds('team-a/mixed', { own: 'x' })), '');
});
