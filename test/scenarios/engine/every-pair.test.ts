/**
 * Every pair of systems that copy inside a cluster, in one process: SecretMirrors, and the annotations of replicator,
 * reflector, mittwald and config-syncer. Each object has one writer, one source makes one copy, and nothing rings.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { rowsOf } from '../../support/long.ts';
import { waitFor } from '../../support/wait-for.ts';
import { SyncScene } from '../config-syncer/support.ts';

type Annotations = Readonly<Record<string, string>>;

const REFLECTOR = 'reflector.v1.k8s.emberstack.com';
const MITTWALD = 'replicator.v1.mittwald.de';
const AT_ONCE = { concurrency: 8 };

/** A system that makes copies in the namespace `team` or `next`. */
interface Pusher {
  readonly name: string;
  /** The annotation of its copies that names the rule. */
  readonly mark: string;
  /** On a source; `undefined`: the system has a SecretMirror in the namespace of the source. */
  readonly on?: (namespace: string, name: string) => Annotations;
}

/** A system that fills objects that ask for it. */
interface Filler {
  readonly name: string;
  readonly mark: string;
  readonly ask: (source: string) => Annotations;
  readonly permit: Annotations;
}

const PUSHERS: readonly Pusher[] = [
  { name: 'mirrors', mark: 'mirrors.kts.studio/owned-by' },
  {
    name: 'replicator',
    mark: 'k8s-replicator/replicated-by',
    on: (namespace, name) => ({ 'k8s-replicator/replicate-to': `${namespace}/${name}` }),
  },
  {
    name: 'reflector',
    mark: `${REFLECTOR}/reflects`,
    on: (namespace) => ({
      [`${REFLECTOR}/reflection-allowed`]: 'true',
      [`${REFLECTOR}/reflection-auto-enabled`]: 'true',
      [`${REFLECTOR}/reflection-auto-namespaces`]: namespace,
    }),
  },
  {
    name: 'mittwald',
    mark: 'keyferry.dev/replicated-from',
    on: (namespace) => ({ [`${MITTWALD}/replicate-to`]: namespace }),
  },
  {
    name: 'config-syncer',
    mark: 'keyferry.dev/synced-from',
    on: (namespace) => ({ 'kubed.appscode.com/sync': `kubernetes.io/metadata.name=${namespace}` }),
  },
];

const FILLERS: readonly Filler[] = [
  {
    name: 'replicator',
    mark: 'k8s-replicator/replicated-from-version',
    ask: (source) => ({ 'k8s-replicator/replicate-from': source }),
    permit: { 'k8s-replicator/replication-allowed': 'true' },
  },
  {
    name: 'reflector',
    mark: `${REFLECTOR}/reflected-version`,
    ask: (source) => ({ [`${REFLECTOR}/reflects`]: source }),
    permit: { [`${REFLECTOR}/reflection-allowed`]: 'true' },
  },
  {
    name: 'mittwald',
    mark: `${MITTWALD}/replicated-from-version`,
    ask: (source) => ({ [`${MITTWALD}/replicate-from`]: source }),
    permit: { [`${MITTWALD}/replication-allowed`]: 'true', [`${MITTWALD}/replication-allowed-namespaces`]: '.*' },
  },
];

let scene: SyncScene;
before(async () => {
  scene = await SyncScene.open({ crds: true });
  await scene.namespaces('one', 'two', 'team', 'next');
  const controllers = 'mirrors,replicator,reflector,mittwald,config-syncer';
  await scene.operator([], { command: 'run', args: [`--controllers=${controllers}`, '--source-grace=0'] });
});
after(() => scene.close());

/** In a short run, each of the seconds with some of the firsts. */
const pairsOf = <A extends { name: string }, B extends { name: string }>(
  firsts: readonly A[],
  seconds: readonly B[],
): (readonly [A, B])[] =>
  seconds.flatMap((second) =>
    rowsOf(firsts.filter(({ name }) => name !== second.name).map((first) => [first, second] as const)),
  );

const mirrorPath = (source: string): string => {
  const [namespace = '', name = ''] = source.split('/');
  return `/apis/mirrors.kts.studio/v1alpha2/namespaces/${namespace}/secretmirrors/${name}`;
};

/** Makes a rule for a source that exists: a copy of its name in the other namespace. */
async function on(system: Pusher, source: string, place = 'team'): Promise<void> {
  const [namespace = '', name = ''] = source.split('/');
  if (system.on === undefined)
    await scene.api.create({
      apiVersion: 'mirrors.kts.studio/v1alpha2',
      kind: 'SecretMirror',
      metadata: { namespace, name },
      spec: { source: { name }, destination: { namespaces: [place] } },
    });
  else await scene.say(scene.secrets, source, system.on(place, name));
}

