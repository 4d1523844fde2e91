/**
 * `keyferry status --orphans` and the line of docs/commands.md that deletes what it names, with the real kubectl: among
 * copies that originals and Keyferry left behind are live sources, live copies, and objects with forged marks.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { symlink } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';

import { explainSchema, planSchema, statusSchema } from '../../../../scripts/reports/schemas.ts';

import { type ControlPlane, startControlPlane } from '../../../servers/control-plane.ts';
import { ensureServer } from '../../../servers/ensure.ts';
import { Reaper } from '../../../servers/reaper.ts';
import { failOnLeaks } from '../../../support/leaks.ts';
import { codeBlocks } from '../../../support/markdown.ts';
import { mirror } from '../../cli/objects.ts';
import { type ProgramResult, runProgram } from '../../cli/program.ts';

const ROOT = path.join(import.meta.dirname, '../../../..');
const REPLICATOR = 'k8s-replicator/';
const REFLECTOR = 'reflector.v1.k8s.emberstack.com/';
const MITTWALD = 'replicator.v1.mittwald.de/';
const VALUE = 'generalkenobi';

type Texts = Readonly<Record<string, string>>;

let plane: ControlPlane;
const resources = new AsyncDisposableStack();

/** The annotations of a copy that k8s-replicator made. */
const replicated = (source: string, more: Texts = {}): Texts => ({
  [`${REPLICATOR}replicated-by`]: source,
  [`${REPLICATOR}replicated-at`]: '2026-01-02T03:04:05Z',
  [`${REPLICATOR}replicated-from-version`]: '1',
  ...more,
});
const reflected = (source: string): Texts => ({
  [`${REFLECTOR}reflected-version`]: '1',
  [`${REFLECTOR}reflects`]: source,
  [`${REFLECTOR}auto-reflects`]: 'True',
});
const mirrored = (owner: string, more: Texts = {}): Texts => ({
  'mirrors.kts.studio/owned-by': owner,
  'mirrors.kts.studio/parent-version': '1',
  ...more,
});
const to = (namespaces: string): Texts => ({ [`${REPLICATOR}replicate-to-namespaces`]: namespaces });
const place = (where: string): Texts => ({ 'keyferry.dev/target': where });
const auto = (namespaces = '.*'): Texts => ({
  [`${REFLECTOR}reflection-allowed`]: 'true',
  [`${REFLECTOR}reflection-auto-enabled`]: 'true',
  [`${REFLECTOR}reflection-auto-namespaces`]: namespaces,
});

/** The annotations of a copy that Keyferry made by annotations of kubernetes-replicator. */
const pushed = (source: string, mark = 'replicated-from', keys = 'password'): Texts => ({
  [`keyferry.dev/${mark}`]: source,
  [`${MITTWALD}replicated-keys`]: keys,
  [`${MITTWALD}replicated-from-version`]: '1',
});

/** Copies that nothing needs. */
const LEFT: Readonly<Record<string, Texts>> = {
  'team-a/gone': replicated('home/gone'),
  'team-a/plain': replicated('home/plain'),
  'team-b/narrowed': replicated('home/narrowed'),
  'team-a/mirror': reflected('home/mirror'),
  'team-b/auto': reflected('home/auto'),
  'other/one': mirrored('home/live'),
  // Keyferry made these. It deletes them when it starts.
  'team-a/ours': replicated('home/ours', place('team-a/ours')),
  'team-b/ours': mirrored('home/none', place('team-b/ours')),
  'team-b/pushed': { ...pushed('home/pushed'), ...place('team-b/pushed') },
};

