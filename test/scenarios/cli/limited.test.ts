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
  /** Kubeconfig of a user with rights in the namespace `web` alone. */
  let tenant: string;
  /** Kubeconfig of a user with the rights for all but SyncSecrets. */
  let reader: string;

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
  const asReader = async (...args: readonly string[]): Promise<ProgramResult> =>
    await runProgram([...args, '--kubeconfig', reader]);
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
      { apiGroups: [''], resources: ['secrets', 'configmaps', 'namespaces'], verbs: ['get', 'list'] },
      // `plan` needs the rights to write the manifests, too: it sends them as dry runs.
      { apiGroups: ['mirrors.kts.studio'], resources: ['secretmirrors'], verbs: ['get', 'list', 'create', 'patch'] },
    ];
    const rbac = { apiVersion: `${RBAC}/v1`, metadata: { name: 'look' } };
    const roleRef = { apiGroup: RBAC, kind: 'ClusterRole', name: 'look' };
    const subjects = (name: string) => [{ apiGroup: RBAC, kind: 'User', name }];
    await api.create({ ...rbac, kind: 'ClusterRole', rules });
    await api.create({ ...rbac, kind: 'ClusterRoleBinding', roleRef, subjects: subjects(READER) });
    const here = { ...rbac, metadata: { name: 'look', namespace: 'web' } };
    await api.create({ ...here, kind: 'RoleBinding', roleRef, subjects: subjects(TENANT) });
    await waitForRights(api, { user: TENANT, groups: [] }, 'web', ['core/secrets: list']);
    await waitForRights(api, { user: READER, groups: [] }, '', ['core/secrets: list']);
    tenant = await plane.writeKubeconfig({ token: plane.tokenFor(TENANT), namespace: 'web' });
    reader = await plane.writeKubeconfig({ token: plane.tokenFor(READER) });
    await api.create(secret('platform', 'registry', 'x'));
    await api.create(secret('web', 'session', 'x'));
    await api.create(rule('platform', 'registry', { namespaces: ['web'] }));
    await api.create(copy('web', 'registry', 'platform/registry'));
    await api.create(rule('web', 'session', { namespaces: ['sandbox'] }));
    await api.create(copy('sandbox', 'session', 'web/session'));
    await condition('web', 'session', 'Synced', '1 copy is up to date');
  });
  after(() => plane.stop());

  describe('commands of a user with few rights', () => {
    const OWN = '--controllers=mirrors,replicator';

    it('with rights in one namespace alone, -n and explain read what --namespaces reads, and a note says why', async () => {
      const reported = async ({ stdout, stderr }: ProgramResult) => {
        assert.equal(stderr, '');
        const { notes, rules, orphans } = statusSchema.parse(JSON.parse(stdout));
        return { notes, rules, orphans };
      };
      const args = ['status', '-n', 'web', OWN, '-o', 'json'];
      const { notes, ...own } = await reported(await asTenant(...args));
      const { notes: usual, ...all } = await reported(await run(...args, SERVED));
      assert.deepEqual(own, all);
      // Its targets in other namespaces were not read, so what it says in its status counts.
      assert.deepEqual(
        own.rules.map(({ name, ready, reason }) => [name, ready, reason]),
        [['session', true, 'Synced']],
      );
      const limit = '--source-namespaces=selector:team=a';
      assert.deepEqual((await reported(await asTenant(...args, limit))).rules, own.rules, 'labels that were not read');
      const rights = ['namespaces', 'secrets', 'secretmirrors.mirrors.kts.studio', 'configmaps'].map(
        (resource) => `list ${resource} in the whole cluster`,
      );
      const [why, ...others] = notes;
      assert.deepEqual([usual[0], ...others], ['Only the namespaces of --namespaces are included: web']);
      for (const right of rights) assert.ok(why?.includes(right), `${right}: ${why}`);
      // Nobody knows whether a rule that cannot be read still wants its copy.
      const { verdict, summary, owner, next } = await explained(
        asTenant('explain', 'secret', 'web/registry', OWN, '-o', 'json'),
      );
      assert.deepEqual([verdict, owner, next], ['unknown', 'SecretMirror platform/registry', null]);
      assert.match(
        summary,
        /has the mark of SecretMirror platform\/registry.*: namespace platform is not one of those that this command may read\.$/,
      );
      // Its marks were not seen, because no controller that was read needs Secrets.
      const unlisted = await explained(
        run('explain', 'secret', 'web/registry', '--controllers=generator', '-o', 'json'),
      );
      assert.equal(unlisted.verdict, 'unknown', unlisted.summary);
    });

    it('a command that lacks rights fails, and its only line names them and what does without them', async () => {
      const mirrors = 'list secretmirrors\\.mirrors\\.kts\\.studio';
      const sync = 'list syncsecrets\\.kubelb\\.k8c\\.io';
      const sandbox = `${mirrors} in namespace sandbox, list secrets in namespace sandbox: .*403 Forbidden`;
      const others = 'not needed with --controllers=replicator,mirrors,generator$';
      const all = ['list configmaps', 'list namespaces', mirrors, 'list secrets', sync]
        .map((right) => `${right} in the whole cluster`)
        .join(', ');
      for (const [program, rights] of [
        [asTenant('explain', 'secret', 'sandbox/session'), 'list .* in namespace sandbox: .*403 Forbidden'],
        [asTenant('status', '-n', 'sandbox', '--controllers=mirrors'), sandbox],
        [asTenant('status', '--namespaces=web,sandbox', '--controllers=mirrors'), sandbox],
        [asTenant('status', '-n', 'web'), `${sync} in namespace web: .*; ${others}`],
        [asTenant('status'), `${all}: .*; to read only some namespaces, name them with --namespaces; `],
        [asReader('plan'), `${sync} in the whole cluster: .*--namespaces; ${others}`],
        // Any controller may use a copy, so nothing is printed that xargs could delete.
        [asReader('status', '--orphans', '-o', 'name'), `${sync} in the whole cluster: .* with --namespaces$`],
      ] as const) {
        const { code, stdout, stderr } = await program;
        assert.deepEqual([code, stdout], [1, ''], stderr);
        assert.match(stderr, new RegExp(`no permission to ${rights}`, 'm'));
        assert.equal(stderr.trim().split('\n').length, 1, stderr);
      }
    });

    it('a right that no chosen controller needs may be missing: of another controller, or of an API that is not installed', async () => {
      // No user here may list ExternalSecrets, and their API is not installed.
      const manifest = stringify(rule('web', 'fresh', { namespaces: ['web'] }));
      for (const [args, kubeconfig] of [
        [['plan', '-', OWN], reader],
        [['plan', '-', `${OWN},generator`, SERVED], tenant],
      ] as const) {
        const { code, stderr } = await runProgram([...args, '--kubeconfig', kubeconfig], manifest);
        assert.deepEqual([code, stderr], [0, '']);
      }
    });
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

    it('with --namespaces, plan explains a missing copy by this flag, and shows no copy of a rule that it leaves out', async () => {
      const labelled = { namespaceSelector: { matchLabels: { team: 'a' } } };
      const rules = [
        rule('web', 'named', { namespaces: ['billing'] }),
        rule('web', 'labelled', labelled),
        rule('platform', 'new', { namespaces: ['web'] }),
      ];
      const { problems, notes, targets } = await planned(rules, SERVED);
      const said = JSON.stringify([problems, notes]);
      assert.match(said, /no other namespace of --namespaces matches spec\.destination\.namespaces/);
      assert.match(said, /namespaceSelector: the labels of the namespaces of --namespaces are not read/);
      assert.match(said, /Only the namespaces of --namespaces are included: web/);
      assert.doesNotMatch(said, /Keyferry/);
      const [{ note } = { note: '' }, ...others] = notes.filter((one) => one.rule === 'SecretMirror platform/new');
      assert.equal(note, 'namespace platform is not one of those of --namespaces');
      assert.deepEqual([others, targets], [[], []]);
      assert.doesNotMatch(JSON.stringify(problems), /platform/);
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

    it('status --failed shows a mirror with an excluded namespace that looks like a glob, although its last condition is ready', async () => {
      const destination = { namespaces: ['lim-.*', 'lam'], excludedNamespaces: ['lim-*'] };
      await plane.api.create(rule('web', 'globs', destination));
      await condition('web', 'globs', 'Synced', '2 copies are up to date');
      const { stdout, stderr } = await run('status', '--failed', '-n', 'web', '-o', 'json');
      const found = statusSchema.parse(JSON.parse(stdout)).rules.find(({ name }) => name === 'globs');
      const expected = [false, 'MisreadPattern', ['lim-.*', 'lam', 'except lim-*']];
      assert.deepEqual([found?.ready, found?.reason, found?.destinations], expected, stderr);
      const told = await run('explain', 'secretmirror', 'web/globs');
      assert.match(told.stdout, /^Asks for +copies of secret web\/globs in lim-\.\*,lam,except lim-\*$/m);
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
});