async function off(system: Pusher, source: string): Promise<void> {
  if (system.on === undefined) await scene.api.delete(mirrorPath(source));
  else {
    const given = Object.keys(system.on('', ''));
    await scene.say(scene.secrets, source, Object.fromEntries(given.map((name) => [name, null])));
  }
}

/** The systems whose marks an object has. */
function marksOf({ metadata: { annotations = {} } }: Json): string {
  return PUSHERS.filter(({ mark }) => mark in annotations)
    .map(({ name }) => name)
    .join();
}

async function has(object: string, ...systems: readonly Pusher[]): Promise<Json> {
  const wanted = PUSHERS.filter((one) => systems.includes(one)).map(({ name }) => name);
  return await scene.secrets.becomes(object, (copy) => marksOf(copy) === wanted.join(), wanted.join());
}

/** Waits for a condition of the SecretMirror, or an event on the annotated source. */
async function told({ on: isAnnotated }: Pusher, source: string, reason: string): Promise<void> {
  if (isAnnotated !== undefined) await scene.secrets.warning(source, reason);
  else
    await waitFor(
      async () => {
        const { status } = await scene.api.get(mirrorPath(source));
        return status?.conditions?.some((one: Json) => one.reason === reason);
      },
      { message: `${reason} on ${source}` },
    );
}

describe('two systems with different sources for one name', AT_ONCE, () => {
  for (const [holder, other] of pairsOf(PUSHERS, PUSHERS))
    it(`${holder.name} has the name; ${other.name} says so, and takes over`, async () => {
      const { secrets } = scene;
      const name = `name-${holder.name}-${other.name}`;
      await secrets.create(`one/${name}`, { a: 'one' });
      await secrets.create(`two/${name}`, { a: 'two' });
      await on(holder, `one/${name}`);
      await secrets.holds(`team/${name}`, { a: 'one' });
      await on(other, `two/${name}`);
      await told(other, `two/${name}`, 'Conflict');
      await secrets.change(`one/${name}`, { a: 'one again' });
      await secrets.holds(`team/${name}`, { a: 'one again' });
      await off(holder, `one/${name}`);
      await secrets.holds(`team/${name}`, { a: 'two' });
      // No mark of the first is left.
      await has(`team/${name}`, other);
    });
});

describe('two systems with one source', AT_ONCE, () => {
  for (const [first, second] of pairsOf(PUSHERS, PUSHERS))
    it(`${first.name}, then ${second.name}: one copy, which goes from one to the other without a gap`, async () => {
      const { secrets } = scene;
      const name = `same-${first.name}-${second.name}`;
      await secrets.create(`one/${name}`, { a: '1' });
      await on(first, `one/${name}`);
      const { metadata } = await has(`team/${name}`, first);
      await on(second, `one/${name}`);
      await has(`team/${name}`, first, second);
      await secrets.change(`one/${name}`, { a: '2' });
      await secrets.holds(`team/${name}`, { a: '2' });
      await secrets.stayUnchanged([`one/${name}`, `team/${name}`], 'a copy of two systems');
      await off(first, `one/${name}`);
      assert.equal((await has(`team/${name}`, second)).metadata.uid, metadata.uid);
      await secrets.change(`one/${name}`, { a: '3' });
      await secrets.holds(`team/${name}`, { a: '3' });
      await off(second, `one/${name}`);
      await secrets.gone(`team/${name}`);
      assert.equal(marksOf(await secrets.find(`one/${name}`)), '');
    });
});

describe('an annotation that pulls, on the copy of another system', AT_ONCE, () => {
  for (const [filler, holder] of pairsOf(FILLERS, PUSHERS))
    it(`${filler.name} does not fill a copy of ${holder.name}`, async () => {
      const { secrets } = scene;
      const name = `fill-${filler.name}-${holder.name}`;
      await secrets.create(`one/${name}`, { a: 'one' });
      await scene.put(secrets, `two/${name}`, { a: 'two' }, filler.permit);
      await on(holder, `one/${name}`);
      await secrets.holds(`team/${name}`, { a: 'one' });
      await scene.say(secrets, `team/${name}`, filler.ask(`two/${name}`));
      await secrets.warning(`team/${name}`, 'Conflict');
      await secrets.change(`one/${name}`, { a: 'one again' });
      await secrets.holds(`team/${name}`, { a: 'one again' });
      await secrets.stayUnchanged([`team/${name}`], 'a copy with an annotation that pulls');
    });
});