/** Everything else: live sources and copies, objects that a rule uses or may want, and objects of users. */
const KEPT: Readonly<Record<string, Texts>> = {
  'home/narrowed': to('team-a'),
  'team-a/narrowed': replicated('home/narrowed'),
  'home/plain': {},
  'home/auto': auto('team-a'),
  'team-a/auto': reflected('home/auto'),
  'home/one': {},
  'team-a/one': mirrored('home/live'),
  // Sources, on which somebody wrote the marks of a copy.
  'home/forged': { ...replicated('other/forged', place('home/forged')), ...to('team-a') },
  'home/forged-too': { ...mirrored('other/none', place('home/forged-too')), ...auto('team-a') },
  'home/two': mirrored('other/none', place('home/two')),
  'home/three': reflected('other/three'),
  'team-a/source': { ...replicated('home/source'), ...to('team-b') },
  'team-a/middle': { ...reflected('home/middle'), ...auto('team-b') },
  // An object that another one is filled from.
  'team-a/used': replicated('home/used', { [`${REPLICATOR}replication-allowed`]: 'true' }),
  'team-b/uses': { [`${REPLICATOR}replicate-from`]: 'team-a/used' },
  'team-a/ours-used': replicated('home/ours-used', {
    ...place('team-a/ours-used'),
    [`${REPLICATOR}replication-allowed`]: 'true',
  }),
  'team-b/ours-uses': { [`${REPLICATOR}replicate-from`]: 'team-a/ours-used' },
  'team-a/filled': { ...replicated('home/filled'), [`${REPLICATOR}replicate-from`]: 'home/late' },
  // A rule of another kind wants it, or may want it.
  'other/wanted': auto('team-a'),
  'team-a/wanted': replicated('home/wanted'),
  'home/broken': to('team-['),
  'team-a/broken': replicated('home/broken'),
  'home/misread': auto('(a|b)\\1'),
  'team-a/misread': reflected('home/misread'),
  'other/synced': { 'kubed.appscode.com/sync': 'kubernetes.io/metadata.name=team-a' },
  'team-a/synced': replicated('home/synced'),
  'other/mitted': { [`${MITTWALD}replicate-to`]: 'team-a' },
  'team-a/mitted': replicated('home/mitted'),
  'team-a/drawn': replicated('home/drawn'),
  'team-b/draws': { [`${MITTWALD}replicate-from`]: 'team-a/drawn' },
  // kubernetes-replicator's own mark names no source. An object of a user only got keys.
  'team-b/nameless': { [`${MITTWALD}replicated-keys`]: 'password', [`${MITTWALD}replicated-from-version`]: '1' },
  'team-a/merged': { ...pushed('home/merged', 'merged-from', 'other'), ...place('team-a/merged') },
  'team-b/merged': { ...pushed('home/merged', 'merged-from'), ...place('team-b/merged') },
  'other/unsynced': { 'kubed.appscode.com/sync': '=' },
  'team-a/unsynced': replicated('home/unsynced'),
  // The original may have retained it, Keyferry retains it, or nobody knows who wrote the mark.
  'team-b/may-stay': mirrored('home/none'),
  'team-b/retained': mirrored('home/none', { ...place('team-b/retained'), 'keyferry.dev/retain': 'true' }),
  'team-a/by-hand': { [`${REPLICATOR}replicated-by`]: 'home/by-hand' },
  // A user cloned a copy: it is the user's.
  'team-b/cloned': replicated('home/gone', place('team-a/cloned')),
  'other/searched-team-a': {},
};

/** Creates the Secret. */
async function put(where: string, annotations: Texts, labels: Texts = {}): Promise<void> {
  const [namespace, name] = where.split('/');
  const metadata = { namespace, name, annotations, labels };
  await plane.api.create({ apiVersion: 'v1', kind: 'Secret', metadata, stringData: { password: VALUE } });
}

