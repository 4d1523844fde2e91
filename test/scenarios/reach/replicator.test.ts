/**
 * An annotation pushes or pulls only where the administrator's limits permit it, and pushes only into namespaces that
 * consent by the annotation keyferry.dev/accept-from.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { waitFor } from '../../support/wait-for.ts';
import { runProgram } from '../cli/program.ts';
import { KINDS, type KindScene, ReplicatorScene, SETTLE_MS } from '../replicator/support.ts';

const CONSENT = 'keyferry.dev/accept-from';
const FLAGS = ['--excluded-namespaces=locked', '--destination-namespaces=selector:!internal'];
const ALLOWED = { 'replication-allowed': 'true' };

describe('the reach of annotations', () => {
  let scene: ReplicatorScene;
  let users: KindScene;
  let first: Keyferry;

  const patch = async (namespace: string, metadata: Json): Promise<Json> =>
    await scene.api.patch(`/api/v1/namespaces/${namespace}`, { metadata });

  before(async () => {
    scene = await ReplicatorScene.open({ controllerManager: false });
    users = scene.of(KINDS[0] ?? assert.fail());
    await scene.namespaces('source', 'open', 'closed', 'locked', 'labelled');
    await patch('closed', { annotations: { [CONSENT]: 'team-.*' } });
    first = await scene.operator(FLAGS);
  });

  after(async () => {
    await scene.close();
  });

  it('a push writes into no excluded namespace and no namespace without consent, and one event names both namespaces with the reason', async () => {
    await users.create('source/pushed', { a: '1' }, { 'replicate-to-namespaces': 'open,closed,locked,labelled' });
    await users.holds('open/pushed', { a: '1' });
    await users.holds('labelled/pushed', { a: '1' });
    const { reason, message } = await waitFor(
      async () => {
        const events = await scene.api.list('/api/v1/namespaces/source/events');
        return events.find(({ message: text }) => /namespace closed/.test(text) && /namespace locked/.test(text));
      },
      { message: 'an event that names both' },
    );
    const told = `${reason}: ${message}`;
    assert.match(told, /NotAccepted: namespace closed does not accept copies from namespace source/);
    assert.match(told, /NotPermitted: copies into namespace locked are not permitted by --excluded-namespaces/);
    assert.equal(told.match(/NotAccepted: /g)?.length, 1, 'each reason once');
    for (const name of ['closed/pushed', 'locked/pushed']) assert.equal(await users.find(name), undefined);
    const status = await runProgram([
      'status',
      '-o',
      'wide',
      '--kubeconfig',
      scene.plane.kubeconfigPath,
      '-n',
      'source',
      ...FLAGS,
    ]);
    assert.match(status.stdout, /namespace locked/);
    assert.doesNotMatch(status.stdout, /(Not\w+): \1: /, 'no reason twice');
    const args = ['explain', 'secret', 'closed/pushed', '--kubeconfig', scene.plane.kubeconfigPath, ...FLAGS];
    const explained = await runProgram(args);
    assert.match(explained.stdout, /because the rule that asks for it does not copy there/);
    assert.match(explained.stdout, /Secret source\/pushed .*NotAccepted: namespace closed does not accept copies/);
  });

  it('a restart does not repeat events about limits and consent', async () => {
    const told = async (): Promise<string[]> => {
      const events = await scene.api.list('/api/v1/namespaces/source/events');
      return events.map(
        ({ metadata, reason, count }) => `${reason} ${metadata.name} ${metadata.resourceVersion} ${count}`,
      );
    };
    const before = await told();
    assert.ok(before.some((event) => event.startsWith('NotAccepted')));
    await first.stop();
    first = await scene.operator(FLAGS);
    await users.change('source/pushed', { a: '2' });
    await users.holds('open/pushed', { a: '2' });
    await users.create('source/marker', {}, { 'replicate-to-namespaces': 'locked' });
    const after = await waitFor(
      async () => {
        const events = await told();
        return events.length > before.length && events;
      },
      { message: 'an event that is new' },
    );
    assert.deepEqual(
      before.filter((event) => !after.includes(event)),
      [],
      'nothing is counted up',
    );
    assert.equal(after.length, before.length + 1, after.join('; '));
    await users.change('source/pushed', { a: '1' });
    await users.holds('open/pushed', { a: '1' });
  });

  it('if the consent or a label of a namespace changes, a push makes or deletes its copy there, and writes no copy elsewhere', async () => {
    const version = await users.version('open/pushed');
    await patch('labelled', { labels: { internal: 'yes' } });
    await users.gone('labelled/pushed');
    await patch('closed', { annotations: { [CONSENT]: 'source' } });
    await users.holds('closed/pushed', { a: '1' });
    await patch('labelled', { labels: { internal: null } });
    await users.holds('labelled/pushed', { a: '1' });
    await patch('closed', { annotations: { [CONSENT]: '' } });
    await users.gone('closed/pushed');
    assert.equal(await users.version('open/pushed'), version);
  });

  it('a pull needs no consent of its namespace, but in an excluded namespace the object stays unchanged', async () => {
    await users.create('source/offered', { b: '1' }, ALLOWED);
    await users.create('closed/wanted', {}, { 'replicate-from': 'source/offered' });
    await users.holds('closed/wanted', { b: '1' });
    await users.create('locked/wanted', { own: 'x' }, { 'replicate-from': 'source/offered' });
    const { message } = await users.warning('locked/wanted', 'NotPermitted');
    assert.match(message, /--excluded-namespaces/);
    await users.holds('locked/wanted', { own: 'x' });
  });

  it('with --replicator-push=false, pushed copies are deleted, and pulls continue', async () => {
    await first.stop();
    await scene.operator([...FLAGS, '--replicator-push=false']);
    await users.gone('open/pushed');
    await users.warning('source/pushed', 'NotPermitted');
    await users.change('source/offered', { b: '2' });
    await users.holds('closed/wanted', { b: '2' });
    await users.stayUnchanged(['closed/wanted', 'locked/wanted'], `nothing is written for ${SETTLE_MS} ms`);
  });
});
