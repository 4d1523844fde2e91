import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assert as check, asyncProperty, constantFrom, record, uniqueArray } from 'fast-check';
import { observedObject } from '../../../../test/support/observed-object.ts';
import type { ReadingConfig } from '../../../config/config.ts';
import { parseResourceKey, type ResourceKey, resourceKey } from '../../../copy/model/keys.ts';
import type { MigrationContext } from '../program.ts';
import { foreignReader } from './foreign.ts';
import { FOREIGN } from '../programs.ts';
import { ForeignRequests } from './requests.ts';

const REFLECTOR = 'reflector.v1.k8s.emberstack.com/';
const MITTWALD = 'replicator.v1.mittwald.de/';
const KUBED = 'kubed.appscode.com/';
const PLACES = ['home', 'team-a', 'team-b'].flatMap((namespace) => [`${namespace}/one`, `${namespace}/two`]);

type Texts = Readonly<Record<string, string>>;

/** The annotations of a rule, and the namespaces that it may push to, which the test states without Keyferry's code. */
interface Request {
  readonly annotations: Texts;
  readonly reaches?: RegExp;
  readonly pulls?: string;
}

const REQUESTS: readonly Request[] = [
  ...Array.from({ length: 12 }, () => ({ annotations: {} })),
  { annotations: { [`${KUBED}sync`]: '' }, reaches: /./ },
  { annotations: { [`${KUBED}sync`]: 'app=x' }, reaches: /./ },
  { annotations: { [`${MITTWALD}replicate-to`]: 'team-a' }, reaches: /^team-a$/ },
  { annotations: { [`${MITTWALD}replicate-to`]: '*' }, reaches: /./ },
  { annotations: { [`${MITTWALD}replicate-to`]: 'home, *-b' }, reaches: /^home$|-b$/ },
  { annotations: { [`${MITTWALD}replicate-to`]: 'team|x' }, reaches: /^team|x$/ },
  { annotations: { [`${MITTWALD}replicate-to-matching`]: 'app=x' }, reaches: /./ },
  ...PLACES.map((pulls) => ({ annotations: { [`${MITTWALD}replicate-from`]: pulls }, pulls })),
];

/** The marks of a copy. `source`: the object that they name. `mayBeFar`: the source may be in another cluster. */
interface Marks {
  readonly annotations?: Texts;
  readonly labels?: Texts;
  readonly source?: string;
  readonly mayBeFar?: boolean;
}

const MARKS: readonly Marks[] = [
  {},
  { annotations: { [`${MITTWALD}replicated-from-version`]: '1' } },
  ...PLACES.flatMap((source) => {
    const [namespace = '', name = ''] = source.split('/');
    const labels = { [`${KUBED}origin.name`]: name, [`${KUBED}origin.namespace`]: namespace };
    return [
      { annotations: { [`${REFLECTOR}reflects`]: source, [`${REFLECTOR}auto-reflects`]: 'True' }, source },
      { labels, source, mayBeFar: true },
      { labels: { ...labels, [`${KUBED}origin.cluster`]: 'far' }, source, mayBeFar: true },
    ];
  }),
];

interface Given {
  readonly place: string;
  readonly request: Request;
  readonly marks: Marks;
}

const cluster = uniqueArray(
  record({ place: constantFrom(...PLACES), request: constantFrom(...REQUESTS), marks: constantFrom(...MARKS) }),
  { selector: ({ place }) => place, minLength: 1 },
);

const keyOf = (place: string): ResourceKey => {
  const [namespace = '', name = ''] = place.split('/');
  return resourceKey('local', 'Secret', namespace, name);
};

/** The findings about all programs. Annotations to add are findings with the verdict `change`. */
async function rowsOf(all: readonly Given[], copiedBy: MigrationContext['copiedBy'] = () => undefined) {
  const objects = new Map(
    all.map(({ place, request, marks: { annotations = {}, labels = {} } }) => {
      return [keyOf(place), observedObject({ annotations: { ...annotations, ...request.annotations }, labels })];
    }),
  );
  const requests = FOREIGN.map((program) => new ForeignRequests(program, objects));
  const heldBy = (key: ResourceKey): string | undefined => requests.flatMap((one) => one.heldBy(key) ?? [])[0];
  const config = { replicator: { annotationsPrefix: 'k8s-replicator', allowAll: false } };
  const context = { objects, config: config as ReadingConfig, heldBy, copiedBy } as unknown as MigrationContext;
  const found = await Promise.all(FOREIGN.map(async (program) => await foreignReader(program).find(context)));
  const rows: { verdict: string; place: string; text: string }[] = [];
  for (const { findings, changes } of found) {
    for (const { verdict, object, text } of findings) {
      rows.push({ verdict, place: `${object.namespace}/${object.name}`, text });
    }
    for (const { object, text } of changes) {
      const { namespace, name } = parseResourceKey(object);
      rows.push({ verdict: 'change', place: `${namespace}/${name}`, text });
    }
  }
  return rows;
}

