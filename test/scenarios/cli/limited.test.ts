/**
 * The commands, without an operator: for a caller with few permissions, and with flags that serve only some namespaces
 * or limit the rules.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { stringify } from 'yaml';

import { explainSchema, planSchema, statusSchema } from '../../../scripts/reports/schemas.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import { waitForRights } from '../../support/permissions.ts';
import { mirror, namespace, secret } from './objects.ts';
import { type ProgramResult, runProgram } from './program.ts';

const TENANT = 'tenant';
const READER = 'reader';
const RBAC = 'rbac.authorization.k8s.io';
const REQUESTED = '/apis/mirrors.kts.studio/v1alpha2/namespaces';
const SERVED = '--namespaces=web';
const CONSENT = 'keyferry.dev/accept-from';

describe('the commands with few rights, few namespaces or limits', () => {
  let plane: ControlPlane;
  let tenant: string;

  const copy = (where: string, name: string, owner: string, target = `${where}/${name}`) =>
    secret(where, name, 'x', {
      metadata: {
        name,
        namespace: where,
        labels: { 'keyferry.dev/copy': 'mirrors' },
        annotations: {
          'mirrors.kts.studio/owned-by': owner,
          'mirrors.kts.studio/parent-version': '7',
          'keyferry.dev/target': target,
        },
      },
    });
  const rule = (where: string, name: string, destination: object, more: object = {}) => {
    const { spec, ...base } = mirror(name, name, []);
    const { source } = spec;
    return { ...base, metadata: { name, namespace: where }, spec: { source, destination, ...more } };
  };
  const condition = async (where: string, name: string, reason: string, message: string): Promise<void> => {
    const path = `${REQUESTED}/${where}/secretmirrors/${name}`;
    const { generation } = (await plane.api.get(path)).metadata;
    const lastTransitionTime = '2026-01-01T00:00:00Z';
    const status = reason === 'Synced' ? 'True' : 'False';
    const conditions = [{ type: 'Ready', status, reason, message, lastTransitionTime }];
    const found = { mirrorStatus: 'Active', observedGeneration: generation as number, conditions };
    await plane.api.patch(`${path}/status`, { status: found });
  };
  const run = async (...args: readonly string[]): Promise<ProgramResult> =>
    await runProgram([...args, '--kubeconfig', plane.kubeconfigPath]);
  const asTenant = async (...args: readonly string[]): Promise<ProgramResult> =>
    await runProgram([...args, '--kubeconfig', tenant]);
  const explained = async (program: Promise<ProgramResult>) => {
    const { code, stdout, stderr } = await program;
    assert.ok(code === 0 || code === 1, stderr);
    const explanation = explainSchema.parse(JSON.parse(stdout));
    assert.equal(code, explanation.object.exists ? 0 : 1, explanation.summary);
    return explanation;
  };
  const planned = async (objects: readonly object[], ...args: readonly string[]) => {
    const input = objects.map((object) => stringify(object)).join('---\n');
    const { stdout, stderr } = await runProgram(
      ['plan', '-', '-o', 'json', '--kubeconfig', plane.kubeconfigPath, ...args],
      input,
    );
    assert.notEqual(stdout, '', stderr);
    return planSchema.parse(JSON.parse(stdout));
  };

  before(async () => {
    plane = await startControlPlane({
      controllerManager: false,
      crds: true,
      users: [{ name: TENANT }, { name: READER }],
    });
    const { api } = plane;
    await api.createMany(['web', 'platform', 'other', 'sandbox'].map((name) => namespace(name)));
    const rules = [
      { apiGroups: [''], resources: ['secrets', 'configmaps'], verbs: ['get', 'list'] },
      // `plan` needs the rights to write the manifests, too: it sends them as dry runs.
      { apiGroups: ['mirrors.kts.studio'], resources: ['secretmirrors'], verbs: ['get', 'list', 'create', 'patch'] },
    ];
    const rbac = { apiVersion: `${RBAC}/v1`, metadata: { name: 'look', namespace: 'web' } };
    await api.create({ ...rbac, kind: 'Role', rules });
    const roleRef = { apiGroup: RBAC, kind: 'Role', name: 'look' };
    await api.create({
      ...rbac,
      kind: 'RoleBinding',
      roleRef,
      subjects: [{ apiGroup: RBAC, kind: 'User', name: TENANT }],
    });
    await waitForRights(api, { user: TENANT, groups: [] }, 'web', ['core/secrets: list']);
    tenant = await plane.writeKubeconfig({ token: plane.tokenFor(TENANT), namespace: 'web' });
    await api.create(secret('platform', 'registry', 'x'));
    await api.create(secret('web', 'session', 'x'));
    await api.create(rule('platform', 'registry', { namespaces: ['web'] }));
    await api.create(copy('web', 'registry', 'platform/registry'));
    await api.create(rule('web', 'session', { namespaces: ['sandbox'] }));
    await api.create(copy('sandbox', 'session', 'web/session'));
    await condition('web', 'session', 'Synced', '1 copy is up to date');
  });
  after(() => plane.stop());

  describe('commands of a user with rights in one namespace', () => {
    it('if the caller may not read the rule of a copy, explain calls the copy unknown and not an orphan', async () => {
      const { verdict, summary, owner, next } = await explained(
        asTenant('explain', 'secret', 'web/registry', '-o', 'json'),
      );
      assert.deepEqual([verdict, owner, next], ['unknown', 'SecretMirror platform/registry', null]);
      assert.match(summary, /has the mark of SecretMirror platform\/registry.*: you may not read it\.$/);
    });

    it('if the caller may not list namespaces, explain of a rule notes that it does not know the other namespaces that the rule selects', async () => {
      const { notes } = await explained(asTenant('explain', 'secretmirror', 'web/session', '-o', 'json'));
      assert.doesNotMatch(notes.join('\n'), /matches/);
      assert.match(notes.join('\n'), /not known which other namespaces it selects: no permission to list them/);
    });

    it('if the caller may not list copies, status shows ? as their number', async () => {
      const { stdout } = await asTenant('status', '-n', 'web');
      assert.match(stdout, /^✓ +mirrors +SecretMirror web\/session +\? +never +Active$/m);
    });

    it('if the caller may not list Deployments, status says nothing of an original that may run', async () => {
      const { code, stdout, stderr } = await asTenant('status', '-n', 'web', '--controllers=mirrors');
      assert.deepEqual([code, stderr], [0, '']);
      assert.doesNotMatch(stdout, /deployments|still runs/i);
    });

    it('a command that lacks a right fails, and its error names verb, resource and namespace', async () => {
      for (const [args, right] of [
        [['explain', 'secret', 'sandbox/session'], 'list secrets in namespace sandbox'],
        [['status', '-n', 'sandbox'], 'list (secrets|secretmirrors.mirrors.kts.studio) in namespace sandbox'],
        [
          ['status', '--namespaces=web,sandbox'],
          'list (secrets|secretmirrors.mirrors.kts.studio) in namespace sandbox',
        ],
        [['status'], 'list (secrets|namespaces|secretmirrors.mirrors.kts.studio) in the whole cluster'],
      ] as const) {
        const { code, stdout, stderr } = await asTenant(...args);
        assert.deepEqual([code, stdout], [1, ''], stderr);
        assert.match(stderr, new RegExp(`no permission to ${right}: .*403 Forbidden`));
        assert.equal(stderr.trim().split('\n').length, 1, stderr);
      }
    });

    it('without permission for the whole cluster, plan fails and names --namespaces; with that flag it works, and leaves out SyncSecrets', async () => {
      const manifest = stringify(rule('web', 'session', { namespaces: ['web'] }));
      const plan = async (input: string, ...args: readonly string[]): Promise<ProgramResult> =>
        await runProgram(['plan', '-', '--kubeconfig', tenant, ...args], input);
      const bare = await plan(manifest);
      assert.equal(bare.code, 1);
      assert.match(
        bare.stderr,
        /no permission to list .* in the whole cluster: .*403 Forbidden.*; to read only some namespaces, name them with --namespaces\n/,
      );
      const narrow = await plan(manifest, '--namespaces=web');
      assert.equal(narrow.code, 0, narrow.stderr);
      assert.match(
        narrow.stdout,
        /rights: SyncSecrets are not included: no permission to list syncsecrets.* in namespace web$/m,
      );
      const needed = await plan(
        'apiVersion: kubelb.k8c.io/v1alpha1\nkind: SyncSecret\nmetadata: {name: s}\n',
        '--namespaces=web',
      );
      assert.deepEqual([needed.code, /syncsecrets: 403/.test(needed.stderr)], [1, true], needed.stderr);
    });
  });

  it('without permission to list SyncSecrets, plan works; status --orphans names no copy, because a SyncSecret may use it', async () => {
    const rules = [
      { apiGroups: [''], resources: ['secrets', 'configmaps', 'namespaces'], verbs: ['get', 'list'] },
      { apiGroups: [''], resources: ['namespaces'], verbs: ['create'] },
      { apiGroups: ['mirrors.kts.studio'], resources: ['secretmirrors'], verbs: ['get', 'list', 'create', 'patch'] },
      { apiGroups: ['apps'], resources: ['deployments'], verbs: ['list'] },
    ];
    const rbac = { apiVersion: `${RBAC}/v1`, metadata: { name: READER } };
    await plane.api.create({ ...rbac, kind: 'ClusterRole', rules });
    const roleRef = { apiGroup: RBAC, kind: 'ClusterRole', name: READER };
    const subjects = [{ apiGroup: RBAC, kind: 'User', name: READER }];
    await plane.api.create({ ...rbac, kind: 'ClusterRoleBinding', roleRef, subjects });
    await waitForRights(plane.api, { user: READER, groups: [] }, '', ['core/secrets: list', 'core/namespaces: create']);
    const kubeconfig = await plane.writeKubeconfig({ token: plane.tokenFor(READER) });
    const planned = await runProgram(['plan', '-', '--kubeconfig', kubeconfig], stringify(namespace('new')));
    assert.deepEqual([planned.code, planned.stderr], [0, '']);
    const marks = {
      'k8s-replicator/replicated-by': 'web/gone',
      'k8s-replicator/replicated-at': '2026-01-02T03:04:05Z',
    };
    await plane.api.create(
      secret('default', 'left', 'x', { metadata: { name: 'left', namespace: 'default', annotations: marks } }),
    );
    const byAdmin = await run('status', '--orphans', '-o', 'name');
    assert.match(byAdmin.stdout, /^-n default secret\/left$/m);
    const orphans = await runProgram(['status', '--orphans', '-o', 'name', '--kubeconfig', kubeconfig]);
    assert.deepEqual([orphans.code, orphans.stdout], [0, '']);
    assert.match(orphans.stderr, /no permission to list syncsecrets\.kubelb\.k8c\.io in the whole cluster$/m);
  });

  describe('commands that read only some namespaces', () => {
    it('with --namespaces, explain names the flag if the namespace of an object is left out', async () => {
      for (const [object, summary] of [
        [
          'other/registry',
          'Secret other/registry does not exist, and namespace other is not one of those of --namespaces.',
        ],
        [
          'platform/registry',
          'Secret platform/registry is left alone: namespace platform is not one of those of --namespaces.',
        ],
      ] as const) {
        const found = await explained(run('explain', 'secret', object, SERVED, '-o', 'json'));
        assert.equal(found.summary, summary);
      }
      const { verdict, summary } = await explained(run('explain', 'secret', 'web/registry', SERVED, '-o', 'json'));
      assert.equal(verdict, 'unknown');
      assert.match(summary, /: namespace platform is not one of those of --namespaces\.$/);
      const mine = await explained(run('explain', 'secretmirror', 'web/session', SERVED, '-o', 'json'));
      assert.match(mine.notes.join('\n'), /no other namespace of --namespaces matches spec\.destination\.namespaces/);
      const unserved = await explained(run('explain', 'secretmirror', 'platform/registry', SERVED, '-o', 'json'));
      assert.doesNotMatch(unserved.notes.join('\n'), /Keyferry serves SecretMirrors/);
    });

    it('with --namespaces, plan explains a missing copy by this flag, and not by the namespaces that Keyferry serves', async () => {
      const labelled = { namespaceSelector: { matchLabels: { team: 'a' } } };
      const { problems, notes } = await planned(
        [rule('web', 'named', { namespaces: ['billing'] }), rule('web', 'labelled', labelled)],
        '--namespaces=web',
      );
      const said = JSON.stringify([problems, notes]);
      assert.match(said, /\\"billing\\" is not one of the namespaces of --namespaces/);
      assert.match(said, /namespaceSelector: the labels of the namespaces of --namespaces are not read/);
      assert.match(said, /Only the namespaces of --namespaces are included: web/);
      assert.doesNotMatch(said, /Keyferry/);
    });

    it('if --namespaces leaves out the namespace of a rule, plan notes it and shows no copy of the rule', async () => {
      const { problems, notes, targets } = await planned(
        [rule('platform', 'new', { namespaces: ['web'] })],
        '--namespaces=web',
      );
      assert.deepEqual([problems, targets], [[], []]);
      assert.deepEqual(
        notes.filter((one) => one.rule === 'SecretMirror platform/new').map(({ note }) => note),
        ['namespace platform is not one of those of --namespaces'],
      );
    });
  });

  describe('commands with limits for rules', () => {
    before(async () => {
      const { api } = plane;
      await api.createMany(['lim-a', 'lim-b', 'lim-c'].map((name) => namespace(name)));
      await api.create(secret('other', 'lim', 'x'));
      await api.create(rule('other', 'lim', { namespaces: ['lim-.*'] }));
      for (const where of ['lim-a', 'lim-b']) await api.create(copy(where, 'lim', 'other/lim'));
    });

    it('plan gives the limit, the missing consent or the exclusion as the reason why a copy is deleted', async () => {
      const whys = async (destination: object, ...args: readonly string[]): Promise<string[]> => {
        const { targets } = await planned([rule('other', 'lim', destination)], ...args);
        return targets.filter(({ action }) => action === 'delete').map((one) => `${one.namespace} ${one.reason}`);
      };
      const all = { namespaces: ['lim-.*'] };
      assert.deepEqual(await whys(all, '--excluded-namespaces=lim-b'), [
        'lim-b NotPermitted: copies into namespace lim-b are not permitted by --excluded-namespaces',
      ]);
      assert.deepEqual(await whys(all, '--require-consent'), [
        `lim-a NotAccepted: namespace lim-a does not accept copies from namespace other (no annotation ${CONSENT}, and --require-consent is on)`,
        `lim-b NotAccepted: namespace lim-b does not accept copies from namespace other (no annotation ${CONSENT}, and --require-consent is on)`,
      ]);
      assert.deepEqual(await whys({ ...all, excludedNamespaces: ['lim-a'] }), [
        'lim-a excluded by spec.destination.excludedNamespaces',
      ]);
      assert.deepEqual(await whys({ namespaces: ['lim-a'] }), ['lim-b no longer selected by SecretMirror other/lim']);
    });

    it('if a namespace does not accept a copy, explain names the namespace in the reason', async () => {
      const { verdict, summary, others } = await explained(
        run('explain', 'secret', 'lim-c/lim', '--require-consent', '-o', 'json'),
      );
      assert.equal(verdict, 'absent');
      assert.match(summary, /because the rule that asks for it does not copy there \(below\)/);
      assert.match(others[0]?.why ?? '', /^NotAccepted: namespace lim-c does not accept copies from namespace other/);
    });

    it("if the condition of a rule differs from explain's own answer, explain prints that condition, too", async () => {
      const message = 'copies into namespace lim-c are not permitted by --excluded-namespaces';
      await condition('other', 'lim', 'NotPermitted', message);
      const advice = 'either the server refuses the write, or the operator has other flags than this command';
      const { verdict, summary, notes } = await explained(run('explain', 'secret', 'lim-c/lim', '-o', 'json'));
      const said = `the condition of SecretMirror other/lim says NotPermitted: ${message}: ${advice}`;
      assert.equal(verdict, 'missing');
      assert.ok(summary.endsWith(`: ${said}.`), summary);
      assert.ok(notes.includes(said), notes.join('\n'));
      const failed = await run('status', '--failed', '-n', 'other', '-o', 'json');
      const seen = statusSchema.parse(JSON.parse(failed.stdout));
      const failing = seen.rules.find(({ name }) => name === 'lim')?.failing;
      const target = failing?.find(({ namespace }) => namespace === 'lim-c');
      assert.equal(target?.message, `Keyferry will create it, but ${said}`);
      assert.match(
        seen.notes.join('\n'),
        /^Whether Keyferry will write the Outdated targets \(3, see --failed\) depends on its flags/m,
      );
      const same = await explained(run('explain', 'secret', 'lim-a/lim', '--excluded-namespaces=lim-b', '-o', 'json'));
      assert.doesNotMatch(same.notes.join('\n'), /the condition of/, 'the same reason');
      await condition('other', 'lim', 'Synced', `1 copy is up to date; NotPermitted: ${message}`);
      const ready = await explained(run('explain', 'secret', 'lim-c/lim', '-o', 'json'));
      assert.equal(ready.verdict, 'missing');
      assert.match(
        ready.notes.join('\n'),
        /^the condition of SecretMirror other\/lim says Synced: .*lim-c.*; .* give it the same flags$/m,
      );
      // The status now belongs to an older generation of the spec, so its condition no longer counts.
      await plane.api.patch(`${REQUESTED}/other/secretmirrors/lim`, { spec: { deletePolicy: 'retain' } });
      const older = await explained(run('explain', 'secret', 'lim-c/lim', '-o', 'json'));
      assert.match(older.summary, /Keyferry will create it/);
    });

    it('status --failed also shows a rule that is ready but has a pattern like a glob, with its excluded namespaces', async () => {
      const destination = { namespaces: ['lim-.*', 'lam-*'], excludedNamespaces: ['lim-c'] };
      await plane.api.create(rule('web', 'globs', destination));
      await condition('web', 'globs', 'Synced', '2 copies are up to date');
      const { stdout, stderr } = await run('status', '--failed', '-n', 'web', '-o', 'json');
      const found = statusSchema.parse(JSON.parse(stdout)).rules.find(({ name }) => name === 'globs');
      assert.deepEqual([found?.ready, found?.destinations], [true, ['lim-.*', 'lam-*', 'except lim-c']], stderr);
      assert.match(found?.warnings.join() ?? '', /namespaces\[1\]: "lam-\*" matches no namespace.*write lam-\.\*$/);
      const told = await run('explain', 'secretmirror', 'web/globs');
      assert.match(told.stdout, /^Asks for +copies of secret web\/globs in lim-\.\*,lam-\*,except lim-c$/m);
      await plane.api.delete(`${REQUESTED}/web/secretmirrors/globs`);
    });

    it('explain says that a rule is suspended, and prints an empty namespaceSelector as "all namespaces"', async () => {
      await plane.api.create(secret('other', 'halt', 'x'));
      await plane.api.create(rule('other', 'halt', { namespaceSelector: {} }, { suspend: true }));
      const { summary, others } = await explained(run('explain', 'secret', 'lim-c/halt', '-o', 'json'));
      assert.match(summary, /does not copy there \(below\)/);
      assert.match(others[0]?.why ?? '', /^spec\.suspend is true/);
      assert.deepEqual(others[0]?.destinations, ['all namespaces']);
      await plane.api.create(rule('other', 'none', { namespaceSelector: { matchLabels: { tier: 'none' } } }));
      const { notes } = await explained(run('explain', 'secretmirror', 'other/none', '-o', 'json'));
      assert.ok(notes.includes('no other namespace matches spec.destination.namespaceSelector'), notes.join('\n'));
    });

    it('explain of a clone says that its mark does not count, and gives the reason', async () => {
      await plane.api.create(copy('lim-c', 'clone', 'platform/registry', 'web/registry'));
      const { verdict, summary } = await explained(run('explain', 'secret', 'lim-c/clone', '-o', 'json'));
      assert.equal(verdict, 'unrelated');
      assert.match(
        summary,
        /is neither a copy nor a rule: it was cloned from the copy .*web\/registry; Keyferry ignores it/,
      );
    });
  });

  it('the output of status -o json fits the JSON Schema in docs/schemas/', async () => {
    const { stdout } = await run('status', '-o', 'json');
    assert.ok(statusSchema.parse(JSON.parse(stdout)).rules.length > 0);
  });
});