describe('two annotations that pull, on one object', AT_ONCE, () => {
  for (const [first, second] of pairsOf(FILLERS, FILLERS)) {
    it(`${first.name} and ${second.name} with one source: filled once, with both bookkeepings`, async () => {
      const { secrets } = scene;
      const name = `both-${first.name}-${second.name}`;
      await scene.put(secrets, `one/${name}`, { a: '1' }, { ...first.permit, ...second.permit });
      await scene.put(secrets, `team/${name}`, {}, first.ask(`one/${name}`));
      await secrets.holds(`team/${name}`, { a: '1' });
      await scene.say(secrets, `team/${name}`, second.ask(`one/${name}`));
      await secrets.change(`one/${name}`, { a: '2' });
      const version = await secrets.version(`one/${name}`);
      await secrets.becomes(
        `team/${name}`,
        ({ metadata: { annotations } }) => annotations[first.mark] === version && annotations[second.mark] === version,
        'filled with both bookkeepings',
      );
      await secrets.holds(`team/${name}`, { a: '2' });
      await secrets.stayUnchanged([`team/${name}`], 'an object that two annotations fill');
    });

    it(`${first.name} has filled, ${second.name} asks for another source: a Conflict, until the first goes`, async () => {
      const { secrets } = scene;
      const name = `other-${first.name}-${second.name}`;
      await scene.put(secrets, `one/${name}`, { a: 'one' }, first.permit);
      await scene.put(secrets, `two/${name}`, { a: 'two' }, second.permit);
      await scene.put(secrets, `team/${name}`, {}, first.ask(`one/${name}`));
      await secrets.holds(`team/${name}`, { a: 'one' });
      await scene.say(secrets, `team/${name}`, second.ask(`two/${name}`));
      await secrets.warning(`team/${name}`, 'Conflict');
      await secrets.stayUnchanged([`team/${name}`], 'an object with two sources');
      const ends = Object.fromEntries(Object.keys(first.ask('')).map((key) => [key, null]));
      await scene.say(secrets, `team/${name}`, ends);
      await secrets.holds(`team/${name}`, { a: 'two' });
    });

    it(`${first.name} and ${second.name} that fill two objects from each other write nothing`, async () => {
      const { secrets } = scene;
      const name = `ring-${first.name}-${second.name}`;
      await scene.put(secrets, `one/${name}`, { a: 'one' }, { ...first.ask(`two/${name}`), ...second.permit });
      await scene.put(secrets, `two/${name}`, { b: 'two' }, { ...second.ask(`one/${name}`), ...first.permit });
      for (const place of ['one', 'two']) await secrets.warning(`${place}/${name}`, 'Cycle');
      await secrets.holds(`two/${name}`, { b: 'two' });
    });
  }
});

describe('chains', AT_ONCE, () => {
  for (const [filler, pusher] of pairsOf(FILLERS, PUSHERS))
    it(`what ${filler.name} fills, ${pusher.name} copies on, without the annotation that pulls`, async () => {
      const { secrets } = scene;
      const name = `chain-${filler.name}-${pusher.name}`;
      await scene.put(secrets, `one/${name}`, { a: '1' }, filler.permit);
      await scene.put(secrets, `two/${name}`, {}, filler.ask(`one/${name}`));
      await secrets.holds(`two/${name}`, { a: '1' });
      await on(pusher, `two/${name}`);
      const copy = await secrets.holds(`team/${name}`, { a: '1' });
      if (filler.name !== 'reflector' || pusher.name !== 'reflector')
        for (const key of Object.keys(filler.ask(''))) assert.equal(copy.metadata.annotations[key], undefined, key);
      await secrets.change(`one/${name}`, { a: '2' });
      await secrets.holds(`team/${name}`, { a: '2' });
      await secrets.stayUnchanged([`one/${name}`, `two/${name}`, `team/${name}`], 'a chain');
    });

  for (const [holder, pusher] of pairsOf(PUSHERS, PUSHERS)) {
    // A copy of config-syncer has the annotations of its source alone, and the one that makes it a source itself.
    if (holder.name === 'config-syncer' && pusher.on !== undefined) continue;
    it(`a user lets ${pusher.name} copy a copy of ${holder.name} on: its mark stays behind`, async () => {
      const { secrets } = scene;
      const name = `on-${holder.name}-${pusher.name}`;
      await secrets.create(`one/${name}`, { a: '1' });
      await on(holder, `one/${name}`);
      await has(`team/${name}`, holder);
      await on(pusher, `team/${name}`, 'next');
      await secrets.holds(`next/${name}`, { a: '1' });
      await has(`next/${name}`, pusher);
      await secrets.change(`one/${name}`, { a: '2' });
      await secrets.holds(`next/${name}`, { a: '2' });
      await secrets.stayUnchanged([`one/${name}`, `team/${name}`, `next/${name}`], 'a copy of a copy');
      await has(`team/${name}`, holder);
      await off(pusher, `team/${name}`);
      await secrets.gone(`next/${name}`);
      await off(holder, `one/${name}`);
      await secrets.gone(`team/${name}`);
    });
  }
});