describe('the objects of other copiers', () => {
  it('a copy of another copier is a leftover only if its source is gone, and no rule of any program makes, fills or uses it', async () => {
    let leftovers = 0;
    await check(
      asyncProperty(cluster, async (all) => {
        for (const { verdict, place, text } of await rowsOf(all)) {
          if (verdict !== 'leftover') {
            assert.doesNotMatch(text, /delete/);
            continue;
          }
          leftovers += 1;
          const [namespace = '', name = ''] = place.split('/');
          const own = all.find((one) => one.place === place);
          assert.ok(own?.marks.source !== undefined && own.marks.mayBeFar !== true, text);
          assert.equal(own.marks.source.split('/')[1], name, 'a copy has the name of its source');
          assert.ok(!all.some((one) => one.place === own.marks.source), 'its source is there');
          assert.ok(own.request.pulls === undefined && own.request.reaches === undefined, 'it is a rule');
          for (const other of all) {
            assert.notEqual(other.request.pulls, place, 'another object is filled from it');
            const isSame = other.place !== place && other.place.endsWith(`/${name}`);
            assert.ok(!isSame || other.request.reaches?.test(namespace) !== true, `${other.place} is pushed here`);
          }
        }
      }),
      { numRuns: 2000 },
    );
    assert.ok(leftovers > 5, `only ${leftovers} leftovers in all runs`);
  });

  it('a copy whose source may be in another cluster is never a leftover, whatever name of a cluster its label has', async () => {
    const none = { annotations: {} };
    const marks = (name: string, clusterName: Texts, uid: string): Marks => ({
      annotations: { [`${KUBED}origin`]: JSON.stringify({ namespace: 'home', name, uid }) },
      labels: { [`${KUBED}origin.name`]: name, [`${KUBED}origin.namespace`]: 'home', ...clusterName },
    });
    // `undefined`: no label. The others are the default names of the program and of its Helm chart.
    for (const name of [undefined, '', 'unicorn']) {
      const label: Texts = name === undefined ? {} : { [`${KUBED}origin.cluster`]: name };
      const rows = await rowsOf([
        { place: 'home/one', request: { annotations: { [`${KUBED}sync`]: '' } }, marks: {} },
        // A user can write these marks, too.
        { place: 'team-a/one', request: none, marks: marks('one', label, observedObject().uid) },
        { place: 'team-a/two', request: none, marks: marks('two', label, 'gone') },
      ]);
      assert.equal(rows.find(({ place }) => place === 'team-a/two')?.verdict, 'manual');
    }
  });

  it('a copy does not count as a leftover if the source in its marks is not a valid object, or has spaces around it', async () => {
    const none = { annotations: {} };
    const marks = (source: string): Marks => ({
      annotations: { [`${REFLECTOR}reflects`]: source, [`${REFLECTOR}auto-reflects`]: 'True' },
    });
    const rows = await rowsOf([
      { place: 'home/one', request: none, marks: {} },
      { place: 'team-a/one', request: none, marks: marks(' home / one ') },
      { place: 'team-b/one', request: none, marks: marks('HOME/one') },
      { place: 'team-a/two', request: none, marks: marks('home/two') },
      { place: 'team-b/two', request: none, marks: marks('team-a/two') },
    ]);
    assert.deepEqual(
      rows.map(({ verdict, place }) => `${verdict} ${place}`),
      ['manual team-a/one', 'manual team-b/one', 'manual team-a/two', 'manual team-b/two'],
    );
  });

  it('a source with a label selector is unsupported until a rule of Keyferry copies it', async () => {
    const request = { annotations: { [`${MITTWALD}replicate-to-matching`]: 'app=x' } };
    const all = [{ place: 'home/one', request, marks: {} }];
    const [open] = await rowsOf(all);
    assert.equal(open?.verdict, 'unsupported');
    const [done] = await rowsOf(all, (key) => (key === keyOf('home/one') ? 'SecretMirror home/one' : undefined));
    assert.equal(done?.verdict, 'difference');
    assert.match(done.text, /^SecretMirror home\/one copies it already; compare: .*namespaceSelector/);
  });

  it('an object that config-syncer pushes is a source, even if it has the marks of a copy', async () => {
    const sync = { annotations: { [`${KUBED}sync`]: '' } };
    const stamp = { labels: { [`${KUBED}origin.name`]: 'one', [`${KUBED}origin.namespace`]: 'home' } };
    const rows = await rowsOf([
      { place: 'home/one', request: sync, marks: stamp },
      { place: 'team-a/one', request: { annotations: {} }, marks: stamp },
      { place: 'team-b/one', request: sync, marks: stamp },
    ]);
    assert.deepEqual(
      rows.map(({ verdict, place, text }) => [verdict, place, text]),
      [
        ['change', 'home/one', 'is pushed to .*'],
        ['change', 'team-b/one', 'is pushed to .*'],
        ['change', 'team-a/one', 'is a copy of home/one'],
      ],
    );
  });
});