async function secrets(): Promise<string[]> {
  const all = await plane.api.list('/api/v1/secrets');
  return all.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`).toSorted();
}

async function run(...args: readonly string[]): Promise<ProgramResult> {
  const result = await runProgram([...args, `--kubeconfig=${plane.kubeconfigPath}`]);
  assert.ok(!`${result.stdout}${result.stderr}`.includes(VALUE), 'no value is printed');
  return result;
}

async function report(...args: readonly string[]) {
  const { stdout, stderr } = await run('status', '-o', 'json', ...args);
  assert.notEqual(stdout, '', stderr);
  return statusSchema.parse(JSON.parse(stdout));
}

const line = (where: string): string => `-n ${where.replace('/', ' secret/')}`;

before(async () => {
  plane = await startControlPlane({ controllerManager: false, crds: true });
  resources.defer(() => plane.stop());
  await plane.api.createNamespaces(['home', 'team-a', 'team-b', 'other']);
  for (const [where, annotations] of Object.entries({ ...LEFT, ...KEPT })) await put(where, annotations);
  // Its source may be in another cluster.
  const parts = { 'origin.name': 'far', 'origin.namespace': 'home', 'origin.cluster': '' };
  const labels = Object.entries(parts).map(([name, value]) => [`kubed.appscode.com/${name}`, value]);
  const origin = JSON.stringify({ namespace: 'home', name: 'far', uid: 'of-another-cluster', resourceVersion: '1' });
  await put('team-a/far', { 'kubed.appscode.com/origin': origin }, Object.fromEntries(labels));
  // KubeLB's synchronizer, or that of Keyferry, takes this copy to another cluster.
  await put('team-a/offered', replicated('home/offered'), { 'kubelb.k8c.io/managed-by': 'kubelb' });
  const inHome = (name: string, source: string, more: object = {}) => {
    return { ...mirror(name, source, ['team-a'], more), metadata: { name, namespace: 'home' } };
  };
  await plane.api.create(inHome('live', 'one'));
  await plane.api.create(inHome('two', 'two'));
  await plane.api.create(inHome('three', 'three'));
});
after(() => resources.disposeAsync());

describe('keyferry status --orphans', () => {
  it('names the copies that nothing needs, in lines for kubectl delete, and none that is a live source or that a live rule wants', async () => {
    const { stdout, stderr, code } = await run('status', '--orphans', '-o', 'name');
    assert.deepEqual(stdout.trimEnd().split('\n').toSorted(), Object.keys(LEFT).map(line).toSorted());
    assert.equal(code, 0);
    assert.match(stderr, /give this command the same flags/, 'the notes are not among the lines');
  });

  it('does so whatever controllers are named, because a rule of any of them may use a copy', async () => {
    const { stdout: all } = await run('status', '--orphans', '-o', 'name');
    for (const controllers of ['replicator', 'mirrors,reflector']) {
      const { stdout } = await run('status', '--orphans', '-o', 'name', `--controllers=${controllers}`);
      assert.equal(stdout, all, controllers);
    }
  });

  it('names nothing if it cannot read all: some namespaces only, or without a right', async () => {
    for (const args of [['--namespaces=team-a,team-b,home'], ['-n', 'home', '--namespaces=home']]) {
      const { stdout, code } = await run('status', '--orphans', '-o', 'name', ...args);
      assert.deepEqual([stdout, code], ['', 0], args.join(' '));
    }
    const { orphans } = await report('--orphans', '--namespaces=home,team-a');
    const gone = orphans.find(({ name }) => name === 'gone');
    assert.match(gone?.reason ?? '', /keeps it, because not all objects can be read/);
  });

  it('the table, JSON and YAML have each orphan with the reason, and no rules; plan and explain say the same', async () => {
    const { rules, orphans, leaders } = await report('--orphans');
    assert.deepEqual([rules, leaders], [[], []]);
    const reasons = new Map(orphans.map(({ namespace, name, reason }) => [`${namespace}/${name}`, reason]));
    const expected: Readonly<Record<string, RegExp>> = {
      'team-a/gone': /^its source does not exist; Keyferry keeps it without --adopt-orphans$/,
      'team-b/narrowed': /^its source does not request it; Keyferry keeps it$/,
      'team-a/ours': /^its source does not exist; Keyferry will delete it/,
      'team-a/ours-used': /^its source does not exist; Keyferry will delete it/,
      'team-a/used': /keeps it, because Secret team-b\/uses copies it$/,
      'team-a/wanted': /keeps it, because Secret other\/wanted claims it$/,
      'team-a/broken': /keeps it, because .*team-\[/,
      'team-a/misread': /keeps it, because .*reflection-auto-namespaces/,
      'team-b/may-stay': /keeps it, because the original may have retained it$/,
      'team-b/retained': /keeps it, because of deletePolicy retain$/,
      'team-a/offered': /keeps it, because the label .* offers it to the secret synchronizer$/,
      'team-a/mitted': /keeps it, because Secret other\/mitted claims it$/,
      'team-a/drawn': /keeps it, because Secret team-b\/draws (copies it|names it as its source)$/,
      'team-b/nameless': /^no source of this name pushes it; /,
      'team-a/merged': /; Keyferry will update it$/,
      'team-a/synced': /keeps it, because Secret other\/synced claims it$/,
      'team-a/unsynced': /keeps it, because Secret other\/unsynced may select it: /,
      'team-a/far': /keeps it, because its source may be in another cluster$/,
      'team-a/source': /keeps it, because it has the annotation/,
      'team-a/by-hand': /keeps it, because it has no annotation/,
    };
    for (const [where, pattern] of Object.entries(expected)) assert.match(reasons.get(where) ?? '', pattern, where);
    const { stdout: table } = await run('status', '--orphans');
    assert.match(table, /^ORPHAN +NAMESPACE +NAME +MARKED BY +WHY$/m);
    assert.match(
      table,
      /^Secret +team-a +gone +home\/gone +its source does not exist; Keyferry keeps it without --adopt-orphans$/m,
    );
    assert.match(
      table,
      /^Nothing needs 9 of \d+ copies\. To delete: .*status --orphans -o name \| xargs -rL1 kubectl/m,
    );
    assert.doesNotMatch(table, /^SYSTEM|No rules found/m);
    const plan = await run('plan', '-o', 'json', '--controllers=mirrors,replicator,reflector');
    const { targets } = planSchema.parse(JSON.parse(plan.stdout));
    const left = targets.find(({ namespace, name }) => `${namespace}/${name}` === 'team-a/gone');
    assert.deepEqual([left?.action, left?.reason], ['leave', reasons.get('team-a/gone')]);
    const { stdout: explained } = await run('explain', 'secret', 'team-a/gone', '-o', 'json');
    const { verdict, summary } = explainSchema.parse(JSON.parse(explained));
    assert.equal(verdict, 'orphan');
    assert.equal(summary, `Secret team-a/gone was a copy of home/gone: ${reasons.get('team-a/gone')}.`);
  });

  it('the line of docs/commands.md deletes these copies in all namespaces, and nothing else', async () => {
    const block = codeBlocks(readFileSync(path.join(ROOT, 'docs/commands.md'), 'utf8')).find(
      ({ text }) => text.includes('xargs') && text.includes('--orphans'),
    );
    const command =
      block?.text
        .split('\n')
        .find((one) => one.includes('xargs'))
        ?.replace(/ #.*$/, '') ?? '';
    const bin = await Reaper.shared().temporaryFolder('keyferry-bin-');
    await symlink(await ensureServer('kubectl'), path.join(bin, 'kubectl'));
    await symlink(path.join(ROOT, 'bin/keyferry.cjs'), path.join(bin, 'keyferry'));
    const env = { ...process.env, KUBECONFIG: plane.kubeconfigPath, PATH: `${bin}:${process.env['PATH'] ?? ''}` };
    const before = await secrets();
    const pipe = async (): Promise<string> =>
      (await promisify(execFile)('bash', ['-o', 'pipefail', '-ec', command], { env })).stdout;
    assert.equal((await pipe()).match(/^secret "[^"]+" deleted/gm)?.length, Object.keys(LEFT).length);
    assert.deepEqual(
      await secrets(),
      before.filter((where) => !Object.hasOwn(LEFT, where)),
    );
    assert.equal(await pipe(), '', 'without such a copy, kubectl does not run');
  });

  it('says if there is no orphan; --exit-code says if Keyferry will delete one', async () => {
    const { code } = await run('status', '--orphans', '--exit-code');
    assert.equal(code, 3, 'team-a/ours-used is still there');
    const { stdout } = await run('status', '--orphans', '-n', 'kube-public');
    assert.match(stdout, /^Every copy has a rule that wants it\.$/m);
  });
});

failOnLeaks();
