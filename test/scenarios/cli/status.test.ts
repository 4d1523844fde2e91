/**
 * `keyferry status`: copies of the original, a user with few permissions, output for programs and terminals, a closed
 * pipe, and no server.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { parse, stringify } from 'yaml';

import { explainSchema, statusSchema } from '../../../scripts/reports/schemas.ts';
import type { StatusFindings } from '../../../src/commands/status/report.ts';
import { watchStatus } from '../../../src/commands/status.ts';
import type { Lister } from '../../../src/commands/snapshot/inventory.ts';
import { follow } from '../../../src/commands/snapshot/kept-lists.ts';
import { SECRET } from '../../../src/copy/model/kind.ts';
import { loadKubeconfig } from '../../../src/kube/auth/kubeconfig.ts';
import { HttpKubeApi } from '../../../src/kube/http.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import { kubeconfigYaml } from '../../servers/kubeconfig.ts';
import { freePort } from '../../servers/ports.ts';
import { proxied } from '../../servers/proxied.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { mirror, namespace, secret } from './objects.ts';
import { type ProgramResult, RunningProgram, runProgram } from './program.ts';

const OWNED_BY = 'mirrors.kts.studio/owned-by';
const TENANT = 'tenant';
const NAMESPACE = { kind: 'Namespace', groupPath: '/api/v1', plural: 'namespaces' };
const BUNDLE = path.join(import.meta.dirname, '../../../dist/keyferry.cjs');
const NOWHERE = 12;
/** Every control sequence of a terminal starts with this character. */
const ESCAPE = '\u001B';

