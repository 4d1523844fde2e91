import assert from 'node:assert/strict';
import { test } from 'node:test';
import { because, type Cause } from '../../copy/model/cause.ts';
import { type Clusters, clustersText, farOf } from './other-clusters.ts';
import { contextsIn, farMark, farSourceIn, MARK, NAMES, originLabels } from './words.ts';

const DOWN = because('ClusterUnreachable', 'down');
const UIDS: Readonly<Record<string, string | Cause>> = { local: 'H', c1: 'A', c2: 'A', c3: 'B', c4: 'H', c5: DOWN };
const CLUSTERS: Clusters = {
  others: new Map(
    Object.entries({ one: 'c1', again: 'c2', two: 'c3', self: 'c4', down: 'c5', unread: 'c6' }).map(
      ([name, cluster]) => [name, { cluster, namespace: name === 'two' ? 'inbox' : undefined }],
    ),
  ),
  uidOf: (cluster) => UIDS[cluster],
  backendOf: (uid) => (uid === 'A' ? 'c1' : undefined),
};

function far(text: string, clusters: Clusters | undefined = CLUSTERS): readonly [string, string, string] {
  const wanted = {
    contexts: contextsIn({ [NAMES.contexts]: text }),
    kind: 'Secret',
    place: { namespace: 'a', name: 's' },
  };
  const { keys, problems, unknown } = farOf(wanted, clusters, 'local');
  return [keys.join(), problems.map(({ reason }) => reason).join(), unknown.map(({ reason }) => reason).join()];
}

test('a context is a target in its namespace or that of the source; mistakes and unknown clusters are told apart', () => {
  const table: Readonly<Record<string, readonly [string, string, string]>> = {
    '': ['', '', ''],
    'one,two': ['c1:Secret/a/s,c3:Secret/inbox/s', '', ''],
    // Two contexts of one cluster have one backend.
    again: ['c1:Secret/a/s', '', ''],
    'one,again': ['c1:Secret/a/s', 'IllFormed', ''],
    'one, two': ['c1:Secret/a/s', 'IllFormed', ''],
    self: ['', 'Unsupported', ''],
    'down,one,unread': ['c1:Secret/a/s', '', 'ClusterUnreachable,Pending'],
  };
  for (const [text, expected] of Object.entries(table)) assert.deepEqual(far(text), expected, text);
  assert.deepEqual(far('one', { ...CLUSTERS, others: new Map() }), ['', 'IllFormed', '']);
  // While the own cluster is not known, a context may lead to it.
  assert.deepEqual(far('one', { ...CLUSTERS, uidOf: (name) => (name === 'local' ? undefined : 'A') }), [
    '',
    '',
    'Pending',
  ]);
});

test('the version of a rule changes with what is known of the clusters that it names', () => {
  const of = (uidOf: Clusters['uidOf'], contexts = ['one']): string =>
    clustersText(contexts, { ...CLUSTERS, uidOf }, 'local');
  const texts = [() => undefined, () => 'A', () => DOWN, (name: string) => (name === 'local' ? 'H' : 'A')].map((one) =>
    of(one),
  );
  assert.equal(new Set(texts).size, texts.length);
  assert.equal(
    of(() => 'A', []),
    '',
  );
});

test('in another cluster a mark counts with the uid of this cluster; that of the original with the uid of the source', () => {
  const place = { namespace: 'x', name: 's' };
  const own = { clusterName: 'c', uid: 'H', uidOf: () => 'u' };
  const source = (labels: Record<string, string>, annotations: Record<string, string>): string | undefined =>
    farSourceIn(place, { labels, annotations }, own)?.namespace;
  const placed = { 'keyferry.dev/target': 'x/s' };
  assert.equal(source({}, { ...placed, [MARK]: farMark('H', { namespace: 'a', name: 's' }) }), 'a');
  for (const mark of ['G/a/s', 'a/s', 'H/a/other', 'H/a/s/t', ''])
    assert.equal(source({}, { ...placed, [MARK]: mark }), undefined, mark);
  const labels = originLabels({ namespace: 'a', name: 's' }, 'c');
  const origin = (uid: string) => ({ [NAMES.origin]: JSON.stringify({ namespace: 'a', name: 's', uid }) });
  assert.equal(source(labels, origin('u')), 'a');
  assert.equal(source(labels, origin('v')), undefined);
  assert.equal(source(labels, {}), undefined);
});
