/** What the commands say beside a running operator: what is, what flags would do, each thing once, and in the exit code. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { explainSchema, statusSchema } from '../../../scripts/reports/schemas.ts';
import { freePort } from '../../servers/ports.ts';
import { HOME, MirrorScene, mirrorPath, secretPath } from '../mirrors/support.ts';
import { waitFor } from '../../support/wait-for.ts';
import { type ProgramResult, runProgram } from './program.ts';

const VALUES = { password: 'x' };
const CONSENT = 'keyferry.dev/accept-from';

describe('the commands beside an operator', () => {
  let scene: MirrorScene;

  const run = async (...args: readonly string[]): Promise<ProgramResult> =>
    await runProgram([...args, '--kubeconfig', scene.plane.kubeconfigPath]);
  const status = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await run('status', '-o', 'json', ...args);
    assert.equal(code, 0, stderr);
    return statusSchema.parse(JSON.parse(stdout));
  };
  const explain = async (...args: readonly string[]) =>
    explainSchema.parse(JSON.parse((await run('explain', ...args, '-o', 'json')).stdout));
  const annotated = async (place: string, annotations: Record<string, string>): Promise<void> => {
    const [namespace = '', name = ''] = place.split('/');
    const keys = Object.entries(annotations).map(([key, text]) => [`k8s-replicator/${key}`, text]);
    await scene.secret(namespace, name, VALUES, { metadata: { annotations: Object.fromEntries(keys) as object } });
  };

  before(async () => {
    scene = await MirrorScene.open({ controllerManager: false });
    await scene.namespaces('out-a', 'out-b', 'closed', 'calm');
    await scene.api.patch('/api/v1/namespaces/closed', { metadata: { annotations: { [CONSENT]: 'nobody' } } });
    for (const name of ['named', 'wide', 'shut']) await scene.secret(HOME, name, VALUES);
    await scene.mirror('named', ['out-a'], { deletePolicy: 'retain' });
    await scene.mirror('wide', ['out-.*']);
    await scene.operator();
    await scene.ready('named', 'Synced');
    await scene.ready('wide', 'Synced', /^2 copies/);
  });
  after(() => scene.close());

  it('status --failed with a limit shows the mirrors that it makes unready, and the copies that it deletes', async () => {
    assert.match((await run('status', '--failed')).stdout, /^No problems found\./);
    const limit = '--excluded-namespaces=out-a';
    const { rules, orphans, notes } = await status('--failed', limit);
    assert.deepEqual(
      rules.map(({ name, state, ready, reason }) => [name, state, ready, reason]),
      [
        ['named', 'Active', false, 'NotPermitted'],
        // This limit lets a copy of it go, which is not deleted yet.
        ['wide', 'Outdated', false, 'Outdated'],
      ],
    );
    assert.match(rules[0]?.message ?? '', /by --excluded-namespaces; its status says Synced: 1 copy is up to date$/);
    assert.deepEqual(
      orphans.map(({ namespace, name, action }) => [namespace, name, action]),
      [['out-a', 'wide', 'delete']],
      'the copy of a mirror with deletePolicy retain stays',
    );
    assert.ok(notes.some((note) => note.startsWith('Whether Keyferry will delete these orphans depends on its flags')));
    assert.equal((await status(limit)).orphans.length, 2);
  });

  it('explain says what only its flags would do, and what the condition of the ready rule says', async () => {
    const would = await explain('secret', 'out-a/wide', '--require-consent');
    assert.equal(would.verdict, 'orphan');
    assert.match(
      would.summary,
      /^With --require-consent, Secret out-a\/wide would no longer be a copy of .*Keyferry will delete it, or an event says why it cannot\.$/,
    );
    assert.match(
      would.notes.join('\n'),
      /^the condition of SecretMirror default\/wide says Synced: 2 copies are up to date; the operator may have other/m,
    );
    const { verdict, summary, notes } = await explain('secret', 'out-a/wide');
    assert.deepEqual([verdict, notes], ['copy', []]);
    assert.match(summary, /^Secret out-a\/wide is a copy of/);
  });

  it('if the operator cannot read a source in Vault, FAILING and explain give the reason of its condition', async () => {
    const vault = { addr: `http://127.0.0.1:${await freePort()}`, path: '/secret/data/x' };
    const auth = { token: { secretRef: { name: 'token' } } };
    await scene.secret(HOME, 'token', { token: 'x' });
    await scene.mirror('far', ['out-b'], { source: { name: 'far', type: 'vault', vault: { ...vault, auth } } });
    const { reason, message } = await waitFor(
      async () =>
        (await scene.status('far'))?.conditions?.find((one: { reason: string }) => one.reason.startsWith('Vault')),
      { message: 'the failure of Vault' },
    );
    const told = (await status('--failed')).rules.find(({ name }) => name === 'far')?.failing;
    assert.deepEqual(
      told?.map((target) => [target.namespace, target.reason, target.message]),
      [['out-b', reason, message]],
    );
    const { verdict, summary } = await explain('secret', 'out-b/far');
    assert.equal(verdict, 'missing');
    assert.ok(summary.endsWith(`: the condition of SecretMirror default/far says ${reason}: ${message}.`), summary);
    await scene.api.delete(mirrorPath('far'));
    await scene.gone(mirrorPath('far'));
  });

  it('explain prints the sentence of a refusal once', async () => {
    await scene.secret(HOME, 'source', VALUES);
    await annotated('calm/asks', { 'replicate-from': `${HOME}/source` });
    const { claims } = await explain('secret', 'calm/asks');
    const { reason, message = '' } = claims[0] ?? {};
    assert.equal(reason, 'Denied');
    const { stdout } = await run('explain', 'secret', 'calm/asks');
    assert.equal(stdout.split(message).length, 2, stdout);
    await scene.api.delete(secretPath('calm', 'asks'));
  });

  it('explain of a copy that is missing because of a mistake names the object with the mistake', async () => {
    await annotated(`${HOME}/misspelt`, { 'replicate-to-namespace': 'out-a' });
    const { verdict, summary, others } = await explain('secret', 'out-a/misspelt');
    assert.equal(verdict, 'absent');
    assert.match(summary, /no rule makes it, though there are rules for this name \(below\)\.$/);
    assert.deepEqual(
      others.map(({ rule }) => rule),
      [`Secret ${HOME}/misspelt`],
    );
    assert.match(others[0]?.why ?? '', /replicate-to-namespace/);
    assert.deepEqual((await explain('secret', `${HOME}/misspelt`)).others, []);
    await scene.api.delete(secretPath(HOME, 'misspelt'));
  });

  it('with --exit-code, status and explain exit with 3 if a rule is not ready, and always with 1 for what does not exist', async () => {
    const code = async (...args: readonly string[]): Promise<number | null> => (await run(...args)).code;
    assert.equal(await code('status', '--exit-code'), 0);
    await scene.mirror('shut', ['closed']);
    await scene.ready('shut', 'NotAccepted');
    assert.equal(await code('status', '--failed', '--exit-code'), 3);
    assert.equal(await code('status', '--failed'), 0);
    assert.match((await run('status', '--failed')).stdout, /^Secret +closed +shut +SecretMirror \S+ +NotAccepted: /m);
    assert.equal(await code('status', '-n', 'calm', '--exit-code'), 0, 'the rule is in another namespace');
    assert.equal(await code('status', '-n', 'nowhere'), 1);
    assert.equal(await code('explain', 'secretmirror', `${HOME}/shut`, '--exit-code'), 3);
    assert.equal(await code('explain', 'secretmirror', `${HOME}/shut`), 0);
    assert.equal(await code('explain', 'secretmirror.mirrors.kts.studio', `${HOME}/shut`), 0);
    assert.equal(await code('explain', 'secretmirror.example.com', `${HOME}/shut`), 2, 'another group');
    assert.equal(await code('explain', 'secret', 'out-a/wide', '--exit-code'), 0);
    assert.equal(await code('explain', 'secret', 'out-a/wide', '--require-consent', '--exit-code'), 3, 'to be deleted');
    const absent = await run('explain', 'secret', 'closed/shut');
    assert.deepEqual([absent.code, /NotAccepted/.test(absent.stdout)], [1, true], 'the answer is printed all the same');
    assert.equal(await code('explain', 'secret', 'calm/typo', '--exit-code'), 1);
  });

  it('the same reason gives a mirror and an annotated object the same state', async () => {
    await annotated(`${HOME}/shut-push`, { 'replicate-to': 'closed/shut-push,out-a/shut-push' });
    await annotated(`${HOME}/glob-push`, { 'replicate-to-namespaces': 'ou*' });
    await annotated(`${HOME}/taken-push`, { 'replicate-to': 'out-a/theirs' });
    await scene.secret('out-a', 'theirs', VALUES);
    await scene.secret(HOME, 'theirs', VALUES);
    await scene.mirror('theirs', ['out-a'], { source: { name: 'theirs' } });
    await scene.secret(HOME, 'glob', VALUES);
    await scene.mirror('glob', ['ou*']);
    await scene.ready('glob', 'MisreadPattern');
    await scene.ready('theirs', 'Conflict');
    await waitFor(async () => (await scene.find('out-a', 'shut-push')) !== undefined, { message: 'the pushed copy' });
    const { rules } = await status();
    const of = (name: string): unknown => {
      const { state, ready, reason } = rules.find((rule) => rule.name === name) ?? {};
      return [state, ready, reason];
    };
    for (const [mirror, push, reason] of [
      ['shut', 'shut-push', 'NotAccepted'],
      ['glob', 'glob-push', 'MisreadPattern'],
      ['theirs', 'taken-push', 'Conflict'],
    ] as const) {
      assert.deepEqual(of(mirror), ['Active', false, reason]);
      assert.deepEqual(of(push), ['Active', false, reason]);
    }
    const [operator] = scene.operators;
    const labels = { system: 'mirrors', fault: 'user', reason: 'MisreadPattern' };
    assert.equal(await operator?.metric('keyferry_rules', labels), 1);
  });
});
