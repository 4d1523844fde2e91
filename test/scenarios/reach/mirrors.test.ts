/**
 * A SecretMirror copies only into namespaces that the administrator's limits permit and that consent to it by the
 * annotation keyferry.dev/accept-from.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { waitFor } from '../../support/wait-for.ts';
import { runProgram } from '../cli/program.ts';
import { annotations, MirrorScene, secretPath } from '../mirrors/support.ts';

const CONSENT = 'keyferry.dev/accept-from';
const VALUES = { password: 'x' };

describe('the reach of SecretMirrors', () => {
  let scene: MirrorScene;
  let operator: Keyferry;

  const consent = async (namespace: string, text: string | null): Promise<Json> =>
    await scene.api.patch(`/api/v1/namespaces/${namespace}`, annotations({ [CONSENT]: text }), 'merge');

  before(async () => {
    scene = await MirrorScene.open({ controllerManager: false });
    await scene.namespaces('open', 'closed', 'secluded-1', 'excluded', 'kept', 'broken', 'team-a', 'team-b');
    await consent('closed', 'team-a, infra-.*');
    await consent('secluded-1', '');
    for (const home of ['default', 'team-a']) await scene.secret(home, 'db', VALUES);
    operator = await scene.operator({ args: ['--excluded-namespaces=excluded,never-.*'] });
  });

  after(async () => {
    await scene.close();
  });

  it('the first line of the log has the limits in force', () => {
    const [first] = operator.logs();
    assert.deepEqual([first.msg, first.limits], ['starting', '--excluded-namespaces=excluded,never-.*']);
  });

  it('a mirror copies into no excluded namespace and no namespace without consent, and is not ready if it names such a namespace', async () => {
    await scene.mirror('named', ['open', 'closed', 'excluded', 'secluded-.*'], { source: { name: 'db' } });
    await scene.copied('open', 'db', VALUES);
    const { conditions, mirrorStatus } = await scene.ready('named', 'NotAccepted');
    assert.equal(mirrorStatus, 'Active');
    const [{ message }] = conditions;
    assert.match(
      message,
      /namespace closed does not accept copies|namespace closed and 1 other namespace do not accept/,
    );
    assert.match(message, /NotPermitted: copies into namespace excluded are not permitted by --excluded-namespaces/);
    assert.match(message, /1 copy is up to date/);
    assert.doesNotMatch(message, /secluded-1/, 'the rule does not name it');
    await scene.event('named', 'NotAccepted');
    for (const namespace of ['closed', 'excluded', 'secluded-1'])
      assert.equal(await scene.find(namespace, 'db'), undefined);
    await scene.api.delete(mirrorPathOf('named'));
    await scene.gone(mirrorPathOf('named'), secretPath('open', 'db'));
  });

  it('if only a pattern of a mirror matches namespaces without consent, the mirror reports their number and not their names', async () => {
    await scene.mirror('db', ['open', 'closed', 'secluded.*'], {}, 'team-a');
    await scene.copied('closed', 'db', VALUES);
    const { conditions } = await scene.ready('db', 'Synced', /1 namespace does not accept copies/, 'team-a');
    assert.doesNotMatch(JSON.stringify(conditions), /secluded-1/);
    const event = await scene.event('db', 'NotAccepted', /(?:)/, 'team-a');
    assert.equal(event.type, 'Normal');
  });

  it('if a namespace withdraws its consent, its copies are deleted; if it consents again, they are made again', async () => {
    const copy = await scene.find('open', 'db');
    await consent('closed', 'team-b');
    await scene.gone(secretPath('closed', 'db'));
    await scene.ready('db', 'NotAccepted', /namespace closed does not|namespace closed and/, 'team-a');
    await consent('closed', null);
    await scene.copied('closed', 'db', VALUES);
    assert.equal((await scene.find('open', 'db')).metadata.uid, copy.metadata.uid);
  });

  it('if a namespace withdraws its consent to a mirror with deletePolicy retain, the copy stays unchanged', async () => {
    await scene.secret('team-b', 'kept', VALUES);
    await scene.mirror('kept', ['kept'], { deletePolicy: 'retain' }, 'team-b');
    await scene.copied('kept', 'kept', VALUES);
    await consent('kept', 'team-a');
    await scene.ready('kept', 'NotAccepted', /namespace kept/, 'team-b');
    await scene.change('team-b', 'kept', { password: 'y' });
    assert.deepEqual((await scene.find('kept', 'kept')).data, scene.data(VALUES), 'it stays, and is not written');
  });

  it('a copy that deletePolicy retain left stays when the policy becomes delete, and is updated again when its namespace is selected', async () => {
    const destination = { namespaces: ['open'], name: 'shortened' };
    await scene.mirror('shortened', [], { source: { name: 'kept' }, deletePolicy: 'retain', destination }, 'team-b');
    await scene.copied('open', 'shortened', { password: 'y' });
    const patch = async (name: string, spec: Json): Promise<Json> =>
      await scene.api.patch(mirrorPathOf(name, 'team-b'), { spec }, 'merge');
    await patch('shortened', { destination: { namespaces: ['nowhere'] } });
    for (const name of ['kept', 'shortened']) await patch(name, { deletePolicy: 'delete' });
    await scene.mirror('later', ['open'], { source: { name: 'kept' }, destination: { name: 'later' } }, 'team-b');
    await scene.copied('open', 'later', { password: 'y' });
    await scene.ready('shortened', 'Synced', /^0 copies/, 'team-b');
    for (const [namespace, name] of [
      ['kept', 'kept'],
      ['open', 'shortened'],
    ] as const) {
      const { metadata } = await scene.find(namespace, name);
      assert.equal(metadata.annotations['keyferry.dev/retain'], 'true', `${namespace}/${name} stays`);
    }
    await consent('kept', null);
    await patch('shortened', { destination: { namespaces: ['open'] } });
    for (const [namespace, name] of [
      ['kept', 'kept'],
      ['open', 'shortened'],
    ] as const) {
      await scene.copied(namespace, name, { password: 'y' });
      await waitFor(async () => !('keyferry.dev/retain' in (await scene.find(namespace, name)).metadata.annotations), {
        message: `${namespace}/${name} to follow the policy again`,
      });
    }
    await patch('kept', { deletePolicy: 'retain' });
    await consent('kept', 'team-a');
  });

  it("if a namespace's consent is not a valid pattern, it gets no copies, and the rule says so", async () => {
    await scene.secret('team-b', 'fragile', VALUES);
    await scene.mirror('fragile', ['broken'], {}, 'team-b');
    await scene.copied('broken', 'fragile', VALUES);
    await consent('broken', 'team-b, (');
    await scene.gone(secretPath('broken', 'fragile'));
    await scene.ready('fragile', 'NotAccepted', /a mistake in annotation/, 'team-b');
  });

  it('plan, status and explain report limits and missing consents of a mirror in the same way', async () => {
    const flags = ['--excluded-namespaces=excluded,never-.*', '--kubeconfig', scene.plane.kubeconfigPath];
    const status = await runProgram(['status', '-o', 'wide', '-n', 'team-b', ...flags]);
    assert.match(status.stdout, /NotAccepted/);
    const explained = await runProgram(['explain', 'secret', 'broken/fragile', ...flags]);
    assert.match(explained.stdout, /NotAccepted: namespace broken does not accept copies from namespace team-b/);
    assert.doesNotMatch(explained.stdout + status.stdout, /(Not\w+): \1: /, 'no reason twice');
    assert.doesNotMatch(explained.stdout, /no rule makes it|does not select/);
    const mirror = await scene.api.get(mirrorPathOf('fragile', 'team-b'));
    const planned = await runProgram(['plan', '-', ...flags], JSON.stringify(mirror));
    assert.match(planned.stdout, /team-b\/fragile: NotAccepted: namespace broken does not accept copies/);
    assert.equal(planned.code, 3, 'a namespace that the rule names does not get its copy');
  });

  it('explain of a missing copy reports the missing consent, also if the copy and its source have different names', async () => {
    await scene.mirror(
      'renamed',
      ['broken'],
      { source: { name: 'fragile' }, destination: { name: 'other' } },
      'team-b',
    );
    await scene.ready('renamed', 'NotAccepted', /^namespace broken does not accept/, 'team-b');
    const args = ['explain', 'secret', 'broken/other', '--kubeconfig', scene.plane.kubeconfigPath];
    const { stdout } = await runProgram(args);
    assert.match(stdout, /^Secret broken\/other does not exist, because the rule that asks for it does not copy there/);
    assert.match(stdout, /SecretMirror team-b\/renamed .*NotAccepted: namespace broken does not accept copies/);
  });

  it('with --source-namespaces and --require-consent, mirrors in other namespaces are refused, and namespaces without consent get no copy', async () => {
    const [first] = scene.operators;
    await first?.stop();
    await scene.operator({ args: ['--source-namespaces=team-a', '--require-consent'] });
    await scene.gone(secretPath('closed', 'db'), secretPath('open', 'db'));
    await scene.ready('db', 'NotAccepted', /no annotation keyferry.dev\/accept-from/, 'team-a');
    const { mirrorStatus } = await scene.ready('kept', 'NotPermitted', /--source-namespaces/, 'team-b');
    assert.equal(mirrorStatus, 'Error');
    assert.ok(await scene.find('kept', 'kept'), 'retained');
    await consent('open', '.*');
    await scene.copied('open', 'db', VALUES);
  });
});

function mirrorPathOf(name: string, namespace = 'default'): string {
  return `/apis/mirrors.kts.studio/v1alpha2/namespaces/${namespace}/secretmirrors/${name}`;
}
