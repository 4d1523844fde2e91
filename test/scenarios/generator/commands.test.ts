/** Tests the commands `status`, `explain` and `plan` on ExternalSecrets for which the generator makes values. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, it } from 'node:test';

import { explainSchema } from '../../../scripts/reports/schemas.ts';
import { runProgram } from '../cli/program.ts';
import type { Json } from '../../support/api.ts';
import { GeneratorScene } from './support.ts';

let scene: GeneratorScene;

before(async () => {
  scene = await GeneratorScene.open({ eso: false });
  await scene.start();
});
after(() => scene?.close());

const run = async (...argv: string[]): ReturnType<typeof runProgram> =>
  await runProgram([...argv, '--kubeconfig', scene.plane.kubeconfigPath]);

it('keyferry status lists every ExternalSecret with the annotation create, and for a failing one its last result', async () => {
  await scene.externalSecret('made', [{ key: 'app/made', property: 'a' }]);
  await scene.externalSecret('wrong', [{ key: 'app/wrong', property: 'a' }], { annotations: { create: 'yes' } });
  await scene.externalSecret('other', [{ key: 'app/other', property: 'a' }], { annotations: {} });
  for (const name of ['made', 'wrong', 'other']) await scene.fail(name);
  await scene.says('made', 'Success');
  await scene.says('wrong', 'ErrorAnnotation');
  await scene.fail('made', 'default', true);
  const { stdout } = await run('status', '-o', 'json');
  const report: Json = JSON.parse(stdout);
  assert.deepEqual(
    report.rules.map(({ name, ready, state, reason, destinations }: Json) => [
      name,
      ready,
      state,
      reason,
      destinations,
    ]),
    [
      ['made', true, 'Ready', 'SecretSynced', ['vault app/made']],
      ['wrong', false, 'Failing', 'ErrorAnnotation', ['vault app/wrong']],
    ],
  );
  const { stdout: failed } = await run('status', '--failed');
  assert.match(failed, /wrong .*ErrorAnnotation: The only accepted value/);
  assert.doesNotMatch(failed, /made/);
});

it('keyferry explain prints the last result of an ExternalSecret, or that the generator does not serve this ExternalSecret', async () => {
  const explain = async (name: string): Promise<Json> => {
    const { code, stdout, stderr } = await run('explain', 'externalsecret', `default/${name}`, '-o', 'json');
    assert.ok(code === 0 || code === 1, stderr);
    const explanation = explainSchema.parse(JSON.parse(stdout));
    assert.equal(code, explanation.object.exists ? 0 : 1, explanation.summary);
    return explanation;
  };
  const made = await explain('made');
  assert.deepEqual([made.verdict, made.rule.state], ['rule', 'Ready']);
  assert.match(made.lastWritten, /^20\S+Z$/);
  const wrong = await explain('wrong');
  assert.match(wrong.summary, /^ExternalSecret default\/wrong is a rule: Failing, ErrorAnnotation\.$/);
  assert.match(wrong.notes.join(), /The only accepted value/);
  const other = await explain('other');
  assert.deepEqual([other.verdict, other.rule], ['unrelated', null]);
  assert.match(other.notes.join(), /Keyferry serves ExternalSecrets with the annotation create$/);
  assert.equal((await explain('never')).verdict, 'absent');
});

it('keyferry plan prints the values that the generator would make for an ExternalSecret in a manifest, and the mistakes in the manifest', async () => {
  const file = path.join(scene.vault.folder, 'manifest.yaml');
  const manifest = (annotations: string, property: string): string => `
apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata:
  name: planned
  namespace: default
  annotations: {${annotations}}
spec:
  secretStoreRef: {name: vault-backend}
  target: {name: planned}
  data:
    - secretKey: a
      remoteRef: {key: app/planned${property}}
`;
  const plan = async (annotations: string, property = ', property: a'): Promise<[number | null, string]> => {
    await writeFile(file, manifest(annotations, property));
    const { code, stdout } = await run('plan', file);
    return [code, stdout];
  };
  const [code, text] = await plan('create: "true"');
  assert.equal(code, 0);
  assert.match(text, /ExternalSecret default\/planned: gets these values where Vault has none.*: a of app\/planned/);
  for (const [annotations, property, problem] of [
    ['create: "True"', undefined, /The only accepted value for the annotation 'create' is 'true'/],
    ['create: "true", keyferry.dev/generate-length: "7"', undefined, /keyferry\.dev\/generate-length must be a number/],
    ['create: "true"', '', /spec\.data\[0\]\.remoteRef\.property: no value is made/],
  ] as const) {
    const [refused, words] = await plan(annotations, property);
    assert.equal(refused, 3);
    assert.match(words, problem);
  }
  const [none, words] = await plan('');
  assert.equal(none, 0);
  assert.doesNotMatch(words, /planned/);
});
