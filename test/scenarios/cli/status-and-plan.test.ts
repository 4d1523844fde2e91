/** `keyferry status`, `plan` and `explain` on a real control plane, with and without the operator. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { stringify } from 'yaml';

import { explainSchema } from '../../../scripts/reports/schemas.ts';
import { readCrds } from '../../../scripts/crd/read-crds.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { waitFor } from '../../support/wait-for.ts';
import { mirror, namespace, secret } from './objects.ts';
import { type ProgramResult, runProgram } from './program.ts';

const CANARY = 'canary-9d41c3';
const CANARY_BASE64 = Buffer.from(CANARY).toString('base64');

describe('keyferry status, plan and explain', () => {
  let plane: ControlPlane;
  before(async () => {
    plane = await startControlPlane({ controllerManager: false });
  });
  after(() => plane.stop());

  const run = async (args: readonly string[], input?: string): Promise<ProgramResult> => {
    const result = await runProgram([...args, '--kubeconfig', plane.kubeconfigPath], input);
    for (const text of [result.stdout, result.stderr]) {
      assert.ok(!text.includes(CANARY) && !text.includes(CANARY_BASE64), 'a value was printed');
    }
    return result;
  };
  /**
   * Runs `plan --all` on these objects. Checks that the exit code is 3 if a copy would be lost or refused.
   * @returns the rows of the output
   */
  const plan = async (...objects: object[]): Promise<string[]> => {
    const input = objects.map((object) => stringify(object)).join('---\n');
    const { code, stdout, stderr } = await run(['plan', '-', '-o', 'json', '--all'], input);
    assert.ok(code === 0 || code === 3, stderr);
    const { targets } = JSON.parse(stdout) as { targets: { action: string; namespace: string; name: string }[] };
    const alarming = targets.some(({ action }) => ['delete', 'conflict', 'fail'].includes(action));
    assert.equal(code, alarming ? 3 : 0);
    return targets.map(({ action, namespace, name }) => `${action} ${namespace}/${name}`);
  };
  const explained = async (kind: string, place: string) => {
    const { code, stdout, stderr } = await run(['explain', kind, place, '-o', 'json']);
    assert.ok(code === 0 || code === 1, stderr);
    const explanation = explainSchema.parse(JSON.parse(stdout));
    assert.equal(code, explanation.object.exists ? 0 : 1, explanation.summary);
    return explanation;
  };
  const settled = async (name: string): Promise<void> => {
    const where = `/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/${name}`;
    await waitFor(async () => (await plane.api.find(where))?.status?.mirrorStatus === 'Active', { message: name });
  };

  it('if the CRD is not installed, status and plan say so', async () => {
    const { code, stdout } = await run(['status']);
    assert.equal(code, 0);
    assert.match(stdout, /The CRD of mirrors is not installed/);
    const planned = await run(['plan', '-'], stringify(mirror('first', 'one', ['to-.+'])));
    assert.match(planned.stdout, /^cluster: the CRD secretmirrors\.mirrors\.kts\.studio is not installed: /);
  });

  it('status shows a mirror that the operator has not reconciled yet', async () => {
    await plane.api.apply(readCrds());
    assert.match(
      (await run(['status'])).stdout,
      /^No rules found\. Rules are: ExternalSecrets [a-z ]+, SecretMirrors, Secrets or ConfigMaps with [A-Za-z ,]+\.\n$/,
    );
    await plane.api.create(mirror('first', 'one', ['to-.+']));
    const { stdout } = await run(['status', '--failed']);
    assert.match(stdout, /^SYSTEM +NAMESPACE +NAME +SOURCE +STATE +READY +COPIES +LAST SYNC +WHY\n/);
    assert.match(stdout, /\nmirrors +default +first +secret default\/one +\w+ +False +0 +never +NotSeen: /);
  });

  it('plan shows what the operator does once the manifests are applied', async () => {
    await plane.api.createMany(['to-a', 'to-b', 'not-to'].map((name) => namespace(name)));
    await plane.api.create(secret('to-b', 'two', 'foreign'));
    assert.deepEqual(await plan(secret('default', 'one', CANARY)), ['create to-a/one', 'create to-b/one']);
    const two = [mirror('second', 'two', ['to-.+']), secret('default', 'two', CANARY)] as const;
    assert.deepEqual(await plan(...two), ['create to-a/two', 'conflict to-b/two']);
    assert.deepEqual(await plan(...two, namespace('to-c')), [
      'create to-a/two',
      'conflict to-b/two',
      'wait to-c/one',
      'create to-c/two',
    ]);
    assert.equal((await plane.api.list('/api/v1/namespaces/to-a/secrets')).length, 0, 'planning writes nothing');

    await plane.api.apply([secret('default', 'one', CANARY), ...two]);
    const operator = await Keyferry.start({ kubeconfig: plane.kubeconfigPath, args: ['--controllers=mirrors'] });
    try {
      await settled('first');
      await settled('second');
    } finally {
      await operator.stop();
    }
    assert.deepEqual(await plan(mirror('first', 'one', ['to-.+'])), ['nothing to-a/one', 'nothing to-b/one']);
    assert.deepEqual(await plan(mirror('first', 'one', ['to-a'])), ['nothing to-a/one', 'delete to-b/one']);
    assert.deepEqual(await plan(secret('default', 'one', 'changed')), ['update to-a/one', 'update to-b/one']);
    // Another mirror with the same target is older, so this mirror has a conflict.
    assert.deepEqual(await plan(mirror('younger', 'one', ['to-a'])), ['nothing to-a/one', 'conflict to-a/one']);
  });

  it('status lists copies, and the targets that fail with their reasons', async () => {
    const { code, stdout } = await run(['status', '--copies']);
    assert.equal(code, 0);
    assert.match(stdout, /^2 rules, 3 copies; 1 rule is not ready: 1 Conflict\.\n/);
    assert.match(stdout, /\n✗ 1 × Conflict: .*\n {4}SecretMirror default\/second: .*to-b.*\n {4}→ the owner of /);
    assert.match(
      stdout,
      /\n✗ +mirrors +SecretMirror default\/second +1 +\d+[smhd] +Conflict\n✓ +mirrors +SecretMirror default\/first +2 /,
    );
    assert.match(stdout, /\nSecret to-a\/two +SecretMirror default\/second +secret default\/two\n/);
    const wide = (await run(['status', '-o', 'wide'])).stdout;
    assert.match(wide, /\nSecret +to-a +two +SecretMirror default\/second +secret default\/two +\d+\n/);
    const json = JSON.parse((await run(['status', '-o', 'json'])).stdout) as {
      systems: unknown;
      rules: { name: string; destinations: unknown; copies: { namespace: string }[] }[];
      orphans: unknown[];
    };
    assert.deepEqual(json.systems, [
      { system: 'mirrors', installed: true },
      { system: 'replicator', installed: true },
      { system: 'syncsecret', installed: true },
    ]);
    assert.deepEqual(
      json.rules.map(({ name, destinations, copies }) => [name, destinations, copies.map((copy) => copy.namespace)]),
      [
        ['first', ['to-.+'], ['to-a', 'to-b']],
        ['second', ['to-.+'], ['to-a']],
      ],
    );
    assert.deepEqual(json.orphans, []);
    const empty = /^No rules found in namespace to-a\. Rules are: ExternalSecrets [^\n]*\.\n$/;
    assert.match((await run(['status', '-n', 'to-a'])).stdout, empty);
    const gone =
      /^No rules found in namespace nowhere\.[^\n]*\n\nnamespace nowhere does not exist, or is being deleted\n$/;
    assert.match((await run(['status', '-n', 'nowhere'])).stdout, gone);
  });

  it('explain describes a copy, a conflict, a source and a rule, and gives the reason why a copy does not exist', async () => {
    const copy = await explained('secret', 'to-a/one');
    const { resourceVersion } = (await plane.api.get('/api/v1/namespaces/default/secrets/one')).metadata;
    assert.equal(
      copy.summary,
      'Secret to-a/one is a copy of secret default/one, which SecretMirror default/first makes.',
    );
    assert.deepEqual([copy.verdict, copy.owner, copy.next?.action], ['copy', 'SecretMirror default/first', 'nothing']);
    assert.deepEqual([copy.heldVersion, copy.sourceVersion], [resourceVersion, resourceVersion]);
    assert.deepEqual(
      copy.claims.map(({ rule, destinations, state }) => [rule, destinations, state]),
      [['SecretMirror default/first', ['to-.+'], 'synced']],
    );
    assert.match(copy.lastWritten ?? '', /^20\S+Z$/);
    assert.deepEqual(
      copy.writers.map(({ manager, wrote }) => [manager, wrote]),
      [['keyferry', 'content']],
    );
    const taken = await explained('Secrets', 'to-b/two');
    assert.equal(taken.verdict, 'conflict');
    assert.match(
      taken.summary,
      /is not the copy that SecretMirror default\/second asks for: .* is not managed by Keyferry/,
    );
    assert.equal(taken.lastWritten, null);
    const source = await explained('secret', 'default/one');
    assert.deepEqual(
      [source.verdict, source.sourceOf],
      ['source', [{ rule: 'SecretMirror default/first', copies: 2 }]],
    );
    const rule = await explained('secretmirror', 'default/second');
    assert.deepEqual([rule.verdict, rule.rule?.reason, rule.rule?.copies.length], ['rule', 'Conflict', 1]);
    const none = await explained('secret', 'not-to/one');
    assert.deepEqual(
      [none.verdict, none.object.exists, none.others.map(({ rule, why }) => `${rule}: ${why}`)],
      ['absent', false, ['SecretMirror default/first: does not select namespace not-to']],
    );
    // The namespace does not exist yet. When it is created, the pattern may match its name.
    const nowhere = await explained('secret', 'nowhere/one');
    assert.deepEqual(nowhere.notes, []);
    assert.deepEqual(
      nowhere.others.map(({ rule, why }) => `${rule}: ${why}`),
      ['SecretMirror default/first: namespace nowhere does not exist'],
    );
    assert.match(nowhere.summary, /^Secret nowhere\/one does not exist, because its namespace does not exist,/);
    const { stdout } = await run(['explain', 'secret', 'to-a/one']);
    assert.match(
      stdout,
      /^Secret to-a\/one is a copy of secret default\/one, which SecretMirror default\/first makes\.\n\nCopied to +to-\.\+\n/,
    );
    assert.match(
      stdout,
      /\nNext +nothing: up to date\n\nVersion +that of the source, \d+\nCreated +20\S+Z\nWritten +20\S+Z\n/,
    );
    assert.doesNotMatch(stdout, /CLAIMED BY/);
  });

  it('status lists copies without a rule, and explain says that Keyferry will delete such a copy', async () => {
    const where = '/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/second';
    await plane.api.patch(where, { metadata: { finalizers: null } });
    await plane.api.delete(where);
    assert.match((await run(['status'])).stdout, /\n1 copy has no rule: .*status --orphans\n/);
    const { stdout } = await run(['status', '-o', 'wide']);
    assert.match(
      stdout,
      /\nORPHAN +NAMESPACE +NAME +MARKED BY +WHY\nSecret +to-a +two +default\/second +its SecretMirror does not exist; Keyferry will delete it/,
    );
    const { verdict, summary } = await explained('secret', 'to-a/two');
    assert.deepEqual(
      [verdict, summary],
      [
        'orphan',
        'Secret to-a/two was a copy of SecretMirror default/second: its SecretMirror does not exist; Keyferry will delete it, or an event says why it cannot.',
      ],
    );
  });

  it('status of a mirror that is being deleted shows the time of the deletion, and the error that blocks it', async () => {
    const where = '/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/going';
    const going = mirror('going', 'one', ['nowhere']);
    const finalizers = ['mirrors.kts.studio/finalizer'];
    await plane.api.create({ ...going, metadata: { ...going.metadata, finalizers } });
    await plane.api.delete(where);
    assert.match((await run(['status', '--failed'])).stdout, / going .* Deleting: since 20\S+Z\n/);
    const { generation } = (await plane.api.get(where)).metadata;
    const ready = {
      type: 'Ready',
      status: 'False',
      reason: 'SyncError',
      message: 'cannot sync namespace to-a: Forbidden',
    };
    const conditions = [{ ...ready, lastTransitionTime: '2026-01-01T00:00:00Z' }];
    await plane.api.patch(`${where}/status`, { status: { observedGeneration: generation, conditions } });
    const { stdout } = await run(['status', '--failed']);
    assert.match(stdout, / going .* Deleting: since 20\S+Z; SyncError: cannot sync namespace to-a: Forbidden\n/);
    await plane.api.patch(where, { metadata: { finalizers: null } });
  });

  it('plan notes that it does not read Vault, and warns of a glob that matches no namespace', async () => {
    const vault = {
      addr: 'https://vault.example.com',
      path: 'secret/one',
      auth: { token: { secretRef: { name: 't' } } },
    };
    const reported = async (...objects: object[]): Promise<string> => {
      const { code, stdout, stderr } = await run(
        ['plan', '-'],
        objects.map((object) => stringify(object)).join('---\n'),
      );
      assert.equal(code, 0, stderr);
      return stdout;
    };
    const to = mirror('to-vault', 'one', []);
    const toVault = await reported({ ...to, spec: { ...to.spec, destination: { type: 'vault', vault } } });
    assert.match(
      toVault,
      /^SecretMirror default\/to-vault: writes vault vault\.example\.com\/secret\/one if it differs; /,
    );
    const from = mirror('from-vault', 'three', ['to-a']);
    const fromVault = await reported({
      ...from,
      spec: { ...from.spec, source: { name: 'three', type: 'vault', vault } },
    });
    assert.match(
      fromVault,
      /\n {2}wait +Secret +to-a +three +SecretMirror default\/from-vault +Vault: this command does not read Vault\n/,
    );
    const { code, stdout } = await run(['plan', '-'], stringify(mirror('glob', 'one', ['to-*'])));
    assert.equal(code, 3);
    assert.match(
      stdout,
      /^SecretMirror default\/glob: MisreadPattern: a pattern looks like a mistake: .*\n\nNo copy would be/,
    );
  });
});