describe('keyferry status', () => {
  let plane: ControlPlane;
  before(async () => {
    plane = await startControlPlane({ controllerManager: false, crds: true, audit: true, users: [{ name: TENANT }] });
    await plane.api.createMany(['team-a', 'team-b', 'not-team-a', 'other'].map((name) => namespace(name)));
    await plane.api.create(secret('default', 'one', 'x'));
    await plane.api.create(mirror('old', 'one', ['team-.+']));
    for (const where of ['team-a', 'not-team-a', 'other']) await plane.api.create(original(where, 'default/old'));
    await plane.api.create(original('team-b', 'default/gone'));
  });
  after(() => plane.stop());

  /** A copy as the original makes it, without the label and annotations of Keyferry. */
  const original = (where: string, owner: string) =>
    secret(where, 'one', 'x', {
      metadata: {
        name: 'one',
        namespace: where,
        annotations: { [OWNED_BY]: owner, 'mirrors.kts.studio/parent-version': '7' },
      },
    });
  const run = async (...args: readonly string[]): Promise<ProgramResult> =>
    await runProgram(['status', '--kubeconfig', plane.kubeconfigPath, ...args]);
  const report = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await run('-o', 'json', ...args);
    assert.equal(code, 0, stderr);
    return statusSchema.parse(JSON.parse(stdout));
  };

  it('before Keyferry has ever run, status lists the copies of the original, also those that no pattern matches now', async () => {
    const { rules, orphans } = await report();
    assert.deepEqual(
      rules.map(({ name, copies }) => [name, copies.map((copy) => [copy.namespace, copy.sourceVersion])]),
      [['old', [['team-a', '7']]]],
    );
    const reported = Object.fromEntries(orphans.map((orphan) => [orphan.namespace, orphan.reason]));
    assert.deepEqual(Object.keys(reported).sort(), ['not-team-a', 'other', 'team-b']);
    assert.match(
      reported['not-team-a'] ?? '',
      /matches only a part of the name.*--mirrors-regex=search; Keyferry keeps it, because the original searches patterns in names$/,
    );
    assert.match(reported['other'] ?? '', /^no longer selected by its SecretMirror; Keyferry keeps it/);
    assert.match(
      reported['team-b'] ?? '',
      /^its SecretMirror does not exist; Keyferry keeps it, because the original may have retained it$/,
    );
    const searched = await report('--mirrors-regex=search');
    assert.deepEqual(
      searched.rules.map(({ copies }) => copies.map((copy) => copy.namespace)),
      [['not-team-a', 'team-a']],
    );
    assert.ok(!searched.orphans.some((orphan) => orphan.namespace === 'not-team-a'));
  });

  it('status lists every namespace where a copy fails, and with --failed only the rules with a failing copy', async () => {
    const names = Array.from({ length: NOWHERE }, (_, index) => `full-${String(index).padStart(2, '0')}`);
    await plane.api.createMany(names.map((name) => namespace(name)));
    await plane.api.createMany(names.map((name) => secret(name, 'one', 'theirs')));
    await plane.api.create(mirror('full', 'one', ['full-.+']));
    await plane.api.create(mirror('fine', 'one', ['nowhere']));
    const fine = '/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/fine';
    const { generation } = (await plane.api.get(fine)).metadata;
    const ready = {
      type: 'Ready',
      status: 'True',
      reason: 'Synced',
      message: '',
      lastTransitionTime: '2026-01-01T00:00:00Z',
    };
    const status = { mirrorStatus: 'Active', observedGeneration: generation as number, conditions: [ready] };
    await plane.api.patch(`${fine}/status`, { status });
    const all = await report();
    assert.deepEqual(
      all.rules.map(({ name, failing }) => [name, failing.length]),
      [
        ['fine', 0],
        ['full', NOWHERE],
        ['old', 2],
      ],
    );
    const { rules, orphans } = await report('--failed');
    assert.deepEqual(
      orphans.map(({ namespace, verdict }) => [namespace, verdict]),
      [['other', 'leftover']],
      'the others cannot be judged',
    );
    assert.deepEqual(
      rules.map(({ name }) => name),
      ['full', 'old'],
    );
    assert.deepEqual(
      rules[0]?.failing.map((target) => `${target.state} ${target.reason} ${target.namespace}`),
      names.map((name) => `conflict Conflict ${name}`),
    );
    // The original made one of these copies. The other copy belongs to a deleted mirror.
    assert.deepEqual(
      rules[1]?.failing.map((target) => `${target.state} ${target.namespace}`),
      ['pending team-a', 'conflict team-b'],
    );
    const { stdout } = await run('--failed');
    assert.equal(
      stdout.split('\n').filter((line) => /^Secret +full-\d\d +one +SecretMirror default\/full /.test(line)).length,
      NOWHERE,
    );
    assert.doesNotMatch(stdout, / fine |^COPY/m);
  });

  it('status -o yaml has the same fields as -o json, and -A includes all namespaces', async () => {
    const { stdout } = await run('-A', '-n', 'other', '-o', 'yaml');
    assert.deepEqual(statusSchema.parse(parse(stdout)), await report());
  });

  it('status -n NAMESPACE needs permissions only in that namespace', async () => {
    const role = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'look' };
    const rules = [
      { apiGroups: [''], resources: ['secrets', 'configmaps'], verbs: ['get', 'list'] },
      { apiGroups: ['mirrors.kts.studio'], resources: ['secretmirrors'], verbs: ['list'] },
    ];
    const metadata = { name: 'look', namespace: 'team-a' };
    const rbac = { apiVersion: 'rbac.authorization.k8s.io/v1', metadata };
    await plane.api.create({ ...rbac, kind: 'Role', rules });
    const subjects = [{ apiGroup: role.apiGroup, kind: 'User', name: TENANT }];
    await plane.api.create({ ...rbac, kind: 'RoleBinding', roleRef: role, subjects });
    using tenant = plane.client({ token: plane.tokenFor(TENANT) });
    const isBound = async (): Promise<boolean> =>
      (await tenant.raw('GET', '/api/v1/namespaces/team-a/secrets')).status === 200;
    await waitFor(isBound, { message: 'the permissions to be in force' });
    const mine = mirror('mine', 'own', ['team-.+']);
    await plane.api.create({ ...mine, metadata: { name: 'mine', namespace: 'team-a' } });
    const annotated = (name: string, annotations: object) =>
      secret('team-a', name, 'x', { metadata: { name, namespace: 'team-a', annotations } });
    await plane.api.create(annotated('push', { 'k8s-replicator/replicate-to': 'team-b/x' }));
    await plane.api.create(annotated('pull', { 'k8s-replicator/replicate-from': 'team-b/x' }));
    await plane.api.create(annotated('here', { 'k8s-replicator/replicate-from': 'team-a/missing' }));
    const kubeconfig = await plane.writeKubeconfig({ token: plane.tokenFor(TENANT) });
    const own = ['--kubeconfig', kubeconfig, '--controllers=mirrors,replicator'];
    const reported = await runProgram(['status', ...own, '-n', 'team-a', '-o', 'json']);
    assert.equal(reported.code, 0, reported.stderr);
    const seen = statusSchema.parse(JSON.parse(reported.stdout));
    assert.deepEqual(
      seen.rules.map(({ name, state, reason }) => `${name} ${state} ${reason}`),
      ['mine Unknown NotSeen', 'here Waiting NoSecret', 'pull Unknown Limited', 'push Unknown Limited'],
    );
    const failed = await runProgram(['status', ...own, '-n', 'team-a', '--failed', '-o', 'json']);
    assert.deepEqual(
      statusSchema.parse(JSON.parse(failed.stdout)).rules.map(({ name }) => name),
      ['mine', 'here'],
    );
    const unknown = ['explain', 'secret', 'team-a/nothing', ...own, '-o', 'json'];
    assert.equal(explainSchema.parse(JSON.parse((await runProgram(unknown)).stdout)).verdict, 'unknown');
    // The user has permission to list SecretMirrors, but not to get a single one.
    for (const [name, verdict] of [
      ['mine', 'rule'],
      ['nothing', 'absent'],
    ] as const) {
      const args = ['explain', 'secretmirror', `team-a/${name}`, ...own, '-o', 'json'];
      const { object, summary, ...seen } = explainSchema.parse(JSON.parse((await runProgram(args)).stdout));
      assert.deepEqual([object.exists, seen.verdict], [verdict === 'rule', verdict], summary);
    }
  });

  it('status -o wide shows the destinations of rules and the targets that fail', async () => {
    const { stdout } = await run('-o', 'wide', '-n', 'default');
    assert.match(stdout, /^SYSTEM +NAMESPACE +NAME +SOURCE +DESTINATIONS +STATE .*\n/);
    assert.match(stdout, /\nmirrors +default +old +secret default\/one +team-\.\+ +Unknown +False /);
    assert.match(stdout, /\nFAILING .*\nSecret +full-00 +one +SecretMirror default\/full +Conflict: /);
    assert.match(stdout, /\nCOPY .*\nORPHAN /s);
  });

  it('status has colours on a terminal, but not in a pipe or with NO_COLOR', async () => {
    const onTerminal = async (environment: string): Promise<string> => {
      // With the variable CI, Node would assume a terminal without colours.
      const status = `${process.execPath} ${BUNDLE} status --failed --kubeconfig ${plane.kubeconfigPath}`;
      const command = `env -u CI ${environment} ${status}`;
      const child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null']);
      child.stdin.end();
      return await text(child.stdout);
    };
    const { stdout } = await run('--failed');
    assert.ok(!stdout.includes(ESCAPE));
    const colourful = await onTerminal('TERM=xterm NO_COLOR=');
    assert.ok(colourful.includes(ESCAPE));
    assert.equal(stripVTControlCharacters(colourful).replaceAll('\r\n', '\n'), stdout);
    for (const environment of ['TERM=xterm NO_COLOR=1', 'TERM=dumb NO_COLOR=']) {
      assert.equal((await onTerminal(environment)).replaceAll('\r\n', '\n'), stdout, environment);
    }
  });

  describe('keyferry status --watch', () => {
    const LATE = '/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/late';

    it('status --watch prints each change, continues after its connection was lost, and ends at SIGINT', async () => {
      const { proxy, kubeconfig } = await proxied(plane);
      await using _ = proxy;
      await using watch = new RunningProgram(['status', '-w', '--kubeconfig', kubeconfig]);
      await watch.seen('stdout', /^\d+ rules, .* not ready: /);
      await plane.api.create(mirror('late', 'one', ['nowhere']));
      await watch.seen('stdout', /\n20\S+Z {2}rule added {2}SecretMirror default\/late {2}Unknown, 0 copies, /);
      await proxy.refuse();
      await watch.seen('stderr', /^keyferry status: 20\S+Z the status may be out of date: .*; trying again\n/);
      await plane.api.delete(LATE);
      await proxy.accept();
      await watch.seen('stdout', /\n20\S+Z {2}rule gone {2}SecretMirror default\/late /);
      await watch.seen('stderr', /\nkeyferry status: 20\S+Z the status is up to date again\n$/);
      assert.deepEqual(await watch.interrupt(), [0, null]);
    });

    it('without permission to watch, status --watch fails and names the right', async () => {
      const kubeconfig = await plane.writeKubeconfig({ token: plane.tokenFor(TENANT) });
      const args = ['status', '-w', '-n', 'team-a', '--controllers=mirrors', '--kubeconfig', kubeconfig];
      const { code, stdout, stderr } = await runProgram(args);
      assert.deepEqual([code, stdout], [1, '']);
      assert.match(stderr, /no permission to list and watch secretmirrors\S+ in namespace team-a, .*cannot watch/);
    });

    it('a kind that may be listed but not watched is no change, and causes no second report', async () => {
      const path = await plane.writeKubeconfig({ token: plane.tokenFor(TENANT) });
      await using api = new HttpKubeApi(await loadKubeconfig({ path, env: {} }));
      const stop = new AbortController();
      let reports = 0;
      const report = async (lister: Lister): Promise<void> => {
        await assert.rejects(
          lister(SECRET, ['team-a'], () => undefined),
          /cannot watch/,
        );
        reports += 1;
      };
      const following = follow(api, { report, onReport: () => undefined, onState: () => undefined }, stop.signal);
      try {
        await waitFor(() => reports === 1, { message: 'the first report' });
        await staysTrue(() => reports === 1, 1000, 'no second report');
      } finally {
        stop.abort();
        await following;
      }
    });

    it('status --watch prints a change that happens while it makes its first report', async () => {
      const connection = await loadKubeconfig({ path: plane.kubeconfigPath, env: {} });
      await using api = new HttpKubeApi(connection);
      const stop = new AbortController();
      const printed: string[] = [];
      const listed = async (lister: Lister): Promise<string[]> => {
        const names: string[] = [];
        await lister(NAMESPACE, undefined, ({ metadata }) => names.push(metadata.name));
        return names;
      };
      const report = async (lister: Lister): Promise<StatusFindings> => {
        const notes = await listed(lister);
        if (!notes.includes('during')) {
          await plane.api.create(namespace('during'));
          // Waits until a list has the namespace. So its watch event comes before the first report, which does not have
          // the namespace.
          await waitFor(async () => (await listed(lister)).includes('during'), { message: 'the event' });
        }
        const known = { apiVersion: 'keyferry.dev/v1', kind: 'Status', cluster: '', systems: [], leaders: [] } as const;
        const report = { ...known, notes, namespaces: [], rules: [], orphans: [] };
        return { report, ruleNames: '', isMissing: false };
      };
      const stdout = (text: string): void => void printed.push(text);
      const context = { api, report, stdout, stderr: stdout, now: () => 0, paint: (text: string) => text };
      const options = { output: 'json', failed: false, orphans: false, copies: false, namespace: undefined } as const;
      const watching = watchStatus({ ...context, signal: stop.signal }, options);
      try {
        await waitFor(() => printed.length >= 2, { message: 'the second report' });
      } finally {
        stop.abort();
        await watching;
      }
      assert.deepEqual(
        printed.map((line) => line.includes('"during"')),
        [false, true],
      );
    });

    it('status --watch -o json prints one report per line, and ends when its pipe is closed', async () => {
      const args = ['status', '-w', '--failed', '-o', 'json', '--kubeconfig', plane.kubeconfigPath];
      await using watch = new RunningProgram(args);
      await watch.seen('stdout', /\n/);
      await plane.api.create(mirror('late', 'one', ['nowhere']));
      await watch.seen('stdout', /\n.*\n/);
      const [before = [], after] = watch.stdout
        .trimEnd()
        .split('\n')
        .map((line) => statusSchema.parse(JSON.parse(line)).rules.map(({ name }) => name));
      assert.deepEqual(after?.toSorted(), [...before, 'late'].toSorted());
      const ended = watch.closePipe();
      await plane.api.delete(LATE);
      assert.deepEqual(await ended, [0, null]);
    });
  });

  it('if their pipe is closed, status, crds and plan end without a message', async () => {
    const input = stringify(mirror('piped', 'one', ['team-.+']));
    for (const [args, expected] of [
      [['status'], 0],
      [['status', '-o', 'json'], 0],
      [['crds'], 0],
      [['plan', '-', '--all'], 3],
    ] as const) {
      const cluster = args[0] === 'crds' ? [] : ['--kubeconfig', plane.kubeconfigPath];
      const child = spawn(process.execPath, [BUNDLE, ...args, ...cluster], { stdio: ['pipe', 'pipe', 'pipe'] });
      // The pipe is closed before the first output, so every write fails with EPIPE.
      child.stdout.destroy();
      child.stdin.end(input);
      const [stderr, code] = await Promise.all([
        text(child.stderr),
        new Promise<number | null>((resolve) => child.once('close', resolve)),
      ]);
      assert.deepEqual([stderr, code], ['', expected], args.join(' '));
    }
  });

  it('if the cluster cannot be reached, status and plan name context and server, but no credentials', async () => {
    const port = await freePort();
    const file = path.join(plane.folder, 'unreachable.kubeconfig');
    const token = 'token-that-must-not-appear';
    await writeFile(file, kubeconfigYaml({ server: `https://127.0.0.1:${port}`, token }));
    for (const args of [['status'], ['plan', '-']]) {
      const { code, stderr } = await runProgram([...args, '--kubeconfig', file], stringify(namespace('x')));
      assert.equal(code, 1);
      assert.ok(stderr.includes(`https://127.0.0.1:${port} (${file}, context "test"): `), stderr);
      assert.match(stderr, /ECONNREFUSED/);
      assert.ok(!stderr.includes(token));
    }
    const stranger = await plane.writeKubeconfig({ token });
    const refused = await runProgram(['status', '--kubeconfig', stranger]);
    assert.equal(refused.code, 1);
    assert.ok(refused.stderr.includes(`${plane.url} (${stranger}, context "test"): `), refused.stderr);
    assert.match(refused.stderr, /401 Unauthorized/);
    assert.ok(!refused.stderr.includes(token));
  });
});
