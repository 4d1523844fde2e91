/**
 * `keyferry plan`: several mirrors with one target, output and exit codes, the forms of input, and the number of
 * requests.
 */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { parse, stringify } from 'yaml';

import { planSchema } from '../../../scripts/reports/schemas.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import type { Json } from '../../support/api.ts';
import { waitForRights } from '../../support/permissions.ts';
import { waitFor } from '../../support/wait-for.ts';
import { mirror, namespace, secret } from './objects.ts';
import { type ProgramResult, runProgram } from './program.ts';

const OWNED_BY = 'mirrors.kts.studio/owned-by';
const MANY = 60;
const READER = 'reader';

describe('keyferry plan', () => {
  let plane: ControlPlane;
  let folder: string;
  before(async () => {
    plane = await startControlPlane({ controllerManager: false, crds: true, audit: true, users: [{ name: READER }] });
    folder = await mkdtemp(path.join(tmpdir(), 'keyferry-plan-test-'));
    await plane.api.createMany(['to-a', 'to-b'].map((name) => namespace(name)));
    await plane.api.create(secret('default', 'one', 'x'));
  });
  after(async () => {
    await plane.stop();
    await rm(folder, { recursive: true });
  });

  const run = async (args: readonly string[], input = ''): Promise<ProgramResult> =>
    await runProgram(['plan', '--kubeconfig', plane.kubeconfigPath, ...args], input);
  const yaml = (objects: readonly object[]): string => objects.map((object) => stringify(object)).join('---\n');
  /** Runs `plan` on these objects. @returns its rows, each as `action namespace/name rule`, and its exit code */
  const rows = async (objects: readonly object[] | string, ...args: readonly string[]): Promise<[string[], number]> => {
    const input = typeof objects === 'string' ? objects : yaml(objects);
    const { code, stdout, stderr } = await run(['-', '-o', 'json', ...args], input);
    assert.ok(code === 0 || code === 3, stderr);
    const { targets } = planSchema.parse(JSON.parse(stdout));
    return [targets.map((row) => `${row.action} ${row.namespace}/${row.name} ${row.rule}`), code];
  };
  const copy = (where: string, name: string, owner: string, annotations: object = {}) =>
    secret(where, name, 'x', {
      metadata: {
        name,
        namespace: where,
        annotations: { [OWNED_BY]: owner, ...annotations },
        labels: { 'keyferry.dev/copy': 'mirrors' },
      },
    });

  it('if two mirrors want the same target, plan reports a conflict, also if one of the mirrors exists already', async () => {
    const two = [mirror('left', 'one', ['to-a']), mirror('right', 'one', ['to-.+'])];
    assert.deepEqual(await rows(two), [
      [
        'create to-a/one SecretMirror default/left',
        'conflict to-a/one SecretMirror default/right',
        'create to-b/one SecretMirror default/right',
      ],
      3,
    ]);
    await plane.api.create(mirror('there', 'one', ['to-b']));
    assert.deepEqual(await rows(two.slice(1)), [
      [
        'create to-a/one SecretMirror default/right',
        'create to-b/one SecretMirror default/there',
        'conflict to-b/one SecretMirror default/right',
      ],
      3,
    ]);
    const { stdout } = await run(['-'], yaml(two.slice(1)));
    assert.match(stdout, /\n! conflict +Secret +to-b +one +SecretMirror default\/right +.*SecretMirror default\/there/);
    await plane.api.delete('/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/there');
  });

  it('plan marks by a sign what would be lost, also a key that the source has not any more, and what is refused', async () => {
    const keys = (data: object) => ({ ...secret('default', 'keys', ''), stringData: data });
    await plane.api.create(keys({ user: 'x', password: 'x' }));
    const there = copy('to-a', 'keys', 'default/keys', { 'keyferry.dev/target': 'to-a/keys' });
    await plane.api.create({ ...there, stringData: { user: 'x', password: 'x' } });
    await plane.api.create(mirror('keys', 'keys', ['to-a']));
    const only = mirror('keys', 'keys', ['to-a']);
    const destination = { ...only.spec.destination, keys: [{ from: 'user' }] };
    const fewer = await run(['-'], yaml([{ ...only, spec: { ...only.spec, destination } }]));
    assert.match(fewer.stdout, /^✗ update +Secret +to-a +keys .*; loses key password$/m);
    assert.match(fewer.stdout, /^✗ 1 copy would be lost or lose data\.$/m);
    assert.equal(fewer.code, 3);
    const other = await run(['-'], yaml([keys({ user: 'x', password: 'other', more: 'z' })]));
    assert.match(other.stdout, /^ {2}update +Secret +to-a +keys .*data differ$/m);
    assert.doesNotMatch(other.stdout, /✗/);
    assert.equal(other.code, 0);
    const elsewhere = await run(['-'], yaml([mirror('keys', 'keys', ['to-b'])]));
    assert.match(elsewhere.stdout, /^✗ delete +Secret +to-a +keys /m);
    assert.match(elsewhere.stdout, /^ {2}create +Secret +to-b +keys /m);
    await plane.api.delete('/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/keys');
    for (const place of ['default', 'to-a']) await plane.api.delete(`/api/v1/namespaces/${place}/secrets/keys`);
  });

  it('plan shows no write for mirrors in a cycle, because the operator makes none', async () => {
    const [a, b] = ['to-a', 'to-b'].map((home) => ({
      mirror: {
        ...mirror('loop', 'loop', [home === 'to-a' ? 'to-b' : 'to-a']),
        metadata: { name: 'loop', namespace: home },
      },
      copy: secret(home, 'loop', 'x', {
        metadata: {
          name: 'loop',
          namespace: home,
          annotations: {
            [OWNED_BY]: home === 'to-a' ? 'to-b/loop' : 'to-a/loop',
            'keyferry.dev/target': `${home}/loop`,
          },
          labels: { 'keyferry.dev/copy': 'mirrors' },
        },
      }),
    }));
    assert.ok(a !== undefined && b !== undefined);
    const objects = [a.mirror, b.mirror, a.copy, b.copy];
    assert.deepEqual(await rows(objects), [
      ['fail to-a/loop SecretMirror to-b/loop', 'fail to-b/loop SecretMirror to-a/loop'],
      3,
    ]);
    const { stdout } = await run(['-'], yaml(objects));
    assert.match(stdout, /Cycle: .*SecretMirror to-a\/loop → SecretMirror to-b\/loop/);
  });

  it('plan prints the number of unchanged copies, and with --all lists them', async () => {
    const source = await plane.api.get('/api/v1/namespaces/default/secrets/one');
    const held = copy('to-a', 'one', 'default/calm');
    Object.assign(held.metadata, {
      annotations: {
        [OWNED_BY]: 'default/calm',
        'mirrors.kts.studio/parent-version': source.metadata.resourceVersion as string,
        'mirrors.kts.studio/source-type': 'secret',
        'keyferry.dev/target': 'to-a/one',
      },
    });
    await plane.api.create(held);
    const calm = [mirror('calm', 'one', ['to-a'])];
    assert.deepEqual(await rows(calm), [[], 0]);
    const { stdout } = await run(['-'], yaml(calm));
    assert.match(
      stdout,
      /^No copy would be created, updated or deleted\.\n1 copy is unchanged \(--all shows them\)\.\n$/,
    );
    assert.deepEqual(await rows(calm, '--all'), [['nothing to-a/one SecretMirror default/calm'], 0]);
    const rival = mirror('rival', 'one', ['to-a']);
    await plane.api.create(rival);
    assert.deepEqual(await rows(calm), [[], 0], 'the conflict of a mirror outside of the manifests is no change');
    const all = ['nothing to-a/one SecretMirror default/calm', 'conflict to-a/one SecretMirror default/rival'];
    assert.deepEqual(await rows(calm, '--all'), [all, 0]);
    assert.deepEqual(await rows([...calm, rival]), [all.slice(1), 3]);
    await plane.api.delete('/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/rival');
    const asYaml = await run(['-', '-o', 'yaml', '--all'], yaml(calm));
    assert.equal(planSchema.parse(parse(asYaml.stdout)).unchanged, 1);
    // The mirror no longer claims this copy, so the operator would delete it.
    assert.deepEqual(await rows([mirror('calm', 'one', ['to-b'])]), [
      ['delete to-a/one SecretMirror default/calm', 'create to-b/one SecretMirror default/calm'],
      3,
    ]);
    await plane.api.delete('/api/v1/namespaces/to-a/secrets/one');
  });

  it('plan reports every mistake in the manifests as the API server does, without a value and with exit code 3, and plans nothing for them', async () => {
    const canary = 'c4n4ry-value';
    const bad = (name: string, more: object) => ({ apiVersion: 'v1', kind: 'Secret', metadata: { name }, ...more });
    const from = (name: string, destination: object, source: object = { name: 'one' }) => ({
      ...mirror(name, 'one', []),
      spec: { source, destination },
    });
    const mistakes: readonly (readonly [object, string])[] = [
      [mirror('bad', 'one', ['(']), 'SecretMirror default/bad: .*spec\\.destination\\.namespaces: Invalid value: '],
      [
        { ...mirror('older', 'one', ['to-a']), apiVersion: 'mirrors.kts.studio/v1alpha1' },
        'SecretMirror default/older: apiVersion v1alpha1 is not converted: use v1alpha2$',
      ],
      [
        from('typo', { namespaceSelector: { matchLabel: { team: 'a' } } }),
        'SecretMirror default/typo: .*unknown field "spec\\.destination\\.namespaceSelector\\.matchLabel"$',
      ],
      [from('text', { namespaces: 'x' }), 'SecretMirror default/text: .*spec\\.destination\\.namespaces'],
      [
        from('odd', { namespaces: ['to-a'] }, { name: 'one', type: 'none' }),
        'SecretMirror default/odd: .*Unsupported value: "none"',
      ],
      [secret('nowhere', 'one', 'x'), 'Secret nowhere/one: namespace nowhere does not exist$'],
      [bad('Not_Good', {}), 'Secret default/Not_Good: .*metadata\\.name: Invalid value: "Not_Good"'],
      [bad('s-1', { data: { a: '***' } }), 'Secret default/s-1: .*illegal base64 data'],
      [bad('s-2', { stringData: { 'a b': canary } }), 'Secret default/s-2: .*Invalid value: "a b"'],
      [bad('s-3', { stringData: { a: 5 } }), 'Secret default/s-3: .*unmarshal number'],
      [bad('a b?#', {}), 'Secret default/a b\\?#: .*metadata\\.name: Invalid value: "a b\\?#"'],
      [secret('de fault?#', 'one', 'x'), 'Secret de fault\\?#/one: namespace de fault\\?# does not exist$'],
      [bad('s-5', { metadata: { name: 's-5', labels: { a: true } } }), 'Secret default/s-5: .*unmarshal bool.*labels'],
      [bad('s-6', { metadata: { name: 's-6', annotations: [] } }), 'Secret default/s-6: .*annotations'],
      [bad('s-4', { stringDat: { a: canary } }), 'Secret default/s-4: .*unknown field "stringDat"'],
      [{ ...secret('default', 'one', 'x'), type: 'kubernetes.io/tls' }, 'Secret default/one: .*field is immutable'],
    ];
    const unused = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'unused' } };
    const { code, stdout, stderr } = await run(['-'], yaml([...mistakes.map(([object]) => object), unused]));
    assert.equal(code, 3, stderr);
    for (const [, expected] of mistakes) assert.match(stdout, new RegExp(`^${expected}`, 'm'));
    assert.match(stdout, /No copy would be created, updated or deleted\.\n1 object is not used by Keyferry\.\n/);
    assert.ok(!stdout.includes(canary) && !stderr.includes(canary), stdout);
    assert.deepEqual(await rows([namespace('nowhere'), secret('nowhere', 'one', 'x')]), [[], 0]);
  });

  it("plan with --mirrors-regex=search matches a pattern with any part of a namespace's name", async () => {
    await plane.api.create(namespace('not-to-a'));
    const one = [mirror('m', 'one', ['to-a'])];
    assert.deepEqual((await rows(one))[0], ['create to-a/one SecretMirror default/m']);
    assert.deepEqual((await rows(one, '--mirrors-regex=search'))[0], [
      'create not-to-a/one SecretMirror default/m',
      'create to-a/one SecretMirror default/m',
    ]);
    await plane.api.delete('/api/v1/namespaces/not-to-a');
  });

  it('plan accepts all forms of YAML and JSON that kubectl accepts', async () => {
    const created = ['create to-a/one SecretMirror default/m'];
    const spec = 'spec: {source: {name: one}, destination: {namespaces: [to-a]}}';
    const head = 'apiVersion: mirrors.kts.studio/v1alpha2\nkind: SecretMirror\n';
    const cases: Readonly<Record<string, string>> = {
      'empty annotations and labels': `${head}metadata:\n  name: m\n  annotations: {a: }\n  labels:\n  namespace:\n${spec}\n`,
      'a merge key': `${head}metadata: {name: m}\nspec:\n  source: &source {name: one}\n  destination:\n    <<: {namespaces: [to-a]}\n`,
      'empty documents': `---\n# nothing\n---\n${head}metadata: {name: m}\n${spec}\n---\n`,
      'a List': `apiVersion: v1\nkind: List\nitems:\n- ${JSON.stringify(mirror('m', 'one', ['to-a']))}\n`,
      'a List of a kind': `apiVersion: mirrors.kts.studio/v1alpha2\nkind: SecretMirrorList\nitems:\n- metadata: {name: m}\n  ${spec}\n`,
      JSON: JSON.stringify(mirror('m', 'one', ['to-a'])),
    };
    for (const [name, text] of Object.entries(cases)) assert.deepEqual((await rows(text))[0], created, name);
    // The API server also accepts these two forms.
    for (const name of ['empty annotations and labels', 'a merge key']) {
      const object: Json = parse(cases[name] ?? '', { merge: true });
      object.metadata.namespace = 'default';
      await plane.api.create(object);
      await plane.api.delete('/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/m');
    }
    const bare = `${head}metadata: {name: one}\nspec: {source: null, destination: {namespaces: [to-a]}}\n`;
    assert.deepEqual((await rows(bare))[0], ['create to-a/one SecretMirror default/one']);
    const empty = 'apiVersion: v1\nkind: Secret\nmetadata: {name: e, namespace: default}\ndata:\nstringData: {a: }\n';
    assert.deepEqual(await rows(`${empty}type:\n`), [[], 0]);
  });

  it('if standard input has no manifest, plan fails, because then the command before the pipe has failed', async () => {
    for (const input of ['', '# nothing\n---\n', 'apiVersion: v1\nkind: List\nitems: []\n']) {
      const { code, stdout, stderr } = await run(['-'], input);
      assert.deepEqual([code, stdout, stderr], [1, '', 'keyferry plan: standard input: contains no manifest\n']);
    }
  });

  it('plan reads the manifests in a folder, and with -R also in its subfolders, as kubectl does', async () => {
    const root = path.join(folder, 'manifests');
    await mkdir(path.join(root, 'deep'), { recursive: true });
    await writeFile(path.join(root, 'deep', 'b.yml'), yaml([mirror('b', 'one', ['to-b'])]));
    await writeFile(path.join(root, 'README.md'), 'not: a manifest');
    const none = await run([root]);
    assert.equal(none.code, 1);
    assert.match(none.stderr, /manifests: contains no \.json, \.yaml or \.yml file; --recursive reads/);
    await writeFile(path.join(root, 'a.json'), JSON.stringify(mirror('a', 'one', ['to-a'])));
    const shown = async (...args: readonly string[]): Promise<string[]> => {
      const { stdout } = await run([root, '-o', 'json', ...args]);
      return planSchema.parse(JSON.parse(stdout)).targets.map(({ rule }) => rule);
    };
    assert.deepEqual(await shown(), ['SecretMirror default/a']);
    assert.deepEqual(await shown('-R'), ['SecretMirror default/a', 'SecretMirror default/b']);
  });

  it('plan says what an admission policy says, and without the right to write, what kubectl apply would say', async () => {
    const name = 'no-mirrors-to-b';
    const policy = { apiVersion: 'admissionregistration.k8s.io/v1', metadata: { name } };
    const resourceRules = [
      { apiGroups: ['mirrors.kts.studio'], apiVersions: ['*'], operations: ['CREATE'], resources: ['secretmirrors'] },
    ];
    await plane.api.create({
      ...policy,
      kind: 'ValidatingAdmissionPolicy',
      spec: {
        matchConstraints: { resourceRules },
        validations: [{ expression: "!('to-b' in object.spec.destination.namespaces)", message: 'not into to-b' }],
      },
    });
    const binding = { policyName: name, validationActions: ['Deny'] };
    await plane.api.create({ ...policy, kind: 'ValidatingAdmissionPolicyBinding', spec: binding });
    const denied = [mirror('denied', 'one', ['to-b'])];
    const isDenied = async (): Promise<boolean> => (await run(['-'], yaml(denied))).stdout.includes('not into to-b');
    await waitFor(isDenied, { message: 'the policy to be in force' });
    const { code, stdout } = await run(['-'], yaml(denied));
    assert.match(stdout, /^SecretMirror default\/denied: .*denied request: not into to-b\n/);
    assert.equal(code, 3);
    assert.deepEqual((await rows([mirror('allowed', 'one', ['to-a'])]))[0], [
      'create to-a/one SecretMirror default/allowed',
    ]);
    const group = 'rbac.authorization.k8s.io';
    const rbac = { apiVersion: `${group}/v1`, metadata: { name: READER } };
    const rules = [
      { apiGroups: [''], resources: ['secrets', 'configmaps', 'namespaces'], verbs: ['get', 'list'] },
      { apiGroups: ['mirrors.kts.studio'], resources: ['secretmirrors'], verbs: ['get', 'list'] },
    ];
    await plane.api.create({ ...rbac, kind: 'ClusterRole', rules });
    const roleRef = { apiGroup: group, kind: 'ClusterRole', name: READER };
    const subjects = [{ apiGroup: group, kind: 'User', name: READER }];
    await plane.api.create({ ...rbac, kind: 'ClusterRoleBinding', roleRef, subjects });
    await waitForRights(plane.api, { user: READER, groups: [] }, '', ['core/secrets: list']);
    const reader = await plane.writeKubeconfig({ token: plane.tokenFor(READER) });
    const args = ['plan', '-', '--controllers=mirrors', '--kubeconfig', reader];
    const refused = await runProgram(args, yaml([mirror('allowed', 'one', ['to-a'])]));
    assert.match(
      refused.stdout,
      /^SecretMirror default\/allowed: .*User "reader" cannot create resource "secretmirrors"/,
    );
    assert.equal(refused.code, 3);
  });

  it('if the manifests create the namespace of an object, plan takes the object as written and says so', async () => {
    const annotations = { 'k8s-replicator/replicate-to': 'to-a/new' };
    const metadata = { name: 'new', namespace: 'made-here', annotations };
    const made = { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { a: '1' } };
    const { stdout } = await run(['-'], yaml([namespace('made-here'), made]));
    assert.match(stdout, /^ConfigMap made-here\/new: the manifests create its namespace, .*: it is taken as written\n/);
    assert.match(stdout, /\n {2}create +ConfigMap +to-a +new +ConfigMap made-here\/new/);
  });

  it('if an annotation is in the last applied manifest but not in the new one, plan removes it, as kubectl apply does', async () => {
    const push = (annotations: object) => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'push', namespace: 'default', annotations },
      data: { a: '1' },
    });
    const wish = { 'k8s-replicator/replicate-to': 'to-a/push' };
    const last = { 'kubectl.kubernetes.io/last-applied-configuration': JSON.stringify(push(wish)) };
    await plane.api.create(push({ ...wish, ...last }));
    const created = await plane.api.get('/api/v1/namespaces/default/configmaps/push');
    await plane.api.create({
      ...push({
        'k8s-replicator/replicated-by': 'default/push',
        'k8s-replicator/replicated-at': '2026-01-01T00:00:00Z',
        'k8s-replicator/replicated-from-version': created.metadata.resourceVersion as string,
      }),
      metadata: {
        name: 'push',
        namespace: 'to-a',
        annotations: {
          'k8s-replicator/replicated-by': 'default/push',
          'k8s-replicator/replicated-from-version': created.metadata.resourceVersion as string,
          'keyferry.dev/target': 'to-a/push',
        },
      },
    });
    assert.deepEqual(await rows([push({})]), [['delete to-a/push ConfigMap default/push'], 3]);
  });

  it('if somebody else has annotated an object that kubectl applied without annotations, plan keeps that annotation', async () => {
    const metadata = { name: 'kept', namespace: 'default' };
    const manifest = { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { a: '1' } };
    // kubectl adds `annotations: {}` to what it remembers.
    const last = JSON.stringify({ ...manifest, metadata: { annotations: {}, ...metadata } });
    const annotations = {
      'kubectl.kubernetes.io/last-applied-configuration': last,
      'k8s-replicator/replicate-to': 'to-a/kept',
    };
    await plane.api.create({ ...manifest, metadata: { ...metadata, annotations } });
    assert.deepEqual((await rows([manifest]))[0], ['create to-a/kept ConfigMap default/kept']);
    await plane.api.delete('/api/v1/namespaces/default/configmaps/kept');
  });

  it('plan reads objects in lists: for hundreds of copies it sends at most ten requests, and two for each manifest', async () => {
    const names = Array.from({ length: MANY }, (_, index) => `many-${index}`);
    await plane.api.createMany(names.map((name) => namespace(name)));
    await plane.api.createMany(names.map((name) => copy(name, 'wide', 'default/wide')));
    await plane.api.create(secret('default', 'wide', 'other'));
    const sourceOf = (index: number, annotations: object) => {
      const name = `source-${index}`;
      return secret('default', name, 'x', { metadata: { name, namespace: 'default', annotations } });
    };
    await plane.api.createMany(names.map((_, index) => sourceOf(index, {})));
    const wide = [
      mirror('wide', 'wide', ['many-.+']),
      ...names.map((name, index) => sourceOf(index, { 'k8s-replicator/replicate-to': `${name}/x` })),
    ];
    const before = await requests();
    const [shown] = await rows(wide);
    assert.equal(shown.filter((row) => row.startsWith('update ')).length, MANY);
    assert.equal(shown.filter((row) => row.startsWith('create ')).length, MANY);
    // Two requests for each manifest. Else: pages of 500 objects for each of four kinds, pages of 40 for the contents of copies and of
    // one namespace, and one source.
    const asked = (await requests()) - before - 2 * wide.length;
    assert.ok(asked <= 10, `${asked} requests`);
  });

  async function requests(): Promise<number> {
    const lines = (await readFile(plane.auditLogPath, 'utf8')).split('\n');
    return lines.filter((line) => line.includes('"userAgent":"keyferry/')).length;
  }
});
