/**
 * `keyferry status` and `explain` of annotated objects before the operator starts, while it runs, and after its end.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { explainSchema } from '../../../scripts/reports/schemas.ts';
import { KINDS, type KindScene, ReplicatorScene } from '../replicator/support.ts';
import { RunningProgram, runProgram } from './program.ts';

interface Rule {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly source: string;
  readonly destinations: readonly string[];
  readonly state: string;
  readonly ready: boolean;
  readonly reason: string;
  readonly message: string;
  readonly lastSyncTime: string | null;
  readonly copies: readonly { readonly namespace: string; readonly name: string; readonly sourceVersion: string }[];
}

interface Report {
  readonly rules: readonly Rule[];
  readonly orphans: readonly { readonly name: string; readonly owner: string; readonly reason: string }[];
}

describe('keyferry status of annotated objects', () => {
  let scene: ReplicatorScene;
  let users: KindScene;
  before(async () => {
    scene = await ReplicatorScene.open({ controllerManager: false });
    await scene.namespaces('source', 'team-a', 'team-b');
    users = scene.of(KINDS[0]!);
  });
  after(() => scene.close());

  const run = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await runProgram(['status', '--kubeconfig', scene.plane.kubeconfigPath, ...args]);
    assert.equal(code, 0, stderr);
    assert.ok(!stdout.includes(scene.canary), 'a value was printed');
    return stdout;
  };
  const report = async (...args: readonly string[]): Promise<Report> =>
    JSON.parse(await run('-o', 'json', ...args)) as Report;
  const explained = async (kind: string, place: string) => {
    const args = ['explain', kind, place, '-o', 'json', '--kubeconfig', scene.plane.kubeconfigPath];
    const { code, stdout, stderr } = await runProgram(args);
    assert.ok(code === 0 || code === 1, stderr);
    assert.ok(!stdout.includes(scene.canary), 'a value was printed');
    const explanation = explainSchema.parse(JSON.parse(stdout));
    assert.equal(code, explanation.object.exists ? 0 : 1, explanation.summary);
    return explanation;
  };
  const rule = ({ rules }: Report, name: string): Rule => {
    const found = rules.find((one) => `${one.namespace}/${one.name}` === name);
    assert.ok(found, `${name} in ${JSON.stringify(rules)}`);
    return found;
  };
  const reported = (given: Report, name: string): readonly [string, string] => {
    const { state, reason } = rule(given, name);
    return [state, reason];
  };

  it('before the operator starts, status shows the copies of annotated objects as pending, and refusals with reasons', async () => {
    await users.create('source/push', { a: '1' }, { 'replicate-to': 'team-a/push,team-b/push' });
    await users.create('source/taken', { a: '1' }, { 'replicate-to': 'team-b/theirs' });
    await users.create('team-b/theirs', { own: 'x' });
    await users.create('source/broken', { a: '1' }, { 'replicate-to': 'NOT GOOD' });
    await users.create('source/typo', { a: '1' }, { 'replicate-too': 'team-a/typo' });
    await users.create('source/glob', { a: '1' }, { 'replicate-to-namespaces': 'tea*' });
    await users.create('source/closed', { a: '1' });
    await users.create('source/open', { a: '1' }, { 'replication-allowed-namespaces': 'team-a' });
    await users.create('team-a/denied', {}, { 'replicate-from': 'source/closed' });
    await users.create('team-a/pull', {}, { 'replicate-from': 'source/open' });
    await users.create('team-b/pull', {}, { 'replicate-from': 'source/open' });
    await users.create('team-a/waits', {}, { 'replicate-from': 'source/later' });
    await scene.of(KINDS[1]!).create('source/map', { a: '1' }, { 'replicate-to-namespaces': 'team-.*' });
    const now = await report();
    assert.deepEqual(reported(now, 'source/push'), ['Outdated', 'Outdated']);
    assert.deepEqual(reported(now, 'source/map'), ['Outdated', 'Outdated']);
    assert.deepEqual(reported(now, 'source/taken'), ['Active', 'Conflict']);
    assert.deepEqual(reported(now, 'source/broken'), ['Suspended', 'IllFormed']);
    assert.deepEqual(reported(now, 'source/typo'), ['Suspended', 'UnknownAnnotation']);
    assert.deepEqual(reported(now, 'team-a/denied'), ['Error', 'Denied']);
    assert.deepEqual(reported(now, 'team-b/pull'), ['Error', 'Denied']);
    assert.deepEqual(reported(now, 'team-a/pull'), ['Outdated', 'Outdated']);
    assert.deepEqual(reported(now, 'team-a/waits'), ['Error', 'Denied']);
    assert.match(rule(now, 'source/broken').message, /k8s-replicator\/replicate-to/);
    assert.match(rule(now, 'source/typo').message, /replicate-too/);
    assert.match(rule(now, 'team-a/denied').message, /k8s-replicator\/replication-allowed/);
    assert.deepEqual(reported(now, 'source/glob'), ['Active', 'MisreadPattern']);
    assert.match(rule(now, 'source/glob').message, /^a pattern looks like a mistake: .*; 0 objects are up to date$/);
    assert.equal(now.rules.length, 10);
    assert.equal(rule(now, 'team-a/denied').lastSyncTime, null);
  });

  it("with the operator's flags, status reads annotations as the operator does", async () => {
    assert.deepEqual(reported(await report('--replicator-allow-all'), 'team-a/denied'), ['Outdated', 'Outdated']);
    const ignoring = await report('--replicator-ignore-unknown');
    assert.ok(!ignoring.rules.some(({ name }) => name === 'typo'));
    assert.deepEqual((await report('--replicator-annotations-prefix=other.org')).rules, []);
  });

  it('after the operator ran, status shows the copies of annotated objects, and gives the same reasons as the events', async () => {
    const operator = await scene.operator();
    for (const name of ['team-a/push', 'team-b/push', 'team-a/pull']) await users.holds(name, { a: '1' });
    await scene.of(KINDS[1]!).holds('team-b/map', { a: '1' });
    const conflict = await users.warning('source/taken', 'Conflict');
    const denied = await users.warning('team-b/pull', 'Denied');
    await operator.stop();
    const now = await report();
    assert.equal(rule(now, 'source/taken').message, conflict.message);
    assert.equal(rule(now, 'team-b/pull').message, denied.message);
    for (const name of ['source/push', 'source/map', 'team-a/pull']) {
      assert.deepEqual(reported(now, name), ['Active', 'Synced'], name);
    }
    const { copies, destinations, source, lastSyncTime } = rule(now, 'source/push');
    assert.deepEqual(
      copies.map(({ namespace, name }) => `${namespace}/${name}`),
      ['team-a/push', 'team-b/push'],
    );
    assert.equal(copies[0]?.sourceVersion, await users.version('source/push'));
    assert.deepEqual([source, destinations], ['secret source/push', ['team-a/push', 'team-b/push']]);
    assert.match(lastSyncTime ?? '', /^20\S+Z$/);
    const table = await run('-n', 'team-a', '-o', 'wide');
    assert.match(table, /\nreplicator +team-a +pull +secret source\/open +\S+ +Active +True +1 +20\S+Z +Synced: /);
    assert.match(table, /\nreplicator +team-a +denied +secret source\/closed +\S+ +Error +False +0 +never +Denied: /);
    assert.doesNotMatch(table, /\nreplicator +source /);
  });

  it('explain describes pushed copies, filled objects and annotated rules', async () => {
    const copy = await explained('secret', 'team-a/push');
    assert.deepEqual(
      [copy.verdict, copy.owner, copy.source, copy.next],
      ['copy', 'Secret source/push', 'secret source/push', { action: 'nothing', reason: 'up to date' }],
    );
    assert.equal(copy.heldVersion, await users.version('source/push'));
    const filled = await explained('secret', 'team-a/pull');
    assert.equal(
      filled.summary,
      'Secret team-a/pull belongs to its user, and Secret team-a/pull fills its data from secret source/open.',
    );
    assert.deepEqual([filled.rule?.state, filled.claims[0]?.state], ['Active', 'synced']);
    assert.match(filled.lastWritten ?? '', /^20\S+Z$/);
    const denied = await explained('secret', 'team-b/pull');
    assert.deepEqual([denied.verdict, denied.claims[0]?.reason], ['filled', 'Denied']);
    assert.match(
      denied.summary,
      /^Secret team-b\/pull belongs to its user, and asks to be filled from .*, but is not: Denied: /,
    );
    const kept = await explained('secret', 'source/closed');
    assert.deepEqual(
      kept.sourceOf.map(({ copies }) => copies).filter((copies) => copies > 0),
      [],
    );
    assert.match(kept.summary, /none is made of it, although a rule asks for one: .*Secret team-a\/denied/);
    const taken = await explained('secret', 'team-b/theirs');
    assert.deepEqual([taken.verdict, taken.owner], ['conflict', 'Secret source/taken']);
    const broken = await explained('secret', 'source/broken');
    assert.deepEqual([broken.verdict, broken.rule?.reason], ['rule', 'IllFormed']);
    const map = await explained('configmap', 'team-b/map');
    assert.deepEqual([map.verdict, map.owner], ['copy', 'ConfigMap source/map']);
    const absent = await explained('configmap', 'default/map');
    assert.deepEqual(
      absent.others.map(({ rule, destinations, why }) => [rule, destinations, why]),
      [['ConfigMap source/map', ['team-.*'], 'does not select namespace default']],
    );
  });

  it('explain gives the version of the source that fills a pushed copy, not that of the object that pushes it', async () => {
    await users.create('team-a/relay', {}, { 'replicate-from': 'source/open', 'replicate-to': 'team-a/relayed' });
    const operator = await scene.operator();
    await users.holds('team-a/relayed', { a: '1' });
    await operator.stop();
    const { heldVersion, sourceVersion, next } = await explained('secret', 'team-a/relayed');
    const version = await users.version('source/open');
    assert.deepEqual([heldVersion, sourceVersion, next?.action], [version, version, 'nothing']);
    await users.delete('team-a/relay');
    await users.delete('team-a/relayed');
  });

  it("status -w prints a user's edit of a copy and its repair by the operator, but no value", async () => {
    await using watch = new RunningProgram(['status', '-w', '--failed', '--kubeconfig', scene.plane.kubeconfigPath]);
    await watch.seen('stdout', /^SYSTEM /);
    await users.change('team-a/push', { a: scene.canary });
    const failing = 'Secret team-a/push {2}for Secret source/push, Outdated: Keyferry will update it\n';
    await watch.seen('stdout', new RegExp(`Z {2}failing added {2}${failing}`));
    await users.change('team-a/push', { a: '1' });
    await watch.seen('stdout', new RegExp(`Z {2}failing gone {2}${failing}`));
    assert.ok(!watch.stdout.includes(scene.canary));
    assert.deepEqual(await watch.interrupt(), [0, null]);
  });

  it('after the operator has stopped, status shows edited copies, changed sources and copies without a source', async () => {
    await users.change('team-a/push', { a: 'by hand' });
    await users.change('source/open', { a: '2' });
    await scene.of(KINDS[1]!).delete('source/map');
    // This changes the version of the source, but not its data.
    const labels = { metadata: { labels: { some: 'label' } } };
    await users.create('source/calm', { a: '1' }, { 'replicate-to': 'team-a/calm' });
    const operator = await scene.operator(['-run-replicators=secret']);
    await users.holds('team-a/calm', { a: '1' });
    await users.holds('team-a/pull', { a: '2' });
    await operator.stop();
    await scene.api.patch(users.path('source/calm'), labels);
    await users.change('source/open', { a: '3' });
    await users.change('team-a/push', { a: 'by hand' });
    await users.annotate('source/push', { 'replicate-to': 'team-a/push' });
    const now = await report();
    assert.deepEqual(reported(now, 'source/push'), ['Outdated', 'Outdated']);
    assert.deepEqual(reported(now, 'team-a/pull'), ['Outdated', 'Outdated']);
    assert.deepEqual(reported(now, 'source/calm'), ['Active', 'Synced']);
    assert.deepEqual(
      now.orphans.map(({ name, owner, reason }) => [name, owner, reason]),
      [
        ['map', 'source/map', 'its source does not exist; Keyferry will delete it, or an event says why it cannot'],
        ['map', 'source/map', 'its source does not exist; Keyferry will delete it, or an event says why it cannot'],
        [
          'push',
          'source/push',
          'its source does not request it; Keyferry will delete it, or an event says why it cannot',
        ],
      ],
    );
  });

  it('if the replicator does not serve a kind, status reports annotated objects of that kind as Ignored, and none of their copies as orphans', async () => {
    const maps = scene.of(KINDS[1]!);
    await maps.create('source/idle', { a: '1' }, { 'replicate-to': 'team-a/idle' });
    const now = await report('--replicator-run-replicators=secret');
    assert.deepEqual(reported(now, 'source/idle'), ['Ignored', 'NotRun']);
    const { message, destinations, copies, ready } = rule(now, 'source/idle');
    assert.match(message, /ConfigMaps.*--run-replicators/);
    assert.deepEqual([destinations, copies, ready], [['team-a/idle'], [], false]);
    assert.deepEqual(reported(now, 'source/calm'), ['Active', 'Synced']);
    assert.deepEqual(
      now.orphans.map(({ name }) => name),
      ['push'],
    );
    const other = await report('--replicator-run-replicators=configmap');
    assert.deepEqual(reported(other, 'source/idle'), ['Outdated', 'Outdated']);
    assert.deepEqual(reported(other, 'source/calm'), ['Ignored', 'NotRun']);
  });
});
